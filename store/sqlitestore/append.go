package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
	"reprise/store/internal/driver"
)

// largeBytes is the size from which a batch is written to the table batches directly. A smaller batch is cheaper if it
// is first written to the journal and later folded together with others.
const largeBytes = 16 << 10

// writer is the connection that writes, and its state.
type writer struct {
	turn // of the goroutine that changes the file; held for each transaction
	conn *sqlite.Conn
	space

	staged  []staged
	round   uint64 // number of the current commit
	journal []byte // the current row

	lastCommit   int64 // id of the newest row of the journal
	journalBytes int   // of rows that are not folded
	trimmed      int64 // bytes that have left windows since the last fold, whose rows still exist
}

// staged is a request that has been checked.
type staged struct {
	req    *reprise.AppendRequest
	stream *stream
	large  bool
}

func (w *writer) connect(conn *sqlite.Conn, maxBytes int64) error {
	w.conn = conn
	if maxBytes > 0 {
		return execute(conn, fmt.Sprintf("PRAGMA max_page_count=%d", max(64, maxBytes/pageSize)))
	}
	return nil
}

// close is called when nothing uses w any more.
func (w *writer) close() error {
	if w.conn == nil {
		return nil
	}
	err := w.conn.Close()
	w.conn = nil
	w.space.close()
	return err
}

// transact runs f in a transaction, which is rolled back if f or the commit fails, by adding or freeing. The caller has
// the turn.
func (w *writer) transact(by func(func() error) error, f func() error) error {
	return by(func() error { return w.transaction(f) })
}

// transaction is transact on a disk with room.
func (w *writer) transaction(f func() error) error {
	if err := run(w.conn, "BEGIN IMMEDIATE", nothing); err != nil {
		return err
	}
	err := f()
	if err == nil {
		err = run(w.conn, "COMMIT", nothing)
	}
	if err != nil && !w.conn.AutocommitEnabled() {
		err = errors.Join(err, run(w.conn, "ROLLBACK", nothing))
	}
	return err
}

func nothing(*sqlite.Stmt) {}

// Append stores all batches in one transaction: a row of the journal, and a row of the
// table batches for each large one.
func (s *Store) Append(ctx context.Context, reqs []reprise.AppendRequest) (errs []error) {
	defer func() { driver.Map(ctx, errs, storeError) }()
	if err := s.use.Enter(ctx); err != nil {
		return slices.Repeat([]error{err}, len(reqs))
	}
	defer s.use.Leave()
	w := &s.writer
	err := s.takeToAppend(ctx)
	if err != nil {
		return slices.Repeat([]error{storeError(ctx, err)}, len(reqs))
	}
	defer w.leave()
	errs = s.stage(ctx, reqs)
	if len(w.staged) == 0 {
		return errs
	}
	if err = w.adding(w.size())(w.store); err != nil {
		return driver.Fail(errs, len(reqs), storeError(context.Background(), err))
	}
	for i := range w.staged {
		req := w.staged[i].req
		w.trimmed += max(0, w.staged[i].stream.info.Bytes+int64(len(req.Bytes))-req.Kept)
		w.staged[i].apply()
	}
	clear(w.staged)
	if w.journalBytes >= s.opts.FoldBytes || w.trimmed >= int64(s.opts.FoldBytes) {
		s.wakeFolder()
	}
	return errs
}

// stage checks the requests and builds the row of the journal. The errors are nil if all requests are to be stored.
func (s *Store) stage(ctx context.Context, reqs []reprise.AppendRequest) (errs []error) {
	w := &s.writer
	w.staged, w.journal = w.staged[:0], w.journal[:0]
	w.round++
	now := time.Now()
	for i := range reqs {
		req := &reqs[i]
		st, err := s.cache.load(ctx, req.Key)
		if err == nil {
			err = st.accepts(req, now)
		}
		if err == nil && st.round == w.round {
			// Both would be accepted, and the next start would reject the file.
			err = fmt.Errorf("%w: two batches of one stream in a commit", reprise.ErrConflict)
		}
		if err != nil {
			errs = driver.Refuse(errs, len(reqs), i, err)
			continue
		}
		st.round = w.round
		large := len(req.Bytes) >= largeBytes
		e := entry{
			stream: st.id, first: req.First, count: req.Count, earliest: req.Earliest, kept: req.Kept,
			bytes: req.Bytes, end: req.End, producers: req.Producers,
		}
		if req.Owner != st.info.Owner { // the append takes over the stream
			e.owner = &req.Owner
		}
		switch {
		case large:
			e.bytes = nil
		case e.bytes == nil:
			e.bytes = []byte{} // an empty batch is in the journal too
		}
		w.journal = appendEntry(w.journal, &e)
		w.staged = append(w.staged, staged{req, st, large})
	}
	w.journal = seal(w.journal)
	return errs
}

