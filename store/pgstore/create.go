package pgstore

import (
	"context"
	"fmt"
	"time"

	"reprise"
)

const createStatement = `SELECT * FROM {schema}.establish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
	$11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`

// Create makes a stream in a transaction of its own; see reprise.Store.
func (s *Store) Create(ctx context.Context, info reprise.StreamInfo) (_ reprise.StreamInfo, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.enter(ctx); err != nil {
		return reprise.StreamInfo{}, err
	}
	defer s.use.RUnlock()
	config, err := marshalConfig(info.Config)
	if err != nil {
		return reprise.StreamInfo{}, err
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
	made, kept, err := s.establish(ctx, p)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	if !made && !kept.Config.Equal(info.Config) {
		return reprise.StreamInfo{}, reprise.ErrConflict
	}
	return kept, nil
}

// establish creates the stream or returns the existing one. It adopts the existing one first if the server has changed.
func (s *Store) establish(ctx context.Context, p *params) (made bool, kept reprise.StreamInfo, err error) {
	for range maxTries {
		var foreign bool
		err := s.run(ctx, s.sql.create, p, func() takeRow {
			return func(row [][]byte) (err error) {
				made, foreign = boolOf(row[0]), boolOf(row[4])
				if _, kept, err = streamWithLineage(row[1], row[3]); err != nil {
					return err
				}
				kept.Producers, err = producers(row[2])
				return err
			}
		})
		if err != nil || !foreign || s.opts.FailoverKeeps {
			return made, kept, err
		}
		if err := s.adopt(ctx, []claim{{kept.Key, kept.Epoch, kept.Tail + 1}}); err != nil {
			return false, kept, err
		}
	}
	return false, kept, fmt.Errorf("%w: stream %s: one server after the other takes over",
		reprise.ErrUnavailable, kept.Key)
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
