package pgstore

import (
	"context"
	"fmt"
	"math"
	"slices"

	"reprise"
)

const readStatement = `SELECT * FROM {schema}.page($1, $2, $3, $4, $5)`

// slabBytes is the size of the memory block that small batches of a page share.
const slabBytes = 64 << 10

// mostRoom bounds the memory allocated for a batch before its bytes arrive, because its stored size may be damaged.
const mostRoom = 16 << 20

// Read returns a page in one round trip; see reprise.Store. The first Read after a change of the server adopts the
// stream, which takes two more.
func (s *Store) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (
	_ reprise.Page, err error,
) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return reprise.Page{}, err
	}
	defer s.use.Leave()
	for try := 0; ; try++ {
		var c *collector
		p := new(params).text(key.String()).int8(bigint(after)).int8(int64(maxBytes)).int8(now()).
			bool(s.opts.FailoverKeeps)
		err := s.run(ctx, s.sql.read, p, func() takeRow {
			c = &collector{key: key, after: bigint(after), room: maxBytes}
			return c.take
		})
		if err == nil {
			err = c.whole()
		}
		if err == errForeign { //nolint:errorlint // ours, never wrapped
			if err := s.adopt(ctx, []claim{{key, c.page.Info.Epoch, min(after, math.MaxInt64) + 1}}); err != nil {
				return reprise.Page{}, err
			}
		}
		switch {
		case err == nil:
			return c.page, nil
		case err != errHole && err != errForeign: //nolint:errorlint // as whole documents
			return reprise.Page{}, err
		case try == maxTries:
			return reprise.Page{}, c.fault()
		}
	}
}

// collector builds a page from the rows of the SQL function page.
type collector struct {
	key     reprise.StreamKey
	after   int64
	room    int
	page    reprise.Page
	found   bool
	foreign bool
	gone    error
	next    uint64 // seq of the first event that is missing
	// piece is the index of the next row of the current batch; crc is the checksum that the whole batch must have.
	piece, crc int32
	slab       []byte
}

func (c *collector) take(row [][]byte) error {
	if len(row) != 11 {
		return fmt.Errorf("%w: the function page", ErrNotOurs)
	}
	if row[0] != nil {
		c.takeBatch(row)
		return nil
	}
	if row[6] == nil {
		c.gone = reprise.ErrNotFound
		if boolOf(row[9]) {
			c.gone = reprise.ErrExpired
		}
		return nil
	}
	var err error
	if _, c.page.Info, err = streamWithLineage(row[6], row[8]); err != nil {
		return fmt.Errorf("stream %s: %w", c.key, err)
	}
	if c.page.Info.Producers, err = producers(row[7]); err != nil {
		return fmt.Errorf("stream %s: %w", c.key, err)
	}
	c.found, c.foreign = true, boolOf(row[10])
	c.next = max(uint64(c.after)+1, c.page.Info.Earliest)
	return nil
}

// takeBatch adds a batch or a piece of one. It skips a row that does not follow the previous one, and whole then
// detects the gap.
func (c *collector) takeBatch(row [][]byte) {
	last, piece, bytes := uint64(int8Of(row[0])), int4Of(row[1]), row[5]
	list := c.page.Batches
	if piece > 0 {
		if len(list) == 0 || list[len(list)-1].Last() != last || piece != c.piece {
			return
		}
		b := &list[len(list)-1]
		b.Bytes = append(b.Bytes, bytes...)
	} else {
		count := int(int4Of(row[2]))
		b := reprise.Batch{First: last + 1 - uint64(count), Count: count}
		if b.First > c.next || !c.intact() {
			return
		}
		b.Bytes = c.keep(bytes, int(int4Of(row[3])))
		c.page.Batches = append(list, b)
		c.next, c.crc = last+1, int4Of(row[4])
	}
	c.piece = piece + 1
	c.room -= len(bytes)
}

// intact reports whether the last batch is complete and matches its checksum.
func (c *collector) intact() bool {
	list := c.page.Batches
	return len(list) == 0 || checksum(list[len(list)-1].Bytes) == c.crc
}

// keep copies bytes of the driver, with room for the whole batch.
func (c *collector) keep(b []byte, size int) []byte {
	if size > len(b) {
		return append(slices.Grow([]byte(nil), min(size, mostRoom)), b...)
	}
	if cap(c.slab)-len(c.slab) < len(b) {
		c.slab = make([]byte, 0, max(len(b), min(slabBytes, c.room)))
	}
	from := len(c.slab)
	c.slab = append(c.slab, b...)
	return c.slab[from:len(c.slab):len(c.slab)]
}

// errHole means that batches are missing or damaged. A read whose partition was dropped between its snapshot and its
// lookup gets such a page; the next attempt finds the batches in their new place.
var errHole = fmt.Errorf("%w: a hole", ErrDamaged)

// whole returns errHole, not wrapped, if the page is incomplete, and errForeign, not wrapped, if the stream must be
// adopted first.
func (c *collector) whole() error {
	switch {
	case c.gone != nil:
		return c.gone
	case !c.found:
		return fmt.Errorf("%w: the function page", ErrNotOurs)
	case c.foreign:
		return errForeign
	case !c.intact(), c.room > 0 && c.next <= c.page.Info.Tail:
		return errHole
	}
	return nil
}

// fault describes what is wrong with a page that has a gap.
func (c *collector) fault() error {
	if c.foreign {
		return fmt.Errorf("%w: stream %s: one server after the other takes over", reprise.ErrUnavailable, c.key)
	}
	if list := c.page.Batches; !c.intact() {
		b := list[len(list)-1]
		return fmt.Errorf("%w: stream %s: events %d to %d are not those that were written",
			ErrDamaged, c.key, b.First, b.Last())
	}
	return fmt.Errorf("%w: stream %s: event %d is missing", ErrDamaged, c.key, c.next)
}
