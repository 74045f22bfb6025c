package pgstore

import (
	"context"
	"fmt"

	"reprise"
)

const readStatement = `SELECT * FROM {schema}.read($1, $2, $3, $4)`

// slabBytes is how large a piece of memory small batches of a page share.
const slabBytes = 64 << 10

// Read returns a page in one round trip; see reprise.Store.
func (s *Store) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if err := s.enter(ctx); err != nil {
		return reprise.Page{}, err
	}
	defer s.use.RUnlock()
	for try := 0; ; try++ {
		var c *collector
		p := new(params).text(key.String()).int8(bigint(after)).int8(int64(maxBytes)).int8(now())
		err := s.run(ctx, s.sql.read, p, func() takeRow {
			c = &collector{key: key, after: bigint(after), room: maxBytes}
			return c.take
		})
		if err == nil {
			err = c.whole()
		}
		switch {
		case err == nil:
			return c.page, nil
		case err != errHole: //nolint:errorlint // as whole documents
			return reprise.Page{}, err
		case try == maxTries:
			return reprise.Page{}, fmt.Errorf("%w: stream %s has no event %d", ErrDamaged, key, c.next)
		}
	}
}

// collector makes a page of the rows of the function read.
type collector struct {
	key   reprise.StreamKey
	after int64
	room  int
	page  reprise.Page
	found bool
	gone  error
	next  uint64 // seq of the first event that is missing
	slab  []byte
}

func (c *collector) take(row [][]byte) error {
	if len(row) != 7 {
		return fmt.Errorf("%w: the function read", ErrNotOurs)
	}
	if c.found {
		return c.takeBatch(row)
	}
	if row[4] == nil {
		c.gone = reprise.ErrNotFound
		if boolOf(row[6]) {
			c.gone = reprise.ErrExpired
		}
		return nil
	}
	var err error
	if _, c.page.Info, err = streamInfo(row[4]); err != nil {
		return fmt.Errorf("stream %s: %w", c.key, err)
	}
	if c.page.Info.Producers, err = producers(row[5]); err != nil {
		return fmt.Errorf("stream %s: %w", c.key, err)
	}
	c.found = true
	c.next = max(uint64(c.after)+1, c.page.Info.Earliest)
	return nil
}

func (c *collector) takeBatch(row [][]byte) error {
	last, count, bytes := uint64(int8Of(row[0])), int(int4Of(row[1])), row[3]
	b := reprise.Batch{First: last + 1 - uint64(count), Count: count}
	if checksum(bytes) != int32(int4Of(row[2])) {
		return fmt.Errorf("%w: stream %s: the checksum of events %d to %d", ErrDamaged, c.key, b.First, last)
	}
	if b.First > c.next {
		return nil // whole finds the hole
	}
	b.Bytes = c.keep(bytes)
	c.page.Batches = append(c.page.Batches, b)
	c.next = last + 1
	c.room -= len(bytes)
	return nil
}

// keep copies bytes of the driver's.
func (c *collector) keep(b []byte) []byte {
	if len(b) >= slabBytes/4 {
		return append(make([]byte, 0, len(b)), b...)
	}
	if cap(c.slab)-len(c.slab) < len(b) {
		c.slab = make([]byte, 0, min(slabBytes, max(len(b), c.room)))
	}
	from := len(c.slab)
	c.slab = append(c.slab, b...)
	return c.slab[from:len(c.slab):len(c.slab)]
}

// errHole says that batches are missing. A partition that was dropped between the view
// of the read and its search leaves such a page; the next try sees where its batches have gone.
var errHole = fmt.Errorf("%w: a hole", ErrDamaged)

// whole returns errHole, not wrapped, if the page does not hold all that it must.
func (c *collector) whole() error {
	switch {
	case c.gone != nil:
		return c.gone
	case !c.found:
		return fmt.Errorf("%w: the function read", ErrNotOurs)
	case c.room > 0 && c.next <= c.page.Info.Tail:
		return errHole
	}
	return nil
}
