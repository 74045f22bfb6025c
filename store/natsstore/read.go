package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"reprise"
)

// Read returns a page; see reprise.Store. It takes one round trip for the newest message, which suffices if the page
// begins in it. It takes at most O(log n) more to find the beginning, which is already known if this Store read the
// previous page. It takes one more for each 4 MiB.
func (s *Store) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (
	_ reprise.Page, err error,
) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	return s.read(ctx, key, after, maxBytes, s.mend)
}

// read is Read, and calls mend for a stream of which a message is missing. mend reports whether to read again.
func (s *Store) read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int,
	mend func(context.Context, reprise.StreamKey, *entry) (bool, error),
) (reprise.Page, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return reprise.Page{}, err
	}
	defer leave()
	for before := uint64(0); ; {
		last, err := s.readable(ctx, key)
		if err != nil {
			return reprise.Page{}, err
		}
		switch {
		case last == nil:
			return reprise.Page{}, reprise.ErrNotFound
		case last.gone && last.expired(time.Now()):
			return reprise.Page{}, reprise.ErrExpired
		case last.gone:
			return reprise.Page{}, reprise.ErrNotFound
		}
		s.cache.put(key, last)
		page, err := s.page(ctx, key, last, after, maxBytes)
		if id := s.wire.nc.ConnectedServerId(); last.server != "" && id != "" && id != last.server {
			continue // the messages of the page may be of two starts of the server, the second of which has lost some
		}
		if !errors.Is(err, errGone) {
			return page, err
		}
		// A concurrent trim or removal is not damage. It left a newer message.
		switch {
		case last.seq != before:
		case s.single:
			mended, failed := mend(ctx, key, last)
			if failed != nil && !errors.Is(failed, errWrongLast) {
				return reprise.Page{}, failed
			}
			if mended || failed != nil {
				break
			}
			// Another replica may have moved the window or removed the stream after last was read.
			now, failed := s.last(ctx, key)
			if failed != nil {
				return reprise.Page{}, failed
			}
			if last.sameWindow(now) {
				return reprise.Page{}, fmt.Errorf("stream %s: %w: %w", key, ErrDamaged, err)
			}
		default:
			return reprise.Page{}, unavailable(fmt.Errorf("stream %s: %w: %w", key, errBehind, err))
		}
		before = last.seq
	}
}

// page reads the page that ends at or before last. The error wraps errGone if a message is missing.
func (s *Store) page(ctx context.Context, key reprise.StreamKey, last *entry, after uint64, maxBytes int) (
	reprise.Page, error,
) {
	info, err := s.info(ctx, key, last.state)
	if err != nil {
		return reprise.Page{}, err
	}
	page := reprise.Page{Info: info}
	if maxBytes <= 0 || after >= last.tail || last.earliest > last.tail {
		return page, nil
	}
	from := max(after+1, last.earliest)
	if last.count > 0 && last.first <= from {
		batch, err := s.batch(ctx, key, last)
		page.Batches = []reprise.Batch{batch}
		return page, err
	}
	at, err := s.locate(ctx, key, last, from)
	if err != nil {
		return reprise.Page{}, err
	}
	r := &run{s: s, key: key, last: last, next: at, from: from, maxBytes: maxBytes}
	err = r.read(ctx)
	page.Batches = r.batches
	return page, err
}

// run reads consecutive batches.
type run struct {
	s        *Store
	key      reprise.StreamKey
	last     *entry
	next     uint64 // sequence at which to continue
	from     uint64 // seq of the next event
	maxBytes int
	batches  []reprise.Batch
	bytes    int
	full     bool
}

const (
	// maxFetch bounds the bytes of one answer.
	maxFetch = 4 << 20
	// headBytes is approximately what the server counts for a message besides its body.
	headBytes = 250
	// maxMessages bounds the messages of one answer.
	maxMessages = 4096
)

func (r *run) read(ctx context.Context) error {
	subject := r.s.subjects.stream(r.key)
	patience := time.Now().Add(r.s.lag())
	for !r.full && r.from <= r.last.tail {
		if r.last.count > 0 && r.from == r.last.first {
			if err := r.add(ctx, r.last); err != nil {
				return err
			}
			break
		}
		before := r.from
		req := &getRequest{Seq: r.next, Next: subject, Batch: maxMessages, MaxBytes: r.wanted()}
		_, err := r.s.direct(ctx, r.s.name, req, func(msg *nats.Msg) error { return r.take(ctx, msg) })
		if err != nil {
			return err
		}
		if r.from != before {
			continue
		}
		// A server without further messages lags behind, or was made to purge them.
		if time.Now().After(patience) {
			return fmt.Errorf("%w: the batch that begins with event %d", errGone, r.from)
		}
		if err := pause(ctx, lagStep); err != nil {
			return err
		}
	}
	if !r.full || r.from > r.last.tail {
		return nil
	}
	r.s.cache.addPlace(r.key, r.last, skip{seq: r.next, first: r.from})
	return nil
}

// wanted estimates the bytes of messages for the rest of the page, from the size of the newest batch.
func (r *run) wanted() int {
	left := min(maxFetch, r.maxBytes-r.bytes)
	if n := len(r.last.body); n > 0 {
		left += left / n * headBytes
	}
	return min(maxFetch, left+messageBytes)
}

// take processes one message of an answer. It skips messages after the newest one and messages that are not needed
// anymore.
func (r *run) take(ctx context.Context, msg *nats.Msg) error {
	if r.full {
		return nil
	}
	e, err := entryOf(msg)
	if err != nil {
		return r.s.explain(r.key, err)
	}
	if e.seq < r.next || e.seq > r.last.seq {
		return nil
	}
	if e.count == 0 {
		r.next = e.seq + 1
		return nil
	}
	return r.add(ctx, e)
}

// add appends the batch of a message.
func (r *run) add(ctx context.Context, e *entry) error {
	switch {
	case e.index != r.last.index, len(r.batches) > 0 && e.first != r.from, e.first > r.from:
		return fmt.Errorf("%w: the batch with event %d; found one that begins with %d", errGone, r.from, e.first)
	case e.first+uint64(e.count) <= r.from:
		r.next = e.seq + 1 // the batch is before the page
		return nil
	}
	batch, err := r.s.batch(ctx, r.key, e)
	if err != nil {
		return err
	}
	r.batches = append(r.batches, batch)
	r.bytes += len(batch.Bytes)
	r.full = r.bytes >= r.maxBytes
	r.next, r.from = e.seq+1, batch.Last()+1
	return nil
}

// batch returns the batch in a message after verifying its checksum.
func (s *Store) batch(ctx context.Context, key reprise.StreamKey, e *entry) (reprise.Batch, error) {
	b := e.body
	if len(e.parts) > 0 {
		var err error
		if b, err = s.joined(ctx, e.parts); err != nil {
			return reprise.Batch{}, s.explain(key, err)
		}
	}
	if sumOf(b) != e.sum {
		return reprise.Batch{}, fmt.Errorf("stream %s: %w: the checksum of the batch that begins with event %d does not hold",
			key, ErrDamaged, e.first)
	}
	return reprise.Batch{First: e.first, Count: e.count, Bytes: b}, nil
}
