package pgstore

import (
	"context"

	"reprise"
)

const configureStatement = `SELECT * FROM {schema}.configure($1, $2, $3, $4, $5)`

// configure changes the configuration of a stream in a transaction of its own; see reprise.Store.Create.
func (s *Store) configure(ctx context.Context, want *reprise.StreamInfo) (kept reprise.StreamInfo, err error) {
	config, err := marshalConfig(want)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	p := new(params).text(want.Key.String()).text(string(want.Epoch)).bytes(mark(want.Revision - 1)).bytes(config)
	if want.End == nil {
		p.int8OrNull(0, false)
	} else {
		p.int8(nanos(want.End.Expires))
	}
	found, changed := false, false
	err = s.commit(ctx, hashList{hashOf(want.Key)}, statement{s.sql.configure, p, func(row [][]byte) (err error) {
		found, changed = true, boolOf(row[0])
		if _, kept, err = streamWithLineage(row[1], row[3]); err != nil {
			return err
		}
		kept.Producers, err = producers(row[2])
		return err
	}})
	switch {
	case err != nil:
		return reprise.StreamInfo{}, err
	case !found:
		return reprise.StreamInfo{}, reprise.ErrNotFound
	case !changed && (kept.Revision != want.Revision || !kept.Config.Equal(want.Config)):
		return reprise.StreamInfo{}, reprise.ErrConflict
	}
	return kept, nil
}
