package reprise

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// pageBytes is the size of a reader's first page from the store.
const pageBytes = 256 << 10

// Reader follows a stream from a position: it returns the existing events
// and then waits for more. It holds only a position; reading
// takes nothing from other readers. A Reader is for one goroutine, except for Close.
type Reader struct {
	stream *Stream
	live   *live
	next   uint64 // seq of the next event to return
	epoch  Epoch  // of the position
	closed bool   // guarded by live.mu
	// closing is closed by Close; nil while no Next waits. Guarded by live.mu.
	closing chan struct{}
	// place is the index in live.notify, if the Reader is there. Guarded by live.mu.
	place  int
	ahead  []Batch   // rest of the last page
	last   uint64    // the last event of the last page
	coming *prefetch // the page after it, if it is being read
}

// Reader opens a reader after the position at, which is checked first. The
// error is a *WindowError if the position is outside the window,
// ErrCursorForeign for a cursor of another stream, or ErrTooManyReaders. The Reader
// must be closed.
//
// A shared store is asked first. While it fails, the reader begins with the events in memory, which may lack appends of
// other replicas; a position beyond them is refused with ErrUnavailable.
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
	if err == nil || errors.Is(err, ErrUnavailable) { // events in memory can be read while the store fails
		lv.mu.Lock()
		err = r.seek(at)
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

// enter registers a reader of lv.
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

// leave unregisters a reader.
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

// Close ends the reader. A waiting Next returns ErrClosed. Other readers of the stream are not woken.
// Closing again does nothing.
func (r *Reader) Close() error {
	lv := r.live
	lv.mu.Lock()
	defer lv.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	lv.readers--
	lv.forget(r)
	if r.closing != nil {
		close(r.closing)
	}
	if hook := r.stream.log.opts.Hooks.ReaderClosed; hook != nil {
		hook(lv.key)
	}
	return nil
}

// Stream returns the stream that r follows.
func (r *Reader) Stream() *Stream { return r.stream }

// Cursor returns the position just after the last event that was returned.
func (r *Reader) Cursor() Cursor {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	return r.cursor()
}

// cursor is Cursor. The caller holds live.mu.
func (r *Reader) cursor() Cursor {
	if r.epoch == r.live.info.Epoch {
		return r.live.cursor(r.next - 1)
	}
	return Cursor{Seq: r.next - 1, Epoch: r.epoch, Tag: r.stream.log.opts.Keys.cursorTags(r.live.key, r.epoch)[0]}
}

// Info returns the state of the stream.
func (r *Reader) Info() StreamInfo {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	return r.live.info
}

// Seek moves the reader. It returns the same errors as Stream.Reader.
func (r *Reader) Seek(at Position) error {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	return r.stream.op("seek in", r.seek(at))
}

// seek is Seek. The caller holds live.mu.
func (r *Reader) seek(at Position) error {
	next, err := r.live.locate(at, r.stream.log.opts.Keys)
	if err == nil {
		if r.epoch != r.live.info.Epoch {
			r.ahead, r.coming = nil, nil // they may hold events that were taken back
		}
		r.next, r.epoch = next, r.live.info.Epoch
	}
	return err
}

// Changed returns a channel that is closed when Poll may have something new to
// return. Call it before Poll, so that no change is missed. All readers of a stream
// share the channel, so Close of this Reader does not close a channel that was returned before.
func (r *Reader) Changed() <-chan struct{} {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	return r.changed()
}

// changed is Changed. The caller holds live.mu.
func (r *Reader) changed() <-chan struct{} {
	if r.closed || r.epoch != r.live.info.Epoch {
		return closedChan
	}
	return r.live.changed(r.next)
}

// Notify calls f when Poll may have something new to return, once, in a goroutine in which f must not block. It is
// Changed for a Reader that waits without a goroutine. It returns false and does not call f if Poll may have something
// now. Notify(nil) takes f back, and returns true; a call that has begun continues.
func (r *Reader) Notify(f func()) bool {
	lv := r.live
	lv.mu.Lock()
	defer lv.mu.Unlock()
	switch {
	case f == nil:
		lv.forget(r)
		return true
	case r.closed || r.epoch != lv.info.Epoch || lv.hasChanged(r.next):
		return false
	}
	lv.remind(r, f)
	return true
}

// Poll returns the events that exist now, as many as are adjacent in memory; the run is
// empty if there are none. It may read from the store but does not wait for
// events. The error is ErrEnded after the end event was returned, a
// *WindowError if the next event is no longer kept (Seek to its Earliest to continue),
// ErrClosed, ErrNotFound or ErrExpired if the Reader, the Log or the stream is gone,
// or the error of the store.
func (r *Reader) Poll(ctx context.Context) (Events, error) {
	for range maxTries {
		events, cold, err := r.poll()
		if cold {
			events, err = r.page(ctx)
		}
		if err == errMoved { //nolint:errorlint // ours, never wrapped
			continue
		}
		r.pass(events)
		return events, err
	}
	return Events{}, r.stream.op("read",
		fmt.Errorf("%w: window and epoch move faster than they can be read", ErrUnavailable))
}

// PollMemory is Poll for a caller that must not wait: it never reads from the store. ok is false, and nothing has
// changed, if Poll may read from the store, or if the wire form of the events takes more than about maxBytes.
func (r *Reader) PollMemory(maxBytes int) (events Events, ok bool, err error) {
	events, cold, err := r.poll()
	if cold || events.wireSize() > maxBytes {
		return Events{}, false, nil
	}
	r.pass(events)
	return events, true, err
}

// pass moves r behind the events that it returns.
func (r *Reader) pass(events Events) {
	if events.Len() > 0 {
		r.next = events.Last() + 1
	}
}

// Buffered reports whether events of the last page from the store are left. The next Poll then returns at once.
func (r *Reader) Buffered() bool { return len(r.ahead) > 0 }

// errMoved reports that a page cannot be used: the window has moved, or the stream is in another epoch.
var errMoved = errors.New("the window or the epoch has moved on")

// poll returns events from memory. cold is true if the events are only in the store.
func (r *Reader) poll() (events Events, cold bool, err error) {
	lv := r.live
	lv.mu.Lock()
	defer lv.mu.Unlock()
	switch {
	case r.closed:
		return Events{}, false, ErrClosed
	case lv.gone != nil:
		return Events{}, false, lv.gone
	case r.epoch != lv.info.Epoch && !r.followFork():
		return Events{}, false, lv.windowError(EpochChanged, r.cursor())
	case r.next > lv.info.Tail && lv.info.End != nil:
		return Events{}, false, ErrEnded
	case r.next > lv.info.Tail:
		return Events{}, false, nil
	case r.next < lv.info.Earliest:
		return Events{}, false, r.gap()
	}
	if events = lv.hot(r.next); events.Len() > 0 {
		r.ahead = nil
	}
	return events, events.Len() == 0, nil
}

// followFork continues in the current epoch of the stream if all returned events are part of its history. The caller
// holds live.mu.
func (r *Reader) followFork() bool {
	fork, ok := r.live.forkOf(r.epoch)
	if !ok || r.next-1 > fork {
		return false
	}
	r.epoch = r.live.info.Epoch
	r.ahead, r.coming = nil, nil // they may hold events that were taken back
	return true
}

// gap returns the error of a reader that fell out of the window. The caller holds live.mu.
func (r *Reader) gap() error {
	err := r.live.windowError(CursorExpired, r.live.cursor(r.next-1))
	if hook := r.stream.log.opts.Hooks.Gap; hook != nil {
		hook(r.live.key, err.Missed())
	}
	return err
}

// page returns events that were read ahead, or reads from the store.
func (r *Reader) page(ctx context.Context) (Events, error) {
	if len(r.ahead) == 0 || r.ahead[0].First != r.next {
		if err := r.readAhead(ctx); err != nil {
			return Events{}, err
		}
	}
	b, rest, err := pageBlock(r.ahead)
	if r.ahead = rest; len(rest) == 0 {
		r.ahead = nil // an empty slice would keep the page in memory while r waits
	}
	var suffix string
	if err == nil {
		r.live.mu.Lock()
		tail, renewed := r.live.info.Tail, r.live.info.Epoch != r.epoch
		suffix = r.live.suffix
		r.live.mu.Unlock()
		if renewed {
			return Events{}, errMoved
		}
		b.cut(tail)
	}
	if err == nil && (b.first > r.next || b.last() < r.next) {
		err = fmt.Errorf("%w: asked for event %d, got %d to %d", ErrUnavailable, r.next, b.first, b.last())
	}
	if err != nil {
		r.ahead = nil
		return Events{}, r.stream.op("read", err)
	}
	return b.eventsFrom(r.next, suffix), nil
}

// readAhead reads a page from the store.
func (r *Reader) readAhead(ctx context.Context) error {
	page, err := r.nextPage(ctx)
	switch {
	case err != nil:
		return r.stream.op("read", err)
	case page.Info.Epoch != r.epoch, r.next < page.Info.Earliest:
		return r.lookAgain(ctx)
	case len(page.Batches) == 0:
		if err := r.learn(ctx); err != nil { // the store may have lost events
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
	if errors.Is(err, ErrEnded) { // which would be taken for the end of the stream
		err = fmt.Errorf("%w: read: %v", ErrUnavailable, err)
	}
	l.noteFailure(err)
	if hook := l.opts.Hooks.StoreRead; hook != nil {
		hook(readInfo(&page, after, time.Since(start), err))
	}
	return page, err
}

func readInfo(page *Page, after uint64, took time.Duration, err error) ReadInfo {
	info := ReadInfo{Duration: took, Err: err}
	if err == nil && page.Info.Tail > after {
		info.Lag = page.Info.Tail - after
	}
	for i := range page.Batches {
		info.Events += page.Batches[i].Count
		info.Bytes += len(page.Batches[i].Bytes)
	}
	return info
}

// lookAgain applies the window or epoch that the store has reported and lets Poll check the position again. A commit
// under way that moved the window finishes first, so that no reader sees an older window afterwards. The position may
// be valid in the new state: a promotion can take a trim back.
func (r *Reader) lookAgain(ctx context.Context) error {
	if err := r.learn(ctx); err != nil {
		return r.stream.op("read", err)
	}
	return errMoved
}

// learn applies the state that the store has reported.
func (r *Reader) learn(ctx context.Context) error { return r.stream.log.refresh(ctx, r.live) }

// Next is like Poll, but waits until there is an event or an error.
func (r *Reader) Next(ctx context.Context) (Events, error) {
	for {
		events, err := r.Poll(ctx)
		if err != nil || events.Len() > 0 {
			return events, err
		}
		changed, closing := r.waiting()
		select {
		case <-changed:
		case <-closing:
		case <-ctx.Done():
			return Events{}, context.Cause(ctx)
		}
	}
}

// waiting is Changed with a channel that Close closes too.
func (r *Reader) waiting() (changed, closing <-chan struct{}) {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	if r.closing == nil && !r.closed {
		r.closing = make(chan struct{})
	}
	return r.changed(), r.closing
}

// Events yields the events one by one and waits for more. An error is the last
// value that it yields. It ends without an error after the end event.
func (r *Reader) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			events, err := r.Next(ctx)
			if errors.Is(err, ErrEnded) {
				return
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			for e := range events.All() {
				r.next = e.Seq + 1 // so that Cursor is just after e
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// longPageBytes is the size of a page after the first one.
const longPageBytes = 1 << 20

// prefetch is a page that is read while the previous one is being returned, so that a long replay does not wait for the
// store after each page.
type prefetch struct {
	after uint64
	done  chan struct{} // closed when the other fields are set
	page  Page
	err   error
}

// prefetch starts to read the page after page, if there is one that is not in memory. It is called from the second
// consecutive page on: most readers that resume need one page.
func (r *Reader) prefetch(page *Page) {
	lv, log := r.live, r.stream.log
	if r.last >= page.Info.Tail || lv.isHot(r.last+1) {
		return
	}
	p := &prefetch{after: r.last, done: make(chan struct{})}
	if log.background.start(func(ctx context.Context) {
		defer close(p.done)
		p.err = log.guard(func() (err error) {
			p.page, err = log.readPage(ctx, lv.key, p.after, longPageBytes)
			return err
		})
	}) {
		r.coming = p
	}
}

// nextPage returns the page after the events that were returned. A failed prefetch is read again.
func (r *Reader) nextPage(ctx context.Context) (Page, error) {
	p := r.coming
	r.coming = nil
	if p == nil || p.after != r.next-1 {
		return r.stream.log.readPage(ctx, r.live.key, r.next-1, pageBytes)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return Page{}, context.Cause(ctx)
	}
	if p.err != nil || len(p.page.Batches) == 0 {
		return r.stream.log.readPage(ctx, r.live.key, r.next-1, pageBytes)
	}
	return p.page, nil
}

// isHot reports whether the event next is in memory.
func (lv *live) isHot(next uint64) bool {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	return len(lv.blocks) > 0 && next >= lv.blocks[0].first
}
