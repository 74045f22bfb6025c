package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"slices"

	"reprise"
	"reprise/store/internal/driver"
)

const appendStatement = `SELECT * FROM {schema}.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
	$13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
	$23, $24, $25, $26, $27)`

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) int32 { return int32(crc32.Checksum(b, castagnoli)) }

// Append stores all batches in one transaction and one round trip; see reprise.Store.
func (s *Store) Append(ctx context.Context, reqs []reprise.AppendRequest) (errs []error) {
	defer func() { driver.Map(ctx, errs, storeError) }()
	if err := s.use.Enter(ctx); err != nil {
		return slices.Repeat([]error{err}, len(reqs))
	}
	defer s.use.Leave()
	return s.append(ctx, reqs)
}

// append is Append for a caller that has called enter.
func (s *Store) append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if len(reqs) == 0 {
		return nil
	}
	c := newCommit(reqs)
	p := c.params(s.opts.Commit)
	for try := 0; ; try++ {
		var errs []error
		err := s.commit(ctx, c.hashes(), statement{s.sql.append, p, func(row [][]byte) error {
			if errs == nil {
				errs = make([]error, len(reqs))
			}
			return c.refuse(errs, int4Of(row[0]), int4Of(row[1]), int8Of(row[2]))
		}})
		switch {
		case err == nil && slices.Contains(errs, errForeign):
			return s.adopted(ctx, reqs, errs)
		case err == nil:
			return errs
		case !undone(err) || try == maxTries:
			return slices.Repeat([]error{err}, len(reqs))
		}
	}
}

// maxTries bounds the attempts of a transaction that the server rolls back in favor of another one.
const maxTries = 5

// commit holds the requests of one call in the order of their names, the order in which all replicas lock the rows of
// streams.
type commit struct {
	reqs  []reprise.AppendRequest
	order []int
}

func newCommit(reqs []reprise.AppendRequest) *commit {
	c := &commit{reqs: reqs, order: make([]int, len(reqs))}
	for i := range c.order {
		c.order[i] = i
	}
	slices.SortFunc(c.order, func(a, b int) int { return compareKeys(reqs[a].Key, reqs[b].Key) })
	return c
}

// compareKeys defines the order in which rows of streams are locked.
func compareKeys(a, b reprise.StreamKey) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name))
}

func (c *commit) at(i int) *reprise.AppendRequest { return &c.reqs[c.order[i]] }

// refuse records why the request at place was rejected.
func (c *commit) refuse(errs []error, place, reason int32, tail int64) error {
	if place < 1 || int(place) > len(c.order) {
		return fmt.Errorf("%w: the function append", ErrNotOurs)
	}
	i := c.order[place-1]
	switch reason {
	case 1:
		errs[i] = reprise.ErrNotFound
	case 2:
		errs[i] = reprise.ErrFenced
	case 3:
		errs[i] = reprise.ErrEnded
	case 5:
		errs[i] = errForeign
	default:
		errs[i] = fmt.Errorf("%w: a batch that begins with %d, the tail is %d, or the configuration has changed",
			reprise.ErrConflict, c.reqs[i].First, tail)
	}
	return nil
}

func (c *commit) hashes() hashList {
	list := make(hashList, len(c.reqs))
	for i := range c.reqs {
		list[i] = hashOf(c.reqs[i].Key)
	}
	return list
}

// params returns the parameters of the SQL function append.
func (c *commit) params(durability string) *params {
	n := len(c.reqs)
	p := new(params).text(durability)
	p.texts(n, func(i int) string { return c.at(i).Key.String() })
	p.texts(n, func(i int) string { return string(c.at(i).Epoch) })
	p.texts(n, func(i int) string { return c.at(i).Owner.Name })
	p.int8s(n, func(i int) int64 { return bigint(c.at(i).Owner.Fence) })
	p.int8s(n, func(i int) int64 { return bigint(c.at(i).First) })
	p.int4s(n, func(i int) int32 { return int32(c.at(i).Count) })
	p.int8s(n, func(i int) int64 { return bigint(c.at(i).Earliest) })
	p.int8s(n, func(i int) int64 { return c.at(i).Kept })
	p.int4s(n, func(i int) int32 { return checksum(c.at(i).Bytes) })
	p.int4s(n, func(i int) int32 { return int32(len(c.at(i).Bytes)) })
	p.blobs(n, func(i int) []byte { return c.at(i).Bytes[:min(pieceBytes, len(c.at(i).Bytes))] })
	c.addPieces(p)
	c.addEnds(p)
	c.addProducers(p)
	p.blobs(n, func(i int) []byte { return mark(c.at(i).Revision) })
	return p
}

// pieceBytes is the size of the part of a batch that goes into one row. Such a row just fits into a page of 8 KiB.
const pieceBytes = 8080

// addPieces adds the parts of the batches that do not fit into their first rows.
func (c *commit) addPieces(p *params) {
	var places, numbers []int32
	var pieces [][]byte
	for i := range c.order {
		b := c.at(i).Bytes
		for n := 1; n*pieceBytes < len(b); n++ {
			places, numbers = append(places, int32(i+1)), append(numbers, int32(n))
			pieces = append(pieces, b[n*pieceBytes:min(len(b), (n+1)*pieceBytes)])
		}
	}
	p.int4s(len(places), func(i int) int32 { return places[i] })
	p.int4s(len(places), func(i int) int32 { return numbers[i] })
	p.blobs(len(places), func(i int) []byte { return pieces[i] })
}

func (c *commit) addEnds(p *params) {
	var places []int
	for i := range c.order {
		if c.at(i).End != nil {
			places = append(places, i)
		}
	}
	n := len(places)
	end := func(i int) *reprise.End { return c.at(places[i]).End }
	p.int4s(n, func(i int) int32 { return int32(places[i] + 1) })
	p.blobs(n, func(i int) []byte { return []byte(end(i).Outcome) })
	p.int8s(n, func(i int) int64 { return nanos(end(i).Time) })
	p.int8s(n, func(i int) int64 { return nanos(end(i).Expires) })
	p.blobs(n, func(i int) []byte { return end(i).Data })
}

func (c *commit) addProducers(p *params) {
	var places []int32
	var list []reprise.Producer
	for i := range c.order {
		for _, producer := range c.at(i).Producers {
			places = append(places, int32(i+1))
			list = append(list, producer)
		}
	}
	p.int4s(len(places), func(i int) int32 { return places[i] })
	addProducers(p, list)
}
