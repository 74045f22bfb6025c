package ssehttp

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/problem"
	"reprise/internal/sseloop"
)

// Options are the settings of Serve. The zero value of each field means its default.
type Options struct {
	// Heartbeat is the silence after which a comment is sent. Default: 15 s.
	Heartbeat time.Duration
	// WriteTimeout is how long a reader may accept no bytes before it is closed,
	// to within a second. Default: 30 s.
	WriteTimeout time.Duration
	// Retry is how long readers are asked to wait before they reconnect after
	// a drop, ShutdownRetry when the Log is closed. Defaults: 1 s, 250 ms.
	Retry, ShutdownRetry time.Duration
	// CloseEvent ends an EventStream with a block of type "close" when the stream has ended or was removed, for clients
	// that wait for it. It is not sent when the Log closes, since the stream goes on then.
	CloseEvent bool
	// Sent is called with the seq of the last event that was passed to the connection or
	// filtered out. It must not block. Default: no call.
	Sent func(seq uint64)
	// Form is the wire format of events. Default: EventStream.
	Form Form
	// Resumed, if not nil, is called for each request that presents a cursor, before the answer begins.
	Resumed func(Resumption)
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	for _, field := range []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&d.Heartbeat, 15 * time.Second},
		{&d.WriteTimeout, 30 * time.Second},
		{&d.Retry, time.Second},
		{&d.ShutdownRetry, 250 * time.Millisecond},
	} {
		if *field.value == 0 {
			*field.value = field.def
		}
	}
	if d.Form == nil {
		d.Form = EventStream{}
	}
	return d
}

// bodyTimeout limits the wait for the body of a request, which does not affect the answer.
const bodyTimeout = 30 * time.Second

// Handler serves the streams that Stream finds. Its zero value is not ready for use.
type Handler struct {
	// Stream finds the stream of a request, and refuses callers that may not
	// read it. Its error is answered as problem.From defines.
	Stream func(*http.Request) (*reprise.Stream, error)
	// Options may be nil.
	Options *Options
}

// ServeHTTP answers GET and HEAD.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w, r, done := httpserver.GuardBody(w, r, bodyTimeout)
	defer done()
	if s, req, ok := h.find(w, r); ok {
		Serve(w, r, s, req, h.Options)
	}
}

// find says which stream is asked for and how, or answers with a refusal. It is apart from
// ServeHTTP for the same reason as open is from Serve.
//
//go:noinline
func (h *Handler) find(w http.ResponseWriter, r *http.Request) (s *reprise.Stream, req Request, ok bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refusal := problem.New(problem.CodeInvalid, "streams are read with GET")
		refusal.Status = http.StatusMethodNotAllowed
		_ = problem.Write(w, refusal)
		return nil, Request{}, false
	}
	s, err := h.Stream(r)
	if err == nil {
		req, err = ParseRequest(r)
	}
	if err != nil {
		_ = problem.Write(w, problem.From(err))
		return nil, Request{}, false
	}
	return s, req, true
}

// Serve answers r with the events of s, as Server-Sent Events unless opts.Form says otherwise. It returns when the
// stream has ended and everything was sent, when the client has disconnected, or when the Log
// is closed. An invalid position is answered with a problem document. opts may be nil.
func Serve(w http.ResponseWriter, r *http.Request, s *reprise.Stream, req Request, opts *Options) {
	c := open(w, r, s, req, opts)
	if c == nil {
		return
	}
	c.Parking = sseloop.ParkingOf(r.Context())
	c.follow(r.Context())
}

// open begins the response. It returns nil if that is all there is to it: a refusal, the
// very end of the stream, or an answer to HEAD. It is apart from Serve, which stays on
// the stack of every reader that waits, to keep that small.
//
//go:noinline
func open(w http.ResponseWriter, r *http.Request, s *reprise.Stream, req Request, opts *Options) *conn {
	reader, gap, err := req.Open(r, s)
	if resumption, ok := req.Resumption(reader, gap, err); ok && opts != nil && opts.Resumed != nil {
		opts.Resumed(resumption)
	}
	if err != nil {
		_ = problem.Write(w, problem.From(err))
		return nil
	}
	all := opts.withDefaults()
	c := newConn(w, reader, req, &all)
	at := reader.Cursor()
	err = c.Poll(r.Context())
	switch {
	case errors.Is(err, reprise.ErrEnded) && gap == nil:
		info := reader.Info()
		SetHead(w.Header(), s, &info)
		w.WriteHeader(http.StatusNoContent)
		reader.Close()
		return nil
	case err != nil && !goesOn(err):
		_ = problem.Write(w, problem.From(err))
		reader.Close()
		return nil
	}
	c.begin()
	if r.Method == http.MethodHead {
		reader.Close()
		return nil
	}
	c.write(c.form.AppendRetry(nil, all.Retry))
	if gap != nil {
		c.Gap(gap, at)
	}
	return c
}

// goesOn reports whether a response can go on after err from Reader.Poll.
func goesOn(err error) bool {
	_, outside := errors.AsType[*reprise.WindowError](err)
	return outside || errors.Is(err, reprise.ErrEnded)
}

// The headers of every answer with events.
const (
	// HeaderEarliest is the cursor before the first kept event, HeaderTail the one after the last.
	HeaderEarliest = "Stream-Earliest"
	HeaderTail     = "Stream-Tail"
	// HeaderOutcome is the outcome of the stream. It is absent before the end.
	HeaderOutcome = "Stream-Outcome"
	// headerMissed is the number of events before HeaderEarliest, which are no longer kept. It is absent if there are
	// none.
	headerMissed = "Stream-Missed"
)

// SetHead sets the headers for the window of s and its outcome.
func SetHead(h http.Header, s *reprise.Stream, info *reprise.StreamInfo) {
	h.Set(HeaderEarliest, s.Cursor(info.Earliest-1).String())
	h.Set(HeaderTail, s.Cursor(info.Tail).String())
	if info.End != nil {
		h.Set(HeaderOutcome, info.End.Outcome)
	}
	if info.Earliest > 1 {
		h.Set(headerMissed, strconv.FormatUint(info.Earliest-1, 10))
	}
}
