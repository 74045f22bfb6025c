package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
)

// Read merges the rows of the table batches with the batches that are still in the journal.
func (s *Store) Read(ctx context.Context, key reprise.StreamKey, after uint64,
	maxBytes int,
) (_ reprise.Page, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return reprise.Page{}, err
	}
	defer s.use.Leave()
	for range maxTries {
		// Load it each time: a stream that was evicted meanwhile no longer changes.
		st, err := s.cache.load(ctx, key)
		if err != nil {
			return reprise.Page{}, err
		}
		page, whole, err := s.page(ctx, st, after, maxBytes)
		if whole || err != nil {
			return page, err
		}
	}
	return reprise.Page{}, fmt.Errorf("stream %s: batches after %d: %w", key, after, errDamaged)
}

// maxTries bounds the attempts to read a page whose stream is trimmed meanwhile. A gap that persists is not caused by
// trims.
const maxTries = 100

// page reads one page. whole is false if the stream was trimmed or removed meanwhile, so that rows are missing and the
// page is inconsistent.
func (s *Store) page(ctx context.Context, st *stream, after uint64,
	maxBytes int,
) (page reprise.Page, whole bool, err error) {
	st.mu.RLock()
	err = st.state(time.Now())
	page.Info = st.info
	pending := st.pending
	st.mu.RUnlock()
	if err != nil {
		return reprise.Page{}, false, err
	}
	next := max(min(after, 1<<63)+1, page.Info.Earliest)
	if next > page.Info.Tail || maxBytes <= 0 {
		return page, true, nil
	}
	c := collector{next: next, tail: page.Info.Tail, room: maxBytes, pending: pending}
	if !c.fromPending() {
		err = s.read(ctx, func(conn *sqlite.Conn) error { return c.fromRows(conn, st.id) })
	}
	if err != nil {
		return reprise.Page{}, false, err
	}
	page.Batches = c.batches
	return page, c.room <= 0 || c.next > c.tail, nil
}

// collector collects the batches of a page, in order and without gaps.
type collector struct {
	next, tail uint64 // seq of the first missing event, and the last existing one
	room       int
	pending    []reprise.Batch
	batches    []reprise.Batch
}

// take adds b if it holds the next event.
func (c *collector) take(b reprise.Batch) {
	if c.full() || b.First > c.next || b.Last() < c.next {
		return
	}
	c.batches = append(c.batches, b)
	c.next = b.Last() + 1
	c.room -= len(b.Bytes)
}

func (c *collector) full() bool { return c.room <= 0 || c.next > c.tail }

// fromPending takes batches from memory and reports whether the page is full.
func (c *collector) fromPending() bool {
	lo, hi := 0, len(c.pending)
	for lo < hi { // the first batch that is not before next
		if mid := (lo + hi) / 2; c.pending[mid].Last() < c.next {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for lo < len(c.pending) && !c.full() && c.pending[lo].First <= c.next {
		c.take(c.pending[lo])
		lo++
	}
	c.pending = c.pending[lo:]
	return c.full()
}

// fromRows takes batches from the table, and between them those in memory.
func (c *collector) fromRows(conn *sqlite.Conn, stream int64) error {
	stmt, err := conn.Prepare(`SELECT first, data FROM batches
		WHERE stream = ?1 AND first >= coalesce((SELECT max(first) FROM batches WHERE stream = ?1 AND first <= ?2), 0)
		ORDER BY first`)
	if err != nil {
		return err
	}
	defer stmt.Reset()
	stmt.BindInt64(1, stream)
	stmt.BindInt64(2, int64(c.next))
	for !c.full() {
		more, err := stmt.Step()
		if err != nil || !more {
			return err
		}
		first := uint64(stmt.ColumnInt64(0))
		content, err := unseal(columnBytes(stmt, 1))
		if err != nil {
			return fmt.Errorf("batches of stream %d from %d on: %w", stream, first, err)
		}
		batches, err := rowBatches(first, content)
		if err != nil {
			return err
		}
		for _, b := range batches {
			c.take(b)
		}
		c.fromPending()
	}
	return nil
}
