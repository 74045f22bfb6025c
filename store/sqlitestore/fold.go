package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
)

const (
	// rowBytes is the size to which rows of folded batches grow.
	rowBytes = 64 << 10
	// sliceBytes is the amount that one transaction folds: appends wait for it.
	sliceBytes = 1 << 20
	// vacuumPages is the number of free pages that one transaction returns to the file system.
	vacuumPages = 256
	// An eighth of the pages in use stay free in the file for later writes, within these limits.
	leastSparePages, mostSparePages = (1 << 20) / pageSize, (8 << 20) / pageSize
)

func (s *Store) wakeFolder() {
	select {
	case s.foldNow <- struct{}{}:
	default:
	}
}

// foldLoop folds when the journal is long, and periodically.
func (s *Store) foldLoop() {
	ticker := time.NewTicker(s.opts.FoldAfter)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.foldNow:
		case <-ticker.C:
		}
		s.fold(context.Background())
		if err := s.shrink(); err != nil {
			s.opts.Logger.Warn("free pages could not be given back", "file", s.path, "error", err)
		}
	}
}

// shrink returns free pages to the file system, in steps between which appends continue. The file becomes shorter only
// when the write-ahead log is copied into it, so shrink finally does that and empties the log.
func (s *Store) shrink() error {
	for shrunk := false; ; shrunk = true {
		select {
		case <-s.stop:
			return nil
		default:
		}
		more, err := s.writer.shrink()
		if err != nil || !more {
			if shrunk {
				err = errors.Join(err, s.writer.checkpoint())
			}
			return err
		}
	}
}

// checkpoint copies the write-ahead log, which openWriter bounds, into the file.
func (w *writer) checkpoint() error {
	if err := w.take(context.Background()); err != nil {
		return err
	}
	defer w.leave()
	return w.shrinkLog()
}

func (w *writer) shrink() (more bool, err error) {
	if err := w.take(context.Background()); err != nil {
		return false, err
	}
	defer w.leave()
	free, err := pragma(w.conn, "freelist_count")
	if err != nil {
		return false, err
	}
	pages, err := pragma(w.conn, "page_count")
	if spare := min(max((pages-free)/8, leastSparePages), mostSparePages); err != nil || free < spare+vacuumPages {
		return false, err
	}
	return true, execute(w.conn, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages))
}

// fold is foldAll in the background. After an error, such as a full disk, everything stays unchanged until the next
// time.
func (s *Store) fold(ctx context.Context) {
	if err := s.foldAll(ctx); err != nil && ctx.Err() == nil {
		s.opts.Logger.Warn("the journal could not be folded", "file", s.path, "error", err)
	}
}

// maxJournal limits the journal to this multiple of Options.FoldBytes.
const maxJournal = 4

// takeToAppend takes the turn. If the journal has become too long it folds first, which bounds the pending batches in
// memory. It takes at most longestWait.
func (s *Store) takeToAppend(ctx context.Context) error {
	w := &s.writer
	ready := func() bool {
		if w.journalBytes < maxJournal*s.opts.FoldBytes {
			return true
		}
		w.leave()
		return false
	}
	if w.taken() && ready() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.longest, errBusy)
	defer cancel()
	for {
		if err := w.take(ctx); err != nil {
			return err
		}
		if ready() {
			return nil
		}
		if err := s.foldAll(ctx); err != nil {
			return err
		}
	}
}

// foldAll moves the present content of the journal to the table batches. It works in slices between which appends
// continue. When the rows of all streams in the journal are up to date, it deletes the rows of the journal, except the
// newest, whose id must remain known.
func (s *Store) foldAll(ctx context.Context) error {
	if err := s.folding.take(ctx); err != nil {
		return err
	}
	defer s.folding.leave()
	w := &s.writer
	if err := w.take(ctx); err != nil {
		return err
	}
	upTo, bytes := w.lastCommit, w.journalBytes
	w.trimmed = 0
	if bytes == 0 {
		s.cache.evict()
	}
	w.leave()
	if bytes == 0 {
		return nil
	}
	list := s.cache.dirty()
	for len(list) > 0 {
		n, err := s.foldSlice(ctx, list)
		if err != nil {
			return err
		}
		list = list[n:]
	}
	if err := w.take(ctx); err != nil {
		return err
	}
	defer w.leave()
	err := w.transact(w.freeing, func() error {
		return run(w.conn, `DELETE FROM commits WHERE id < ?`, func(stmt *sqlite.Stmt) { stmt.BindInt64(1, upTo) })
	})
	if err != nil {
		return err
	}
	w.journalBytes -= bytes
	s.cache.evict()
	return nil
}

// foldSlice folds the first streams of list, up to sliceBytes, in one transaction.
func (s *Store) foldSlice(ctx context.Context, list []*stream) (n int, err error) {
	w := &s.writer
	if err := w.take(ctx); err != nil {
		return 0, err
	}
	defer w.leave()
	folded := make([]int, 0, len(list)) // number of pending batches of each
	size := 0
	slice := min(sliceBytes, int(w.share)/4)
	err = w.transact(w.adding(int64(slice)), func() error {
		n, size, folded = 0, 0, folded[:0]
		for n < len(list) && size < slice {
			st := list[n]
			pending := st.pending // it changes under the lock of the writer only
			for i := range pending {
				size += len(pending[i].Bytes)
			}
			size += 256 // the row
			if err := w.fold(st, pending); err != nil {
				return err
			}
			folded = append(folded, len(pending))
			n++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for i, count := range folded {
		list[i].mu.Lock()
		list[i].pending = list[i].pending[count:]
		if len(list[i].pending) == 0 {
			list[i].pending = nil
		}
		list[i].dirty = false
		list[i].mu.Unlock()
	}
	return n, nil
}

// fold writes the pending batches of st and its state, and deletes rows before the window.
func (w *writer) fold(st *stream, pending []reprise.Batch) error {
	if st.removed || !st.mark.IsZero() {
		return nil
	}
	for len(pending) > 0 {
		n, size := 0, 0
		for n < len(pending) &&
			(n == 0 || size+len(pending[n].Bytes) <= rowBytes && pending[n].First == pending[n-1].Last()+1) {
			size += len(pending[n].Bytes)
			n++
		}
		if err := w.insertRow(st.id, pending[:n]); err != nil {
			return err
		}
		pending = pending[n:]
	}
	if err := w.updateStream(st); err != nil {
		return err
	}
	return w.deleteBefore(st.id, st.info.Earliest)
}

func (w *writer) deleteBefore(stream int64, earliest uint64) error {
	return run(w.conn, `DELETE FROM batches WHERE stream = ? AND first < ? AND last < ?`, func(stmt *sqlite.Stmt) {
		stmt.BindInt64(1, stream)
		stmt.BindInt64(2, int64(earliest))
		stmt.BindInt64(3, int64(earliest))
	})
}

// updateStream writes the state of st into its row.
func (w *writer) updateStream(st *stream) error {
	const query = `UPDATE streams SET earliest = ?1, tail = ?2, kept = ?3, ended = ?4, expires = ?5, producers = ?6,
		owner = ?7, fence = ?8, applied = ?9 WHERE id = ?10`
	return run(w.conn, query, func(stmt *sqlite.Stmt) {
		bindState(stmt, &st.info)
		stmt.BindInt64(9, w.lastCommit)
		stmt.BindInt64(10, st.id)
	})
}
