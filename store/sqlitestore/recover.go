package sqlitestore

import (
	"context"
	"fmt"

	"reprise"
)

// recover reads the journal: the states of streams whose rows are older, and the batches that are not in the table
// batches.
func (s *Store) recover(ctx context.Context) error {
	conn := s.writer.conn
	applied := map[int64]int64{}
	stmt, err := conn.Prepare(`SELECT id, data FROM commits ORDER BY id`)
	if err != nil {
		return err
	}
	defer stmt.Reset()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		more, err := stmt.Step()
		if err != nil || !more {
			return err
		}
		id := stmt.ColumnInt64(0)
		data := columnBytes(stmt, 1)
		s.writer.lastCommit = id
		s.writer.journalBytes += len(data)
		content, err := unseal(data)
		if err != nil {
			return fmt.Errorf("commit %d of the journal: %w", id, err)
		}
		for c := (cutter{b: content}); len(c.b) > 0; {
			e := c.entry()
			if c.bad {
				return fmt.Errorf("commit %d of the journal: %w", id, errDamaged)
			}
			if err := s.replay(id, &e, applied); err != nil {
				return err
			}
		}
	}
}

// removed is a commit number after all others: nothing is applied to a removed stream.
const removed = 1<<63 - 1

// replay applies an entry of the journal unless the row of its stream includes it.
func (s *Store) replay(commit int64, e *entry, applied map[int64]int64) error {
	if _, seen := applied[e.stream]; !seen {
		st, upTo, err := s.selectByID(e.stream)
		if err != nil {
			return err
		}
		if st == nil || !st.mark.IsZero() {
			upTo = removed
		} else {
			s.cache.put(st)
		}
		applied[e.stream] = upTo
	}
	if commit <= applied[e.stream] {
		return nil
	}
	st := s.cache.byID[e.stream]
	if e.first != st.info.Tail+1 {
		return fmt.Errorf("commit %d of the journal: %w: batch %d of stream %s, whose tail is %d", commit, errDamaged,
			e.first, st.info.Key, st.info.Tail)
	}
	owner := st.info.Owner
	if e.owner != nil {
		owner = *e.owner
	}
	g := staged{stream: st, large: e.bytes == nil, req: &reprise.AppendRequest{
		Owner: owner, First: e.first, Count: e.count, Bytes: e.bytes, Earliest: e.earliest, Kept: e.kept,
		End: e.end, Producers: e.producers,
	}}
	g.apply()
	return nil
}

// selectByID reads the row of a stream and the commit up to which it is current. st is nil if there is none.
func (s *Store) selectByID(id int64) (st *stream, applied int64, err error) {
	stmt, err := s.writer.conn.Prepare(`SELECT ` + streamColumns + `, applied FROM streams WHERE id = ?`)
	if err != nil {
		return nil, 0, err
	}
	defer stmt.Reset()
	stmt.BindInt64(1, id)
	found, err := stmt.Step()
	if err != nil || !found {
		return nil, 0, err
	}
	st, err = scanStream(stmt)
	return st, stmt.ColumnInt64(stmt.ColumnCount() - 1), err
}
