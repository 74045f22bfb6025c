package reprise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// pageBytes is how much a reader takes from the store at first.
const pageBytes = 256 << 10

// Reader follows a stream from a position: it hands out the events that are
// there and then waits for more. It holds a position and nothing else; reading
// takes nothing from other readers. A Reader is for one goroutine, except for Close.
type Reader struct {
	stream *Stream
	live   *live
	next   uint64    // seq of the next event to hand out
	closed bool      // guarded by live.mu
	ahead  []Batch   // what the last page held after what was handed out
	last   uint64    // the last event of the last page
	coming *prefetch // the page after it, if it is being read already
}

// Reader opens a reader after the position at, which is checked first. The
// error is a *WindowError if the position lies outside the window,
// ErrCursorForeign for a cursor of another stream, or ErrTooManyReaders. The Reader
// must be closed.
func (s *Stream) Reader(ctx context.Context, at Position) (*Reader, error) {
	r := &Reader{stream: s}
	err := s.use(ctx, func(lv *live) error { return r.open(ctx, lv, at) })
	if hook := s.log.opts.Hooks.ReaderOpened; hook != nil {
		hook(s.Key(), err)
	}
	if err != nil {
		return nil, s.op("read", err)
	}
	return r, nil
}

func (r *Reader) open(ctx context.Context, lv *live, at Position) error {
	if err := r.enter(lv); err != nil {
		return err
	}
	var stale error
	if r.stream.log.Shared() {
		stale = r.stream.log.refresh(ctx, lv)
	}
	err := stale
	if err == nil || errors.Is(err, ErrUnavailable) { // what is in memory can be read while the store fails
		lv.mu.Lock()
		r.next, err = lv.locate(at, r.stream.log.opts.Keys)
		lv.mu.Unlock()
	}
	if stale != nil && isAhead(err) {
		err = stale
	}
	if err != nil {
		r.leave()
	}
	return err
}

// enter takes a place among the readers of lv.
func (r *Reader) enter(lv *live) error {
	log := r.stream.log
	lv.mu.Lock()
	defer lv.mu.Unlock()
	if lv.gone != nil {
		return lv.gone
	}
	if lv.readers >= log.opts.MaxReaders {
		return ErrTooManyReaders
	}
	if err := log.watch(lv); err != nil {
		return err
	}
	lv.readers++
	lv.used, lv.visited = true, true
	r.live = lv
	return nil
}

// leave gives the place back.
func (r *Reader) leave() {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	r.live.readers--
}

// isAhead reports whether err refuses a position beyond the tail.
func isAhead(err error) bool {
	window, ok := errors.AsType[*WindowError](err)
	return ok && window.Reason == CursorAhead
}

// Close lets the reader go. A Next that waits returns ErrClosed. Closing again does nothing.
func (r *Reader) Close() error {
	lv := r.live
	lv.mu.Lock()
	defer lv.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	lv.readers--
	lv.wakeAll()
	if hook := r.stream.log.opts.Hooks.ReaderClosed; hook != nil {
		hook(lv.key)
	}
	return nil
}

// Stream is the stream that r follows.
func (r *Reader) Stream() *Stream { return r.stream }

// Cursor is the position just after the last event that was handed out.
func (r *Reader) Cursor() Cursor {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	return r.live.cursor(r.next - 1)
}

// Info is the state of the stream.
func (r *Reader) Info() StreamInfo {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	return r.live.info
}

// Seek moves the reader. The errors are those of Stream.Reader.
func (r *Reader) Seek(at Position) error {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	next, err := r.live.locate(at, r.stream.log.opts.Keys)
	if err == nil {
		r.next = next
	}
	return r.stream.op("seek in", err)
}

// Changed returns a channel that is closed when Poll may have something new to
// say. Ask for it before Poll, so that nothing falls in between.
func (r *Reader) Changed() <-chan struct{} {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	if r.closed {
		return closedChan
	}
	return r.live.changed(r.next)
}

// Poll hands out events that are there now, as many as lie together; the run is
// empty if there are none. It may read from the store but does not wait for
// events. The error is io.EOF when the end event was handed out before, a
// *WindowError when the next event is no longer kept (Seek to its Earliest to go
// on), ErrClosed, ErrNotFound or ErrExpired when Reader, Log or stream have gone,
// or that of the store.
func (r *Reader) Poll(ctx context.Context) (Run, error) {
	run, cold, err := r.poll()
	if cold {
		run, err = r.page(ctx)
	}
	if run.Len() > 0 {
		r.next = run.Last() + 1
	}
	return run, err
}

