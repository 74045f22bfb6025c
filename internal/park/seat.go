package park

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/sseloop"
)

// Seat is the place of one response, which may be parked. It is the context of its request as well.
type Seat struct {
	life    life
	lot     *Lot
	request atomic.Pointer[request] // nil from the first Park on
	offered bool                    // the handler may park the response

	// Set by the first Park.
	conn    *net.TCPConn
	kept    *httpserver.Kept
	out     response
	follow  context.Context // of the reader: the Seat, a child, or one with values
	reader  *reprise.Reader
	parked  sseloop.Parked
	beat    time.Duration // until the heartbeat after the first Park
	silence time.Duration // between two heartbeats
	awake   func()        // notified, which is made once
	closing bool          // the connection ends with the response

	finish func()      // set by Settle
	stop   func() bool // ends the wait for the end of follow, if that is a child; else nil
	fd     int32       // in the watch
	number int32       // tells it from earlier connections with the same fd

	mu      sync.Mutex
	settled bool
	waits   bool // nothing is done with it
	early   bool // the clock wants a heartbeat

	behind *Seat // in a queue of the crew, whose mutex guards it

	// The clock's, whose mutex guards them.
	due, target time.Duration // when the heartbeat is due, and what that was when the appointment was made
	appointed   *appointment  // nil for none
	place       int           // in appointed
}

// request is what a Seat needs until it is parked.
type request struct {
	r    *http.Request
	w    http.ResponseWriter
	swap func(http.ResponseWriter)
	stop func() bool // detaches the Seat from the context of r
}

// Seat returns a place for the response to r, or nil if the response cannot be parked, which goes for TLS, HTTP/2,
// HTTP/1.0, and writers that hide the connection. swap makes w pass everything on to another ResponseWriter. Release
// must be called, unless Parked returns true when the handler returns.
func (l *Lot) Seat(w http.ResponseWriter, r *http.Request, swap func(http.ResponseWriter)) *Seat {
	if l == nil || r.ProtoMajor != 1 || r.ProtoMinor < 1 || r.TLS != nil || r.Method == http.MethodHead || !hijacks(w) {
		return nil
	}
	s := &Seat{lot: l}
	parent := r.Context()
	s.request.Store(&request{
		r: r, w: w, swap: swap,
		stop: context.AfterFunc(parent, func() { s.End(context.Cause(parent)) }),
	})
	return s
}

// End ends the response with a cause, like the cancel function of a child of the Seat, which it saves.
func (s *Seat) End(cause error) {
	s.life.end(cause)
	if s.leave() {
		go s.run()
	}
}

// hijacks reports whether the connection of w can be taken from net/http.
func hijacks(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case http.Hijacker:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// Release ends a Seat whose response was not parked.
func (s *Seat) Release() {
	if request := s.request.Load(); request != nil {
		request.stop()
		s.lot.leave(s)
	}
	s.life.end(nil)
}

// cut closes the connection of a parked response.
func (s *Seat) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled {
		_ = s.conn.Close()
	}
}

// Parked reports whether the response was parked, so that it goes on after its handler. It is called by the handler.
func (s *Seat) Parked() bool { return s != nil && s.conn != nil }

// After implements sseloop.Parking.
func (s *Seat) After() time.Duration { return s.lot.opts.After }

// Park implements sseloop.Parking. The first one takes the connection from net/http, and the response waits for Settle.
func (s *Seat) Park(ctx context.Context, reader *reprise.Reader, beat, silence time.Duration,
	parked sseloop.Parked,
) bool {
	if s.conn != nil {
		return s.rest(beat)
	}
	if !s.take() {
		return false
	}
	s.follow, s.reader, s.parked, s.beat, s.silence, s.awake = ctx, reader, parked, beat, silence, s.notified
	return true
}

