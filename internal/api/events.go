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
	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/internal/web"
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
	wait  time.Duration // for an empty page
	// bySeq is set if the request names its position by a number of events. The answer then names the next page in the
	// same way.
	bySeq bool
}

func (s *Server) executionEvents(x *web.Exchange) error {
	id := x.R.PathValue("id")
	if err := s.mayReadExecution(x, id); err != nil {
		return err
	}
	stream, err := s.host.Stream(x.R.Context(), x.Who.Tenant, id)
	if err != nil {
		return err
	}
	rd := &reading{stream: stream, executionID: id}
	if token := x.R.Header.Get(holdHeader); token != "" {
		if rd.hold = s.host.Held(x.Who.Tenant, id, token); rd.hold != nil {
			awaitReceipts(x, rd.hold)
		}
	}
	return s.follow(x, rd)
}

func (s *Server) streamEvents(x *web.Exchange) error {
	key, err := userStream(x)
	if err != nil {
		return err
	}
	if err := mayReadStream(x, key); err != nil {
		return err
	}
	stream, err := s.log.Stream(x.R.Context(), key)
	if err != nil {
		return err
	}
	return s.follow(x, &reading{stream: stream})
}

// parse determines the requested events and the form of the answer.
func (rd *reading) parse(x *web.Exchange) error {
	var err error
	if rd.form, err = web.Accepts(x.R, web.JSON, web.SSE, web.NDJSON); err != nil {
		return err
	}
	limit, err := x.Query.Number("limit", web.DefaultLimit, 1, web.MaxLimit)
	if err != nil {
		return err
	}
	rd.limit = int(limit)
	if rd.wait, err = x.Query.Duration("wait", maxWait); err != nil {
		return err
	}
	if rd.form != web.JSON {
		for _, name := range []string{"limit", "wait", "cursor"} {
			if x.Query.Text(name) != "" {
				return web.BadRequest(name, "only a page has it: ask for "+web.JSON)
			}
		}
	}
	if rd.Request, err = ssehttp.ParseRequest(x.R); err != nil {
		return err
	}
	return rd.parseCursor(x)
}

// parseCursor reads the position of a page that is given as a number of events: the seq of the event before it in the
// epoch of the stream. Like after, Last-Event-ID overrides it.
func (rd *reading) parseCursor(x *web.Exchange) error {
	if x.Query.Text("cursor") == "" {
		return nil
	}
	seq, err := x.Query.Number("cursor", 0, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	if x.Query.Text("after") != "" {
		return web.BadRequest("cursor", "after is given too")
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
func (s *Server) follow(x *web.Exchange, rd *reading) error {
	if err := rd.parse(x); err != nil {
		return err
	}
	if x.R.Method == http.MethodHead || rd.form == web.JSON && rd.wait == 0 {
		return s.send(x, rd)
	}
	if err := s.enter(x); err != nil {
		return err
	}
	x.EndWithServer()
	if rd.form != web.JSON {
		x.EndWithConnection()
	}
	if rd.executionID != "" {
		x.AtEnd(s.host.FollowIf(x.R.Context(), x.Who.Tenant, rd.executionID, x.Who.MayLeave))
	}
	return s.send(x, rd)
}

// send answers in the requested form.
func (s *Server) send(x *web.Exchange, rd *reading) error {
	opts := ssehttp.Options{
		Heartbeat: s.opts.Heartbeat, WriteTimeout: s.opts.WriteTimeout,
		Resumed: func(what ssehttp.Resumption) { s.opts.Metrics.resumed(x.R, what) },
	}
	if rd.hold != nil {
		opts.Sent = rd.hold.Sent
	}
	coding := s.coding(x)
	switch rd.form {
	case web.JSON:
		return s.page(x, rd, coding)
	case web.NDJSON:
		opts.Form = lines{}
	}
	if seat := x.Seat(); seat != nil {
		seat.Offer()
	}
	w := x.W
	if coding != contentcoding.Identity {
		compressed := contentcoding.NewWriter(w, coding)
		x.AtEnd(compressed.Close)
		w = compressed
	}
	s.tellExpiry(x, w, rd)
	ssehttp.Serve(w, x.R, rd.stream, rd.Request, &opts)
	return nil
}

// expiredBlock is the last block for a reader whose ticket has expired. It is not an event of the stream and has no id,
// so that clients ignore it and resume from the last event.
const expiredBlock = "event: expired\ndata: {\"code\":\"unauthenticated\",\"detail\":\"the ticket has expired\"}\n\n"

// tellExpiry tells a page at the end of its response if that ends with its ticket: it reads with EventSource, which
// shows it no status.
func (s *Server) tellExpiry(x *web.Exchange, w http.ResponseWriter, rd *reading) {
	if rd.form != web.SSE || x.Who.Only == (reprise.StreamKey{}) {
		return
	}
	rec, ctx := x.W, x.R.Context()
	x.AtEnd(func() {
		if !web.RecordOf(rec).Begun() || !errors.Is(context.Cause(ctx), identity.ErrExpired) {
			return
		}
		_ = http.NewResponseController(rec).SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout))
		_, _ = io.WriteString(w, expiredBlock) // the client may have disconnected
	})
}

// coding is how events are compressed for a client. It is apart from send for the sake of the stack: see dispatch.
//
//go:noinline
func (s *Server) coding(x *web.Exchange) contentcoding.Coding {
	x.W.Header().Add("Vary", "Accept-Encoding")
	if s.opts.NoCompression {
		return contentcoding.Identity
	}
	return contentcoding.Pick(x.R.Header)
}

// enter counts x as a reader until its response ends.
func (s *Server) enter(x *web.Exchange) error {
	uncount, err := s.readers.enter(x.Who)
	if err != nil {
		return err
	}
	release, err := s.opts.Quotas.Take(x.Who.Holder(), quota.Readers)
	if err != nil {
		uncount()
		return err
	}
	x.AtEnd(uncount)
	x.AtEnd(release)
	return nil
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