// poll looks in memory. cold is true if the events are in the store alone.
func (r *Reader) poll() (run Run, cold bool, err error) {
	lv := r.live
	lv.mu.Lock()
	defer lv.mu.Unlock()
	switch {
	case r.closed:
		return Run{}, false, ErrClosed
	case lv.gone != nil:
		return Run{}, false, lv.gone
	case r.next > lv.info.Tail && lv.info.End != nil:
		return Run{}, false, io.EOF
	case r.next > lv.info.Tail:
		return Run{}, false, nil
	case r.next < lv.info.Earliest:
		return Run{}, false, r.gap()
	}
	if run = lv.hot(r.next); run.Len() > 0 {
		r.ahead = nil
	}
	return run, run.Len() == 0, nil
}

// gap tells that the reader fell out of the window. The caller holds live.mu.
func (r *Reader) gap() error {
	err := r.live.windowError(CursorExpired, r.live.cursor(r.next-1))
	if hook := r.stream.log.opts.Hooks.Gap; hook != nil {
		hook(r.live.key, err.Missed())
	}
	return err
}

// page hands out what was read ahead, or reads from the store.
func (r *Reader) page(ctx context.Context) (Run, error) {
	if len(r.ahead) == 0 || r.ahead[0].First != r.next {
		if err := r.readAhead(ctx); err != nil {
			return Run{}, err
		}
	}
	b, rest, err := pageBlock(r.ahead)
	if r.ahead = rest; len(rest) == 0 {
		r.ahead = nil // an empty slice would keep the page in memory while r waits
	}
	if err == nil {
		b.cut(r.live.tail())
	}
	if err == nil && (b.first > r.next || b.last() < r.next) {
		err = fmt.Errorf("%w: asked for event %d, got %d to %d", ErrUnavailable, r.next, b.first, b.last())
	}
	if err != nil {
		r.ahead = nil
		return Run{}, r.stream.op("read", err)
	}
	return b.run(r.next, r.live.suffix), nil
}

// readAhead reads a page from the store.
func (r *Reader) readAhead(ctx context.Context) error {
	lv := r.live
	page, err := r.nextPage(ctx)
	switch {
	case err != nil:
		return r.stream.op("read", err)
	case page.Info.Epoch != lv.epoch:
		return r.stream.op("read", ErrNotFound)
	case r.next < page.Info.Earliest:
		return r.fellOut(ctx)
	case len(page.Batches) == 0:
		if err := r.learn(ctx); err != nil { // of a store that has lost them
			return r.stream.op("read", err)
		}
		return r.stream.op("read", fmt.Errorf("%w: no events after %d", ErrUnavailable, r.next-1))
	}
	further := r.next-1 == r.last
	r.ahead, r.last = page.Batches, page.Batches[len(page.Batches)-1].Last()
	if further {
		r.prefetch(&page)
	}
	return nil
}

// readPage reads events from the store.
func (l *Log) readPage(ctx context.Context, key StreamKey, after uint64, maxBytes int) (Page, error) {
	start := time.Now()
	page, err := l.store.Read(ctx, key, after, maxBytes)
	if hook := l.opts.Hooks.StoreRead; hook != nil {
		hook(readInfo(page.Batches, time.Since(start), err))
	}
	return page, err
}

func readInfo(batches []Batch, took time.Duration, err error) ReadInfo {
	info := ReadInfo{Duration: took, Err: err}
	for i := range batches {
		info.Events += batches[i].Count
		info.Bytes += len(batches[i].Bytes)
	}
	return info
}

// fellOut is gap when the store tells of a window that has moved on. It first lets the commit
// come to its end that moved it, or learns of it from the store if that commit seemed to
// fail or was another replica's, so that nobody sees an older window afterwards.
func (r *Reader) fellOut(ctx context.Context) error {
	if err := r.learn(ctx); err != nil {
		return r.stream.op("read", err)
	}
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	return r.gap()
}

// learn brings what is known of the stream up to what the store has told.
func (r *Reader) learn(ctx context.Context) error {
	log := r.stream.log
	if log.Shared() {
		return log.refresh(ctx, r.live)
	}
	return log.exclusively(ctx, func() error { return log.ready(r.live) })
}

// Next is Poll, but waits until there is an event or an error.
func (r *Reader) Next(ctx context.Context) (Run, error) {
	for {
		run, err := r.Poll(ctx)
		if err != nil || run.Len() > 0 {
			return run, err
		}
		select {
		case <-r.Changed():
		case <-ctx.Done():
			return Run{}, context.Cause(ctx)
		}
	}
}

// Events yields the events one by one and waits for more. An error is the last
// thing that is yielded; after the end event there is none.
func (r *Reader) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			run, err := r.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			for e := range run.All() {
				r.next = e.Seq + 1 // so that Cursor is just after e
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}