// accepts checks a request against the stream.
func (st *stream) accepts(req *reprise.AppendRequest, now time.Time) error {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if st.state(now) != nil {
		return reprise.ErrNotFound
	}
	return driver.Refusal(&st.info, req)
}

// store writes the staged requests. A small commit is one statement, and therefore its own transaction. The caller has
// the turn.
func (w *writer) store() error {
	write := func() error {
		for i := range w.staged {
			if g := &w.staged[i]; g.large {
				batch := reprise.Batch{First: g.req.First, Count: g.req.Count, Bytes: g.req.Bytes}
				if err := w.insertRow(g.stream.id, []reprise.Batch{batch}); err != nil {
					return err
				}
			}
		}
		return insertData(w.conn, "commits", `INSERT INTO commits (id, data) VALUES (?1, ?2)`, 2, w.journal,
			func(stmt *sqlite.Stmt) { stmt.BindInt64(1, w.lastCommit+1) })
	}
	var err error
	if len(w.journal) >= inPlaceBytes || slices.ContainsFunc(w.staged, func(g staged) bool { return g.large }) {
		err = w.transaction(write)
	} else {
		err = write()
	}
	if err != nil {
		return err
	}
	w.lastCommit++
	w.journalBytes += len(w.journal)
	return nil
}

// size is that of the staged requests.
func (w *writer) size() int64 {
	n := len(w.journal)
	for i := range w.staged {
		if w.staged[i].large {
			n += len(w.staged[i].req.Bytes)
		}
	}
	return int64(n)
}

// shrinkLog copies the write-ahead log into the file and empties it.
func (w *writer) shrinkLog() error { return execute(w.conn, "PRAGMA wal_checkpoint(TRUNCATE)") }

// insertRow writes consecutive batches of a stream into one row of the table batches.
func (w *writer) insertRow(stream int64, batches []reprise.Batch) error {
	size := crcBytes
	for i := range batches {
		size += len(batches[i].Bytes) + 2*maxUvarint
	}
	data := seal(appendRow(make([]byte, 0, size), batches))
	const query = `INSERT INTO batches (stream, first, last, data) VALUES (?1, ?2, ?3, ?4)`
	return insertData(w.conn, "batches", query, 4, data, func(stmt *sqlite.Stmt) {
		stmt.BindInt64(1, stream)
		stmt.BindInt64(2, int64(batches[0].First))
		stmt.BindInt64(3, int64(batches[len(batches)-1].Last()))
	})
}

const maxUvarint = 10

// apply makes a stored batch visible to readers.
func (g *staged) apply() {
	st, req := g.stream, g.req
	st.mu.Lock()
	defer st.mu.Unlock()
	st.dirty = true
	if !g.large {
		st.pending = append(st.pending,
			reprise.Batch{First: req.First, Count: req.Count, Bytes: req.Bytes[:len(req.Bytes):len(req.Bytes)]})
	}
	st.info.Owner = req.Owner
	st.info.Tail += uint64(req.Count)
	st.info.Earliest = max(st.info.Earliest, req.Earliest)
	st.info.Bytes = req.Kept
	st.info.End = req.End
	if len(req.Producers) > 0 { // readers keep the old
		st.info.Producers = driver.Remember(slices.Clone(st.info.Producers), req.Producers)
	}
	st.forgetTrimmed()
}

// forgetTrimmed drops pending batches before the window. The caller holds mu.
func (st *stream) forgetTrimmed() {
	n := 0
	for n < len(st.pending) && st.pending[n].Last() < st.info.Earliest {
		n++
	}
	st.pending = st.pending[n:]
}
