package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"reprise"
	"reprise/internal/contentcoding"
	"reprise/internal/execution"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/ssehttp"
)

// maxWait limits how long a page waits for an event.
const maxWait = 60 * time.Second

// reading is a request to read the events of a stream.
type reading struct {
	stream *reprise.Stream
	form   string // the media type of the answer
	// executionID is set if the stream belongs to an execution.
	executionID string
	hold        *execution.Hold // of the reader's, if output is held back for it

	ssehttp.Request
	limit int           // of a page
	wait  time.Duration // for a page that would be empty, or until the end of an answer that follows; 0 for none
	// bySeq is set if the request names its position by a number of events. The answer then names the next page in the
	// same way.
	bySeq bool
}

func (s *Server) executionEvents(x *exchange) error {
	id := x.r.PathValue("id")
	if err := s.mayReadExecution(x, id); err != nil {
		return err
	}
	stream, err := s.host.Stream(x.r.Context(), x.who.Tenant, id)
	if err != nil {
		return err
	}
	rd := &reading{stream: stream, executionID: id}
	if token := x.r.Header.Get(holdHeader); token != "" {
		if rd.hold = s.host.Held(x.who.Tenant, id, token); rd.hold != nil {
			x.awaitReceipts(rd.hold)
		}
	}
	return s.follow(x, rd)
}

func (s *Server) streamEvents(x *exchange) error {
	key, err := userStream(x)
	if err != nil {
		return err
	}
	if err := x.mayReadStream(key); err != nil {
		return err
	}
	stream, err := s.log.Stream(x.r.Context(), key)
	if err != nil {
		return err
	}
	return s.follow(x, &reading{stream: stream})
}

// parse determines the requested events and the form of the answer.
func (rd *reading) parse(x *exchange) error {
	var err error
	if rd.form, err = accepts(x.r, jsonType, sseType, ndjsonType); err != nil {
		return err
	}
	limit, err := x.query.number("limit", defaultLimit, 1, maxLimit)
	if err != nil {
		return err
	}
	rd.limit = int(limit)
	if rd.wait, err = x.query.duration("wait", maxWait); err != nil {
		return err
	}
	if rd.form != jsonType {
		for _, name := range []string{"limit", "cursor"} {
			if x.query.text(name) != "" {
				return badRequest(name, "only a page has it: ask for "+jsonType)
			}
		}
	}
	if rd.Request, err = ssehttp.ParseRequest(x.r); err != nil {
		return err
	}
	return rd.parseCursor(x)
}

// parseCursor reads the position of a page that is given as a number of events: the seq of the event before it in the
// epoch of the stream. Like after, Last-Event-ID overrides it.
func (rd *reading) parseCursor(x *exchange) error {
	if x.query.text("cursor") == "" {
		return nil
	}
	seq, err := x.query.number("cursor", 0, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	if x.query.text("after") != "" {
		return badRequest("cursor", "after is given too")
	}
	rd.bySeq = true
	switch {
	case rd.After != "":
	case seq == 0:
		rd.After = "earliest"
	default:
		rd.After = rd.stream.Cursor(uint64(seq)).String()
	}
	return nil
}

// follow answers with the events. During the answer, it counts as a reader of the principal and, if the principal
// may cancel the execution, as a follower of it, unless it waits for nothing.
func (s *Server) follow(x *exchange, rd *reading) error {
	if err := rd.parse(x); err != nil {
		return err
	}
	if x.r.Method == http.MethodHead || rd.form == jsonType && rd.wait == 0 {
		return s.send(x, rd)
	}
	if err := s.enter(x); err != nil {
		return err
	}
	s.endWithServer(x)
	if rd.form != jsonType {
		x.endWithConnection()
	}
	if rd.executionID != "" {
		x.atEnd(s.host.FollowIf(x.r.Context(), x.who.Tenant, rd.executionID, x.who.MayLeave))
	}
	return s.send(x, rd)
}

// send answers in the requested form.
func (s *Server) send(x *exchange, rd *reading) error {
	opts := ssehttp.Options{
		Heartbeat: s.opts.Heartbeat, WriteTimeout: s.opts.WriteTimeout,
		Resumed: func(what ssehttp.Resumption) { s.opts.Metrics.resumed(x.r, what) },
	}
	if rd.hold != nil {
		opts.Sent = rd.hold.Sent
	}
	if rd.wait > 0 && rd.form != jsonType {
		s.endWithEvents(x, rd.wait, &opts)
	}
	coding := s.coding(x)
	switch rd.form {
	case jsonType:
		return s.page(x, rd, coding)
	case ndjsonType:
		opts.Form = lines{}
	}
	if rec := recordOf(x.w); rec.seat != nil {
		rec.seat.Offer()
	}
	w := x.w
	if coding != contentcoding.Identity {
		compressed := contentcoding.NewWriter(w, coding)
		x.atEnd(compressed.Close)
		w = compressed
	}
	s.tellExpiry(x, w, rd)
	ssehttp.Serve(w, x.r, rd.stream, rd.Request, &opts)
	return nil
}

// expiredBlock is the last block for a reader whose ticket has expired. It is not an event of the stream and has no id,
// so that clients ignore it and resume from the last event.
const expiredBlock = "event: expired\ndata: {\"code\":\"unauthenticated\",\"detail\":\"the ticket has expired\"}\n\n"

// tellExpiry tells a page at the end of its response if that ends with its ticket: it reads with EventSource, which
// shows it no status.
func (s *Server) tellExpiry(x *exchange, w http.ResponseWriter, rd *reading) {
	if rd.form != sseType || x.who.Only == (reprise.StreamKey{}) {
		return
	}
	rec, ctx := recordOf(x.w), x.r.Context()
	rec.atEnd(func() {
		if !rec.Begun() || !errors.Is(context.Cause(ctx), identity.ErrExpired) {
			return
		}
		_ = http.NewResponseController(rec).SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout))
		_, _ = io.WriteString(w, expiredBlock) // the client may have disconnected
	})
}

