package pgstore

import (
	"context"
	"fmt"
	"time"

	"reprise"
	"reprise/store/internal/driver"
)

const createStatement = `SELECT * FROM {schema}.establish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
	$11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`

var _ reprise.CreateAppender = (*Store)(nil)

// Create makes a stream in a transaction of its own; see reprise.Store.
func (s *Store) Create(ctx context.Context, info reprise.StreamInfo) (_ reprise.StreamInfo, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return reprise.StreamInfo{}, err
	}
	defer s.use.Leave()
	if info.Revision > 0 {
		return s.configure(ctx, &info)
	}
	p, err := createParams(&info)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	e, err := s.establish(ctx, func(e *establishing) error {
		return s.run(ctx, s.sql.create, p, func() takeRow { return e.take })
	})
	if err == nil && !e.made && !e.kept.Config.Equal(info.Config) {
		err = reprise.ErrConflict
	}
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	return e.kept, nil
}

// CreateAppend makes a stream with its first batch, in one transaction and one round trip; see reprise.CreateAppender.
func (s *Store) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (_ reprise.StreamInfo, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return reprise.StreamInfo{}, err
	}
	defer s.use.Leave()
	p, err := createParams(&info)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	c := newCommit([]reprise.AppendRequest{first})
	batch := c.params(s.opts.Commit)
	var refused [1]error
	e, err := s.establish(ctx, func(e *establishing) error {
		refused[0] = nil
		// If the stream exists, it has another epoch, so that the second statement stores nothing.
		return s.commit(ctx, c.hashes(), statement{s.sql.create, p, e.take},
			statement{s.sql.append, batch, func(row [][]byte) error {
				return c.refuse(refused[:], int4Of(row[0]), int4Of(row[1]), int8Of(row[2]))
			}})
	})
	switch {
	case err != nil:
		return reprise.StreamInfo{}, err
	case e.made && refused[0] != nil:
		return reprise.StreamInfo{}, refused[0]
	case e.made:
		e.kept.Earliest, e.kept.Tail, e.kept.Bytes = max(1, first.Earliest), uint64(first.Count), first.Kept
		e.kept.End, e.kept.Producers = first.End, driver.Remember(nil, first.Producers)
	case !e.kept.Config.Equal(info.Config):
		return reprise.StreamInfo{}, reprise.ErrConflict
	}
	return e.kept, nil
}

// createParams returns the parameters of the SQL function establish.
func createParams(info *reprise.StreamInfo) (*params, error) {
	config, err := marshalConfig(info)
	if err != nil {
		return nil, err
	}
	p := new(params).text(info.Key.String()).text(string(info.Key.Tenant)).text(info.Key.Namespace()).
		text(string(info.Epoch)).int8(nanos(info.Created)).bytes(config).
		text(info.Owner.Name).int8(bigint(info.Owner.Fence)).int8(bigint(info.Tail))
	end := info.End
	if end == nil {
		p.bytes(nil).int8OrNull(0, false).int8OrNull(0, false).bytes(nil)
	} else {
		p.bytes([]byte(end.Outcome)).int8(nanos(end.Time)).int8(nanos(end.Expires)).bytes(end.Data)
	}
	addProducers(p, info.Producers)
	p.texts(len(info.Lineage), func(i int) string { return string(info.Lineage[i].Epoch) })
	p.int8s(len(info.Lineage), func(i int) int64 { return bigint(info.Lineage[i].Fork) })
	return p, nil
}

// establishing is the answer of the SQL function establish: whether it has made the stream, and the stream.
type establishing struct {
	made, foreign bool
	kept          reprise.StreamInfo
}

func (e *establishing) take(row [][]byte) (err error) {
	e.made, e.foreign = boolOf(row[0]), boolOf(row[4])
	if _, e.kept, err = streamWithLineage(row[1], row[3]); err != nil {
		return err
	}
	e.kept.Producers, err = producers(row[2])
	return err
}

// establish creates the stream or returns the existing one. It adopts the existing one first if the server has changed,
// and repeats a transaction that the server has rolled back in favor of another one.
func (s *Store) establish(ctx context.Context, try func(*establishing) error) (e *establishing, err error) {
	for range maxTries {
		e = new(establishing)
		switch err = try(e); {
		case undone(err):
			continue
		case err != nil || !e.foreign || s.opts.FailoverKeeps:
			return e, err
		}
		if err := s.adopt(ctx, []claim{{e.kept.Key, e.kept.Epoch, e.kept.Tail + 1}}); err != nil {
			return e, err
		}
		err = fmt.Errorf("%w: stream %s: one server after the other takes over", reprise.ErrUnavailable, e.kept.Key)
	}
	return e, err
}

// addProducers adds the columns of producers as arrays.
func addProducers(p *params, list []reprise.Producer) {
	n := len(list)
	p.blobs(n, func(i int) []byte { return []byte(list[i].ID) })
	p.int8s(n, func(i int) int64 { return int64(list[i].Epoch) })
	p.int8s(n, func(i int) int64 { return int64(list[i].Seq) })
	p.int8s(n, func(i int) int64 { return bigint(list[i].First) })
	p.int8s(n, func(i int) int64 { return bigint(list[i].Last) })
}

// now returns the time of this machine's clock in the unit of the tables.
func now() int64 { return nanos(time.Now()) }
