//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// stream is a stream that all writers and readers of a stage share.
type stream struct {
	name  string
	small bool // keeps few events, so that readers fall out of its window
	early bool // ends while faults are injected
}

func (s *stream) path() string { return "/v1/streams/" + s.name }

// producer numbers appends, so that a repeated one takes effect once.
type producer struct {
	id         string
	epoch, seq uint64
}

func (p *producer) header() map[string]string {
	return map[string]string{
		"Content-Type": "application/json", "Producer-Id": p.id,
		"Producer-Epoch": strconv.FormatUint(p.epoch, 10), "Producer-Seq": strconv.FormatUint(p.seq, 10),
	}
}

// writer appends to a stream, one call after the other. Each event has a unique id.
type writer struct {
	s        *stage
	name     string
	stream   *stream
	rnd      *rand.Rand
	producer *producer // nil for a writer that does not retry
	turn     int       // the replica that it calls
	calls    int
	stopped  bool
}

type published struct {
	First, Last uint64
	Cursor      string
	Duplicate   bool
}

// write appends until ctx is done or the stream has ended.
func (w *writer) write(ctx context.Context) {
	for ctx.Err() == nil && !w.stopped {
		w.calls++
		ids := make([]string, 1+w.rnd.IntN(4))
		for i := range ids {
			ids[i] = fmt.Sprintf("%s.%d.%d", w.name, w.calls, i)
		}
		w.publish(ctx, ids)
		pause(ctx, time.Duration(w.rnd.IntN(30))*time.Millisecond)
	}
}

// publish makes one append: once without a producer, and with a producer until the result is known.
func (w *writer) publish(ctx context.Context, ids []string) {
	q := &request{method: http.MethodPost, path: w.stream.path() + "/events", body: eventsOf(ids)}
	for first := true; ctx.Err() == nil; first = false {
		q.header = map[string]string{"Content-Type": "application/json"}
		if w.producer != nil {
			q.header = w.producer.header()
		}
		w.s.ledger.count("appends sent", 1)
		a, err := w.s.calls.call(ctx, w.turn, q)
		if err == nil && !a.passing() {
			w.settle(a, ids, first)
			return
		}
		w.s.ledger.count("appends in doubt", 1)
		w.turn++
		pause(ctx, time.Duration(10+w.rnd.IntN(50))*time.Millisecond)
		if w.producer == nil {
			return
		}
	}
}

func eventsOf(ids []string) []byte {
	type event struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}
	body := struct {
		Events []event `json:"events"`
	}{}
	for _, id := range ids {
		body.Events = append(body.Events, event{"note", id})
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings
	}
	return text
}

// settle handles the response that decides an append. It is the first one of the call, or follows others in doubt.
func (w *writer) settle(a *answer, ids []string, first bool) {
	switch {
	case a.status == http.StatusOK:
		w.acknowledged(a, ids, first)
	case a.Code == "stream_ended" && w.s.ledger.mayHaveEnded(w.stream.name):
		w.stopped = true
	case a.Code == "conflict" && w.producer != nil:
		if !w.s.engine.mayLose() { // otherwise a promotion may have lost its earlier append
			w.violation("its append %d was refused: %s", w.producer.seq, a.Detail)
		}
		w.s.ledger.count("producers begun anew", 1)
		w.producer.epoch, w.producer.seq = w.producer.epoch+1, 0
	default:
		w.violation("status %d %s: %s", a.status, a.Code, a.Detail)
	}
}

func (w *writer) acknowledged(a *answer, ids []string, first bool) {
	var p published
	if err := json.Unmarshal(a.body, &p); err != nil {
		w.violation("the answer is %q", a.body)
		return
	}
	if p.Last > 0 && (p.Last-p.First+1 != uint64(len(ids)) || position(p.Cursor) != p.Last) {
		w.violation("%d events were acknowledged as %d to %d, cursor %s", len(ids), p.First, p.Last, p.Cursor)
	}
	if p.Duplicate {
		w.s.ledger.count("duplicates recognized", 1)
		if first {
			w.violation("its new append %v was taken for a duplicate", ids)
		}
	}
	w.s.ledger.acknowledge(&ack{w.stream.name, ids, p.First, p.Last, p.Cursor})
	if w.producer != nil {
		w.producer.seq++
	}
}

func (w *writer) violation(what string, args ...any) {
	w.s.ledger.violation("writer %s: "+what, append([]any{w.name}, args...)...)
}

// misuse sends appends that skip seqs of their producer. Each must be refused.
func (w *writer) misuse(ctx context.Context) {
	for ctx.Err() == nil && !w.stopped {
		w.calls++
		p := *w.producer
		p.seq += 1000
		q := &request{http.MethodPost, w.stream.path() + "/events", p.header(), eventsOf([]string{w.name + " misuses"})}
		a, err := w.s.calls.call(ctx, w.turn, q)
		switch {
		case err != nil || a.passing():
			w.turn++
		case a.Code == "stream_ended" && w.s.ledger.mayHaveEnded(w.stream.name):
			w.stopped = true
		case a.Code != "conflict":
			w.violation("an append with a gap got status %d %s", a.status, a.Code)
		default:
			w.s.ledger.count("gaps of producers refused", 1)
		}
		pause(ctx, time.Duration(w.rnd.IntN(20))*time.Millisecond)
	}
}

// end ends the stream and reports whether this call did so. A retry may find the stream ended by its own first try.
func (w *writer) end(ctx context.Context) bool {
	w.s.ledger.askEnd(w.stream.name)
	q := &request{http.MethodPost, w.stream.path() + "/end", w.producer.header(), []byte(`{"outcome":"completed"}`)}
	for ctx.Err() == nil {
		a, err := w.s.calls.call(ctx, w.turn, q)
		switch {
		case err != nil || a.passing():
			w.turn++
			pause(ctx, 50*time.Millisecond)
		case a.status == http.StatusOK:
			return true
		case a.Code == "stream_ended":
			return false
		default:
			w.violation("the end: status %d %s: %s", a.status, a.Code, a.Detail)
			return false
		}
	}
	w.violation("the end was not answered")
	return false
}

// pause sleeps for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