// coding is how events are compressed for a client. It is apart from send for the sake of the stack: see dispatch.
//
//go:noinline
func (s *Server) coding(x *exchange) contentcoding.Coding {
	x.w.Header().Add("Vary", "Accept-Encoding")
	if s.opts.NoCompression {
		return contentcoding.Identity
	}
	return contentcoding.Pick(x.r.Header)
}

// enter counts x as a reader until its response ends.
func (s *Server) enter(x *exchange) error {
	uncount, err := s.readers.enter(x.who)
	if err != nil {
		return err
	}
	release, err := s.opts.Quotas.Take(x.who.Holder(), quota.Readers)
	if err != nil {
		uncount()
		return err
	}
	x.atEnd(uncount)
	x.atEnd(release)
	return nil
}

// errAged is the cause that ends a response which follows a stream. Its reader is told to reconnect, as at a shutdown.
var errAged = fmt.Errorf("%w: the connection has reached its age", reprise.ErrClosed)

// endWithConnection ends the context of the request when the connection reaches its age, if there is a bound on
// that; the connection is closed with the response.
func (x *exchange) endWithConnection() {
	left, ok := httpserver.Remaining(x.r.Context())
	if !ok {
		return
	}
	if x.r.ProtoMajor == 1 {
		x.w.Header().Set("Connection", "close")
	}
	x.endWith(func(end context.CancelCauseFunc) (stop func() bool) {
		return time.AfterFunc(left, func() { end(errAged) }).Stop
	})
}

// errWaited is the cause that ends a response which follows a stream only for a while. Its reader comes back at once.
var errWaited = fmt.Errorf("%w: the answer has lasted for the requested time", reprise.ErrClosed)

// endWithEvents ends the context of the request once events were sent or filtered out, and after wait in any case. A
// heartbeat in between shows the client that nothing has held the answer back until its end.
func (s *Server) endWithEvents(x *exchange, wait time.Duration, opts *ssehttp.Options) {
	opts.Heartbeat = min(opts.Heartbeat, wait/2)
	sent := opts.Sent
	x.endWith(func(end context.CancelCauseFunc) (stop func() bool) {
		opts.Sent = func(seq uint64) {
			if sent != nil {
				sent(seq)
			}
			end(errWaited)
		}
		return time.AfterFunc(wait, func() { end(errWaited) }).Stop
	})
}

// endWithServer ends the context of the request when the server drains.
func (s *Server) endWithServer(x *exchange) {
	if seat := recordOf(x.w).seat; seat != nil {
		seat.Await() // of which Drain ends all together
		return
	}
	x.endWith(func(end context.CancelCauseFunc) (stop func() bool) {
		return context.AfterFunc(s.draining, func() { end(errDraining) })
	})
}

// endWith lets a timer end the context of the request. start starts the timer.
func (x *exchange) endWith(start func(end context.CancelCauseFunc) (stop func() bool)) {
	if seat := recordOf(x.w).seat; seat != nil {
		stop := start(seat.End)
		x.atEnd(func() { stop() })
		return
	}
	ctx, cancel := context.WithCancelCause(x.r.Context())
	stop := start(cancel)
	x.r = x.r.WithContext(ctx)
	x.atEnd(func() {
		stop()
		cancel(nil)
	})
}

// readerLimit counts the readers of each principal.
type readerLimit struct {
	max int

	mu    sync.Mutex
	count map[principalKey]int
}

type principalKey struct {
	tenant reprise.Tenant
	name   string
}

func (l *readerLimit) enter(who identity.Principal) (leave func(), err error) {
	key := principalKey{who.Tenant, who.Name}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[key] >= l.max {
		return nil, fmt.Errorf("%w: you have %d", reprise.ErrTooManyReaders, l.max)
	}
	if l.count == nil {
		l.count = map[principalKey]int{}
	}
	l.count[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.count[key]--; l.count[key] == 0 {
			delete(l.count, key)
		}
	}, nil
}