// take takes the connection from net/http.
func (s *Seat) take() bool {
	request := s.request.Load()
	closing := request.r.Close || request.w.Header().Get("Connection") == "close"
	kept := httpserver.Keep(request.r, func() { s.End(context.Canceled) })
	if kept == nil {
		return false
	}
	s.lot.take(s) // before net/http forgets the connection: a server that stops waits for one or the other
	conn, buffered, err := http.NewResponseController(request.w).Hijack()
	if err != nil {
		s.lot.giveUp()
	}
	if errors.Is(err, http.ErrNotSupported) {
		kept.Lose()
		return false
	}
	if err != nil { // it is lost for net/http too
		_ = kept.Close()
		s.life.end(context.Canceled)
		return false
	}
	request.stop()
	s.conn, s.kept, s.closing = kept.Take(conn, buffered.Reader), kept, closing
	s.out.conn = s.conn
	request.swap(&s.out)
	s.request.Store(nil)
	return true
}

// Settle lets a parked response go on. Its handler calls it last. finish is called when the response has ended, and may
// write the last bytes.
func (s *Seat) Settle(finish func()) {
	s.finish = finish
	s.mu.Lock()
	s.settled = true
	s.mu.Unlock()
	s.lot.settle(s)
	if s.follow.Done() != s.Done() {
		s.stop = context.AfterFunc(s.follow, s.wake)
	}
	if !s.rest(s.beat) {
		s.lot.crew.call(s, false)
	}
}

// rest gives up the goroutine of the caller until there is something to do. It returns false if there is already.
func (s *Seat) rest(beat time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.follow.Err() != nil || !s.reader.Notify(s.awake) {
		return false
	}
	s.waits, s.early = true, false
	if s.stop == nil {
		s.life.forget()
	}
	s.lot.clock.set(s, beat, s.silence)
	return true
}

// leave reports whether the caller must let the response go on, because it waits.
func (s *Seat) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := s.waits
	s.waits = false
	return waits
}

// wake is called in a goroutine of its own when something is due.
func (s *Seat) wake() {
	if s.leave() {
		s.run()
	}
}

// notified is called when there are events, in a goroutine that notifies other readers too.
func (s *Seat) notified() {
	if s.leave() {
		s.lot.crew.call(s, false)
	}
}

// ring is called by the clock.
func (s *Seat) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waits {
		return // the clock is set when it waits again
	}
	left, early := s.lot.clock.missed(s)
	if left > 0 && !early {
		s.lot.clock.set(s, left, s.silence)
		return
	}
	s.waits, s.early = false, true
	s.lot.crew.call(s, true)
}

// glance lets a goroutine of the crew send what is ready. The response gets a goroutine of its own if that is not all.
func (s *Seat) glance() {
	if s.follow.Err() != nil {
		go s.run()
		return
	}
	defer s.recoverPanic()
	s.out.glancing = true
	beat, ok := s.parked.Glance(s.early)
	s.out.glancing, s.early = false, false
	switch {
	case !ok:
		go s.run()
	case !s.rest(beat):
		s.lot.crew.call(s, false)
	}
}

// run lets the response go on until it is parked again or has ended.
func (s *Seat) run() {
	if s.resume() {
		s.end(true)
	}
}

// resume returns true if the response is over, with all of its bytes.
func (s *Seat) resume() bool {
	defer s.recoverPanic()
	return !s.parked.Resume(s.follow)
}

// recoverPanic is deferred by what lets the response go on. A response that has panicked ends.
func (s *Seat) recoverPanic() {
	v := recover()
	if v == nil {
		return
	}
	if v != http.ErrAbortHandler { //nolint:errorlint // a value to panic with
		s.lot.opts.Logger.Error("a parked response panicked", "panic", v, "stack", string(debug.Stack()))
	}
	s.out.glancing = false
	go s.end(false)
}

// Abort ends a parked response, in place of Settle, without its last chunk, so that the client sees that it is not
// whole.
func (s *Seat) Abort(finish func()) {
	s.finish = finish
	s.end(false)
}

// end ends the response. The connection is used again if the client expects that.
func (s *Seat) end(whole bool) {
	if s.stop != nil {
		s.stop()
	}
	_ = s.reader.Close() // it is open after a panic

	gone := errors.Is(context.Cause(s), context.Canceled) // the client has left, or gave way
	s.finish()
	whole = whole && s.out.end() == nil
	s.lot.clock.cancel(s)
	s.lot.watch.remove(s) // before the connection goes back
	s.life.end(nil)
	s.kept.Done()
	if whole && !gone && !s.closing {
		s.lot.giveBack(s.conn, s.kept)
	} else {
		_ = s.kept.Close()
	}
	s.lot.remove(s)
}
