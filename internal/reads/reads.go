package reads

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
	"reprise/client"
	"reprise/internal/contentcoding"
	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/internal/web"
	"reprise/sse/ssehttp"
)

// maxWait limits how long a page waits for an event.
const maxWait = 60 * time.Second

// Options are the settings of a Service. The zero value of each field means its default.
type Options struct {
	// Heartbeat is the silence after which a reader that follows is sent something without a meaning, and WriteTimeout
	// how long it may accept no bytes. Default: those of ssehttp.
	Heartbeat, WriteTimeout time.Duration
	// NoCompression disables the compression of events for clients that request it.
	NoCompression bool
	// CloseEvent is that of ssehttp.Options.
	CloseEvent bool
	// MaxPerPrincipal bounds the responses that one principal follows at a time.
	MaxPerPrincipal int
	// Quotas are the quotas of principals and tenants.
	Quotas *quota.Book
	// Resumed is called with what became of a cursor.
	Resumed func(*http.Request, ssehttp.Resumption)
}

// Service answers requests that read the events of a Log. It is safe for concurrent use.
type Service struct {
	log     *reprise.Log
	opts    Options
	readers readerLimit
}

// New returns a Service for the streams of log.
func New(log *reprise.Log, opts *Options) *Service {
	return &Service{log: log, opts: *opts, readers: readerLimit{max: opts.MaxPerPrincipal}}
}

// Reading is a request to read the events of a stream.
type Reading struct {
	Stream *reprise.Stream
	// Sent, if not nil, is called with the seq of the last event that was sent or filtered out.
	Sent func(seq uint64)
	// Attend, if not nil, is called when the response begins to follow, and what it returns when that ends.
	Attend func() (leave func())

	form string // the media type of the answer
	ssehttp.Request
	limit int           // of a page
	wait  time.Duration // for a page that would be empty, or until the end of an answer that follows; 0 for none
	// bySeq is set if the request names its position by a number of events. The answer then names the next page in the
	// same way.
	bySeq bool
}

// Parameters are the query parameters of a request that reads events.
var Parameters = []string{"after", "cursor", "types", "gap", "cursors", "limit", "wait"}

// parse determines the requested events and the form of the answer.
func (rd *Reading) parse(x *web.Exchange) error {
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
		for _, name := range []string{"limit", "cursor"} {
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
func (rd *Reading) parseCursor(x *web.Exchange) error {
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
		rd.After = rd.Stream.Cursor(uint64(seq)).String()
	}
	return nil
}

// Follow answers with the events, in the form and to the extent that the request asks for. During the answer, it counts
// as a reader of the principal and attends to the stream, unless it waits for nothing.
func (s *Service) Follow(x *web.Exchange, rd *Reading) error {
	if err := rd.parse(x); err != nil {
		return err
	}
	if x.R.Method == http.MethodHead || rd.form == web.JSON && rd.wait == 0 {
		return s.send(x, rd)
	}
	if err := s.Enter(x); err != nil {
		return err
	}
	x.EndWithServer()
	if rd.form != web.JSON {
		x.EndWithConnection()
	}
	if rd.Attend != nil {
		x.AtEnd(rd.Attend())
	}
	return s.send(x, rd)
}

// FollowFrom answers with the events after a position as SSE. The caller has entered the reader.
func (s *Service) FollowFrom(x *web.Exchange, rd *Reading, from ssehttp.Request) error {
	rd.form, rd.Request = web.SSE, from
	x.EndWithServer()
	x.EndWithConnection()
	return s.send(x, rd)
}

// Window returns the cursors of the kept events.
func (s *Service) Window(info *reprise.StreamInfo) client.Window {
	earliest, tail := s.log.Window(info)
	return client.Window{Earliest: earliest.String(), Tail: tail.String()}
}

// send answers in the requested form.
func (s *Service) send(x *web.Exchange, rd *Reading) error {
	opts := ssehttp.Options{
		Heartbeat: s.opts.Heartbeat, WriteTimeout: s.opts.WriteTimeout, CloseEvent: s.opts.CloseEvent,
		Resumed: func(what ssehttp.Resumption) { s.opts.Resumed(x.R, what) }, Sent: rd.Sent,
	}
	if rd.wait > 0 && rd.form != web.JSON {
		s.endWithEvents(x, rd.wait, &opts)
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
	ssehttp.Serve(w, x.R, rd.Stream, rd.Request, &opts)
	return nil
}

// errWaited is the cause that ends a response which follows a stream only for a while. Its reader comes back at once.
var errWaited = fmt.Errorf("%w: the answer has lasted for the requested time", reprise.ErrClosed)

// endWithEvents ends the context of the request once events were sent or filtered out, and after wait in any case. A
// heartbeat in between shows the client that nothing has held the answer back until its end.
func (s *Service) endWithEvents(x *web.Exchange, wait time.Duration, opts *ssehttp.Options) {
	opts.Heartbeat = min(opts.Heartbeat, wait/2)
	sent := opts.Sent
	x.EndWith(func(end context.CancelCauseFunc) (stop func() bool) {
		opts.Sent = func(seq uint64) {
			if sent != nil {
				sent(seq)
			}
			end(errWaited)
		}
		return time.AfterFunc(wait, func() { end(errWaited) }).Stop
	})
}

// expiredBlock is the last block for a reader whose ticket has expired. It is not an event of the stream and has no id,
// so that clients ignore it and resume from the last event.
const expiredBlock = "event: expired\ndata: {\"code\":\"unauthenticated\",\"detail\":\"the ticket has expired\"}\n\n"

// tellExpiry tells a page at the end of its response if that ends with its ticket: it reads with EventSource, which
// shows it no status.
func (s *Service) tellExpiry(x *web.Exchange, w http.ResponseWriter, rd *Reading) {
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
func (s *Service) coding(x *web.Exchange) contentcoding.Coding {
	x.W.Header().Add("Vary", "Accept-Encoding")
	if s.opts.NoCompression {
		return contentcoding.Identity
	}
	return contentcoding.Pick(x.R.Header)
}

// Enter counts x as a reader until its response ends.
func (s *Service) Enter(x *web.Exchange) error {
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
