//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// errForm means that a response breaks its own format.
var errForm = errors.New("not well-formed")

// form is the form in which a reader requests events.
type form struct {
	name, accept string
	gapEvent     bool // it asks for gap=event
}

var forms = []form{
	{"sse", "text/event-stream", true},
	{"sse, refusals", "text/event-stream", false},
	{"ndjson", "application/x-ndjson", true},
	{"pages", "application/json", true},
}

// got is an event that a reader has received.
type got struct {
	seq uint64
	id  string
}

// reader follows a stream to its end over any number of connections and checks each event on arrival: the seqs are
// contiguous except for reported gaps, and a response ends the stream only after the end event.
type reader struct {
	s      *stage
	name   string
	stream *stream
	form   form
	rnd    *rand.Rand

	cursor string
	last   uint64
	events []got
	ended  bool
}

// follow reads until the end of the stream, or until ctx is done.
func (r *reader) follow(ctx context.Context) {
	for turn := r.rnd.IntN(2); ctx.Err() == nil && !r.ended; turn++ {
		r.s.ledger.count("connections of readers", 1)
		before := r.last
		r.connect(ctx, turn)
		if r.last == before && !r.ended {
			pause(ctx, time.Duration(20+r.rnd.IntN(80))*time.Millisecond)
		}
	}
	if r.ended {
		r.askAfterEnd(ctx)
	}
}

func (r *reader) violation(what string, args ...any) {
	r.s.ledger.violation("reader %s at %d: "+what, append([]any{r.name, r.last}, args...)...)
}

// patience is how long a reader keeps a silent connection.
func (r *reader) patience() time.Duration { return min(3*r.s.opts.heartbeat, 10*time.Second) }

// connect makes one request and handles its response.
func (r *reader) connect(ctx context.Context, turn int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(r.patience(), cancel)
	defer watchdog.Stop()
	resp, err := r.s.calls.open(ctx, turn, r.request())
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if outcome := resp.Header.Get("Stream-Outcome"); outcome != "" && !r.s.ledger.mayHaveEnded(r.stream.name) {
		r.violation("Stream-Outcome %q of a stream that nobody has ended", outcome)
	}
	if resp.StatusCode != http.StatusOK {
		r.refused(resp)
		return
	}
	most := 1 + r.rnd.IntN(2000) // then the reader disconnects
	take := func(e *item) bool {
		watchdog.Reset(r.patience())
		most--
		return r.take(e) && most > 0
	}
	silent := func() { watchdog.Reset(r.patience()) }
	switch r.form.accept {
	case "text/event-stream":
		var empty int
		if empty, err = readEventStream(resp.Body, take, silent); empty > 0 {
			r.violation("%d blocks without data", empty)
		}
	case "application/x-ndjson":
		err = readLines(resp.Body, take, silent)
	default:
		err = r.takePage(resp, take)
	}
	if errors.Is(err, errForm) {
		r.violation("%v", err)
	}
}

func (r *reader) request() *request {
	q := &request{
		method: http.MethodGet,
		path:   r.stream.path() + "/events",
		header: map[string]string{"Accept": r.form.accept},
	}
	sep := "?"
	if r.form.gapEvent {
		q.path, sep = q.path+"?gap=event", "&"
	}
	if r.form.accept == "application/json" {
		q.path, sep = q.path+sep+"limit=500&wait=1s", "&"
	}
	switch {
	case r.cursor == "":
	case r.form.accept == "text/event-stream":
		q.header["Last-Event-ID"] = r.cursor
	default:
		q.path += sep + "after=" + r.cursor
	}
	return q
}

