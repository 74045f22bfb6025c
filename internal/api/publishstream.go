package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/problem"
	"reprise/internal/web"
)

// acknowledgement is a line of the answer to a streaming publish.
type acknowledgement struct {
	// Events is the number of kept events of the request.
	Events uint64 `json:"events"`
	// First is the seq of the first event since the previous line, omitted if there is none.
	First uint64 `json:"first,omitempty"`
	// Last and Cursor belong to the newest of these events. They are omitted before the first event, and for a
	// duplicate whose seqs are no longer known.
	Last   uint64 `json:"last,omitempty"`
	Cursor string `json:"cursor,omitempty"`
	// Done is true if the body has ended and all of it is kept. Error is the reason if the request has ended early. The
	// last line has one of them.
	Done  bool             `json:"done,omitempty"`
	Error *problem.Problem `json:"error,omitempty"`
}

// acknowledgementRoom is enough for a line without an error, with numbers and a cursor of any length.
const acknowledgementRoom = 192

// appendLine appends the line of JSON that a is.
func (a *acknowledgement) appendLine(dst []byte) ([]byte, error) {
	if a.Error != nil { // in the last line alone
		text, err := json.Marshal(a)
		return append(reprise.AppendJSONLine(dst, text), '\n'), err
	}
	dst = strconv.AppendUint(append(dst, `{"events":`...), a.Events, 10)
	if a.First != 0 {
		dst = strconv.AppendUint(append(dst, `,"first":`...), a.First, 10)
	}
	if a.Last != 0 {
		dst = strconv.AppendUint(append(dst, `,"last":`...), a.Last, 10)
	}
	if a.Cursor != "" {
		dst = append(append(append(dst, `,"cursor":"`...), a.Cursor...), '"')
	}
	if a.Done {
		dst = append(dst, `,"done":true`...)
	}
	return append(dst, '}', '\n'), nil
}

// wantsAcknowledgements reports whether a publish is acknowledged while it is in progress: its body consists of lines,
// and the client prefers lines for the answer.
func wantsAcknowledgements(r *http.Request) bool {
	if !strings.Contains(r.Header.Get("Accept"), web.NDJSON) || web.MediaType(r) != web.NDJSON {
		return false
	}
	form, err := web.Accepts(r, web.JSON, web.NDJSON)
	return err == nil && form == web.NDJSON
}

// publishing is a publish whose body is appended while it arrives. One goroutine reads the body and finds its events.
// The goroutine of the handler appends all events found so far at once and acknowledges them. Single events are
// committed one by one, and frequent events share commits.
type publishing struct {
	s        *Server
	x        *web.Exchange
	stream   *reprise.Stream
	producer *reprise.ProducerID // numbers the next event; nil for none
	found    *foundEvents
	kept     acknowledgement
}

// publishOn answers a publish with acknowledgements.
func (s *Server) publishOn(x *web.Exchange, stream *reprise.Stream) error {
	producer, err := producerOf(x.R.Header)
	switch {
	case err != nil:
		return err
	case x.R.Header.Get(idempotencyKeyHeader) != "":
		return web.Unprocessable(idempotencyKeyHeader,
			"a request that is acknowledged while it goes on takes no Idempotency-Key: the headers of a producer make it "+
				"idempotent")
	case x.Query.Text("type") != "":
		return errTypeOfJSON
	case x.Query.Text(expectedSeq) != "":
		return web.BadRequest(expectedSeq, "a request that is acknowledged while it goes on takes no seq")
	}
	if producer != nil {
		producer.PerEvent = true
	}
	finish, err := httpserver.Interleave(x.W, x.R)
	if err != nil {
		return err
	}
	x.EndWithConnection()
	found := newFoundEvents(s.opts.MaxBody, s.opts.BodyTimeout)
	stop := func(cause error) {
		if found.stop(cause) {
			finish()
		}
	}
	defer context.AfterFunc(x.R.Context(), func() {
		// A disconnect is noticed by reading: the events before it are appended.
		if cause := context.Cause(x.R.Context()); !errors.Is(cause, context.Canceled) {
			stop(cause)
		}
	})()
	defer x.OnDrain(stop)()
	go found.read(x.R.Body)
	defer func() { <-found.ended }() // which the body must not outlive
	defer stop(errAnswered)
	p := &publishing{s: s, x: x, stream: stream, producer: producer, found: found}
	return p.run()
}

