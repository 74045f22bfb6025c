package relay

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"reprise"
)

// The outcomes of a recording.
const (
	outcomeCompleted = "completed"
	outcomeCancelled = "cancelled" // by DELETE, or because no client read it
	outcomeFailed    = "failed"    // the backend has broken off
	outcomeLost      = "lost"      // the relay has ended first
)

// head is the beginning of an answer.
type head struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Lines  bool        `json:"lines,omitempty"`
}

// end is the data of the last event.
type end struct {
	Error   string      `json:"error,omitempty"`
	Trailer http.Header `json:"trailer,omitempty"`
}

func ending(why string) reprise.Event { return encoded(end{Error: why}) }

func encoded(v any) reprise.Event {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts
	}
	return reprise.Event{Format: reprise.FormatJSON, Data: text}
}

// perHop are headers that do not belong to the answer itself, and private those that are only for its first reader.
var (
	perHop = []string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Content-Length",
	}
	private = []string{"Set-Cookie", "Authorization", "Www-Authenticate", "Proxy-Authenticate"}
)

// recording is an answer on its way into a stream.
type recording struct {
	relay  *Relay
	name   string
	stream *reprise.Stream
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	readers int
	alone   *time.Timer // until the backend is stopped
	// written are the bytes that were recorded, sent those that the client of the request has taken, -1 once it is
	// gone. moved is closed when sent changes.
	written, sent int64
	moved         chan struct{}
}

// record begins the recording of an answer. It takes the body out of res.
func (c *call) record(res *http.Response, lines bool) error {
	l, ctx := c.relay, c.r.Context()
	if c.stream == nil {
		key := l.stream(c.r, namespace+strings.ToLower(rand.Text()))
		var err error
		if c.stream, _, err = l.log.Create(ctx, key, c.config("")); err != nil {
			return err
		}
	}
	rec := &recording{
		relay: l, name: strings.TrimPrefix(c.stream.Key().Name, namespace), stream: c.stream, cancel: c.cancel,
		readers: 1, moved: make(chan struct{}),
	}
	h := head{Status: res.StatusCode, Header: res.Header.Clone(), Lines: lines}
	for _, name := range perHop {
		h.Header.Del(name)
	}
	c.live = http.Header{}
	for _, name := range private {
		if values := h.Header.Values(name); len(values) > 0 {
			c.live[name] = values
			h.Header.Del(name)
		}
	}
	zipped := h.Header.Get("Content-Encoding") == "gzip"
	h.Header.Del("Content-Encoding")
	first := encoded(h)
	first.Type = typeHead
	if _, err := c.stream.Append(ctx, first); err != nil {
		return err
	}
	if c.group != "" {
		if err := c.point(ctx, rec.name); err != nil {
			return err
		}
	}
	body := res.Body
	res.Body = http.NoBody
	l.mu.Lock()
	l.running[rec.name] = rec
	l.mu.Unlock()
	c.rec = rec
	l.writing.Go(func() { rec.write(res, body, zipped, lines) })
	return nil
}

// point makes a recording the newest of its group.
func (c *call) point(ctx context.Context, name string) error {
	labels := c.relay.labels(c.r)
	labels[reprise.MaxIdleLabel] = "24h"
	config := reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 1}, Labels: labels}
	s, _, err := c.relay.log.Create(ctx, c.relay.stream(c.r, c.group), config)
	if err == nil {
		_, err = s.Append(ctx, event("newest", []byte(name)))
	}
	return err
}

// write records a body up to its end.
func (rec *recording) write(res *http.Response, body io.ReadCloser, zipped, lines bool) {
	l := rec.relay
	stop := context.AfterFunc(l.life, func() { rec.cancel(errStopped) })
	defer stop()
	defer body.Close()
	out := rec.stream.Appender(context.WithoutCancel(l.life), nil)
	err := rec.copy(out, body, zipped, &splitter{lines: lines})
	outcome, last := outcomeCompleted, end{Trailer: res.Trailer}
	if err != nil {
		outcome, last = outcomeFailed, end{Error: err.Error()}
		switch cause := context.Cause(res.Request.Context()); {
		case errors.Is(cause, errStopped):
			outcome, last.Error = outcomeLost, cause.Error()
		case cause != nil:
			outcome, last.Error = outcomeCancelled, cause.Error()
		}
		l.opts.Logger.Warn("an answer is not complete", "recording", rec.name, "outcome", outcome, "error", last.Error)
	}
	if _, err := out.TryEnd(outcome, encoded(last)); err != nil {
		l.opts.Logger.Error("a recording cannot be ended", "recording", rec.name, "error", err)
	}
	rec.cancel(nil)
	l.mu.Lock()
	delete(l.running, rec.name)
	l.mu.Unlock()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.alone != nil {
		rec.alone.Stop()
	}
}

// mostBehind bounds the bytes that the client of a request, while it reads, is behind its recording.
const mostBehind = 8 << 20

// copy records what comes.
func (rec *recording) copy(out *reprise.Appender, body io.Reader, zipped bool, split *splitter) error {
	if zipped {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unzipped
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := body.Read(buffer)
		events := split.feed(buffer[:n])
		if err != nil {
			events = append(events, split.rest()...)
		}
		if len(events) > 0 {
			if _, aerr := out.Try(events...); aerr != nil {
				return aerr
			}
			rec.wait(events)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// wait waits until the client of the request is not too far behind.
func (rec *recording) wait(events []reprise.Event) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for i := range events {
		rec.written += int64(len(events[i].Data))
	}
	for rec.sent >= 0 && rec.written-rec.sent > mostBehind {
		moved := rec.moved
		rec.mu.Unlock()
		<-moved
		rec.mu.Lock()
	}
}

// took notes how much the client of the request has taken, -1 once it is gone.
func (rec *recording) took(sent int64) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.sent = sent
	close(rec.moved)
	rec.moved = make(chan struct{})
}

// errAlone is why a backend without readers is stopped.
var errAlone = errors.New("nobody read the answer any more")

// enter counts a reader.
func (rec *recording) enter() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.readers++
	if rec.alone != nil {
		rec.alone.Stop()
	}
}

// leave is the inverse of enter.
func (rec *recording) leave() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.readers--; rec.readers == 0 {
		rec.alone = time.AfterFunc(rec.relay.opts.Grace, func() {
			rec.mu.Lock()
			alone := rec.readers == 0
			rec.mu.Unlock()
			if alone {
				rec.cancel(errAlone)
			}
		})
	}
}

// find returns a recording that this relay writes.
func (l *Relay) find(name string) *recording {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running[name]
}

// Running returns the names of the recordings that are written.
func (l *Relay) Running() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.running))
}