// take handles an event or the notice of a gap. It returns false at the end of the stream.
func (r *reader) take(e *item) bool {
	if e.Type == typeGap && e.Seq == 0 {
		r.gap(e.Code, e.Cursor, e.Fork, e.TakenBack, e.Missed)
		return true
	}
	if r.ended {
		r.violation("event %d comes after the end", e.Seq)
	}
	if e.Seq != r.last+1 && !r.anywhere() {
		r.violation("event %d comes next", e.Seq)
	}
	if position(e.Cursor) != e.Seq {
		r.violation("event %d has the cursor %s", e.Seq, e.Cursor)
	}
	r.last, r.cursor = e.Seq, e.Cursor
	r.events = append(r.events, got{e.Seq, e.id()})
	r.s.ledger.count("read", 1)
	if e.Type != typeEnd {
		return true
	}
	r.ended = true
	if !r.s.ledger.mayHaveEnded(r.stream.name) {
		r.violation("the end of a stream that nobody has ended")
	}
	return false
}

// anywhere reports whether the first event may have any seq: without a cursor it is the earliest kept one.
func (r *reader) anywhere() bool { return r.cursor == "" && r.stream.small }

// gap continues at the position that the server states, if the server may report a gap there.
func (r *reader) gap(code, at, fork string, takenBack *uint64, missed uint64) {
	to := position(at)
	switch code {
	case "cursor_expired":
		if !r.stream.small {
			r.violation("%s in a stream that keeps all", code)
		}
		if (to <= r.last || missed != to-r.last) && !r.anywhere() {
			r.violation("%s tells %d missed and goes on after %d", code, missed, to)
		}
	case "epoch_changed":
		r.s.ledger.count("epochs told", 1)
		if !r.s.engine.mayLose() {
			r.violation("%s on a store that loses nothing", code)
		}
		if fork != "" && to < position(fork) {
			r.violation("%s goes on after %d, before the fork %s", code, to, fork)
		}
		if forked := position(fork); takenBack != nil && (forked > r.last || *takenBack != r.last-forked) {
			r.violation("%s with the fork %d tells of %d taken back", code, forked, *takenBack)
		}
		for n := len(r.events); n > 0 && r.events[n-1].seq > to; n-- {
			r.events = r.events[:n-1]
		}
	default:
		r.violation("refused with %s, to go on after %d", code, to)
	}
	r.last, r.cursor = to, at
}

// refused handles a response without events.
func (r *reader) refused(resp *http.Response) {
	a, err := readAnswer(resp)
	switch {
	case err != nil || a.passing():
	case a.status == http.StatusNoContent:
		r.violation("204 before the end event")
		r.ended = true
	case !r.form.gapEvent && (a.Code == "cursor_expired" || a.Code == "epoch_changed"):
		at := a.Earliest
		if a.Fork != "" && position(a.Fork) > position(at) {
			at = a.Fork
		}
		r.gap(a.Code, at, a.Fork, nil, position(at)-min(r.last, position(at)))
	default:
		r.violation("status %d %s: %s (with %s)", a.status, a.Code, a.Detail, r.cursor)
		r.cursor, r.last, r.events = "", 0, nil // the next event may have any seq
	}
}

func (r *reader) takePage(resp *http.Response, take func(*item) bool) error {
	var p page
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
		return err // a truncated page is requested again
	}
	for i := range p.Events {
		take(&p.Events[i])
	}
	if p.Ended && !r.s.ledger.mayHaveEnded(r.stream.name) {
		r.violation("a page says that the stream has ended")
	}
	if p.Ended && !p.HasMore && !r.ended {
		r.violation("the last page came before the end event")
	}
	if position(p.NextCursor) != r.last {
		r.violation("next_cursor is %s", p.NextCursor)
	}
	return nil
}

// askAfterEnd resumes at the end of the stream, where nothing is left.
func (r *reader) askAfterEnd(ctx context.Context) {
	if r.form.accept != "text/event-stream" {
		return
	}
	for turn := range 100 {
		a, err := r.s.calls.call(ctx, turn, r.request())
		if err == nil && !a.passing() {
			if a.status != http.StatusNoContent {
				r.violation("resumed at the end: status %d %s", a.status, a.Code)
			}
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
}