// errAnswered is why reading is stopped when the last line has been written.
var errAnswered = errors.New("the publish has been answered")

// run appends and acknowledges until the body ends or something is refused. A refusal before anything is kept or
// acknowledged is an answer with a status of its own.
func (p *publishing) run() error {
	for {
		events, err := p.found.take()
		if len(events) > 0 {
			if refused := p.append(events); refused != nil {
				err = refused
			}
		}
		switch {
		case errors.Is(err, errWholeBody):
			p.kept.Done = true
			_ = p.acknowledge()
			return nil
		case err != nil && p.kept.Events == 0 && !p.x.Record().Begun():
			p.x.Refuse(err)
			_ = http.NewResponseController(p.x.W).Flush()
			return nil
		case err != nil:
			p.refuse(err)
			return nil
		}
		if err := p.acknowledge(); err != nil {
			return nil //nolint:nilerr // no client is left to be told
		}
	}
}

// refuse writes the last line.
func (p *publishing) refuse(err error) {
	refused := problem.From(err)
	p.x.Record().NoteProblem(refused.Code)
	if refused.Code == problem.CodeInternal {
		p.s.opts.Logger.ErrorContext(p.x.R.Context(), "a publish failed",
			"id", p.x.Record().ID, "error", err, "path", httpserver.Clip(p.x.R.URL.Path, 256))
	}
	p.kept.Error = &refused
	_ = p.acknowledge()
}

// append appends events in one commit, except those that the stream refuses, which it finds by bisection.
func (p *publishing) append(events []reprise.Event) error {
	// Events that have arrived are appended, whether or not the client is still there.
	ctx := context.WithoutCancel(p.x.R.Context())
	trace, traced := traceAppend(p.x, p.stream, len(events))
	appended, err := p.stream.AppendWith(ctx, reprise.AppendOptions{Producer: p.producer, Trace: trace}, events...)
	traced(err)
	switch {
	case err == nil:
		p.note(appended, len(events))
		return nil
	case !errors.Is(err, reprise.ErrInvalid):
		return err
	case len(events) == 1:
		refused := problem.From(err)
		refused.Detail = fmt.Sprintf("event %d: %s", p.kept.Events+1, refused.Detail)
		return refused
	}
	half := len(events) / 2
	if err := p.append(events[:half]); err != nil {
		return err
	}
	return p.append(events[half:])
}

// note counts events that are kept.
func (p *publishing) note(appended reprise.Appended, events int) {
	p.s.opts.Metrics.appended(appended)
	p.kept.Events += uint64(events)
	p.kept.Last, p.kept.Cursor = appended.Last, ""
	if p.kept.First == 0 && !appended.Duplicate {
		p.kept.First = appended.First
	}
	if appended.Last > 0 {
		p.kept.Cursor = p.stream.CursorIn(appended.Epoch, appended.Last).String()
	}
	if p.producer != nil {
		next := *p.producer // a copy: the Log may hold the previous one for longer than the append
		next.Seq += uint64(events)
		p.producer = &next
	}
}

// acknowledge writes a line and sends it. It fails if the client takes nothing for WriteTimeout.
func (p *publishing) acknowledge() error {
	text, err := p.kept.appendLine(make([]byte, 0, acknowledgementRoom))
	if err != nil {
		return err
	}
	p.kept.First = 0
	w := p.x.W
	w.Header().Set("Content-Type", web.NDJSON)
	w.Header().Set("X-Accel-Buffering", "no")
	p.x.AllowWrite()
	if _, err := w.Write(text); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// errPause refuses a body that is silent for too long. The client may continue with another request.
func errPause(pause time.Duration) error {
	p := problem.Invalid(http.StatusBadRequest, "",
		fmt.Sprintf("nothing came for %v; a blank line now and then keeps a request", pause))
	p.Retryable = true
	return p
}
