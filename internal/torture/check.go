//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// history is the content of a stream at the end.
type history struct {
	stream *stream
	events []got
	bySeq  map[uint64]string
	byID   map[string]uint64
}

// check compares the acknowledged appends and the events of the readers with the final streams. The rules:
//
//   - An acknowledged append is present as it was sent, at the seqs of its response. After a promotion it may be
//     missing if the cursor of its response gets epoch_changed with an earlier fork. (G1, G6)
//   - No event occurs twice, and the events of a producer are in its order. (G3, G9)
//   - The seqs are contiguous, and there is one end event, the last. (G3, G4)
//   - A reader has each event once, except those that it was told are gone. (G1, G2)
//   - All servers return the same.
//   - No event of another tenant is present. (G8; stranger.go has the other rules)
//   - A stream keeps no more than its retention allows. (G7; bounds.go has the other rules)
func (s *stage) check(ctx context.Context) {
	for _, st := range s.streams {
		h, err := s.read(ctx, 0, st)
		if ctx.Err() != nil {
			s.ledger.violation("stream %s: server 0 has not given it within %v: %v", st.name, checkWithin, err)
			return // and no more can be said
		}
		if err != nil {
			s.ledger.violation("stream %s cannot be read at the end: %v", st.name, err)
			continue
		}
		for i := 1; i < len(s.replicas); i++ {
			other, err := s.read(ctx, i, st)
			if ctx.Err() != nil {
				s.ledger.violation("stream %s: server %d has not given it within %v: %v", st.name, i, checkWithin, err)
				return // and no more can be said
			}
			if err != nil || !slices.Equal(h.events, other.events) {
				s.ledger.violation(
					"stream %s is another at server %d: %d events, not %d, %v",
					st.name,
					i,
					len(other.events),
					len(h.events),
					err,
				)
			}
		}
		s.checkForm(h)
		s.checkOrder(h)
		s.checkAcks(ctx, h)
		for _, r := range s.readers {
			if r.stream == st {
				s.checkReader(h, r)
			}
		}
		s.ledger.count("kept at the end", len(h.events))
	}
}

// read reads a stream from its earliest event to its end.
func (s *stage) read(ctx context.Context, replica int, st *stream) (*history, error) {
	h := &history{stream: st, bySeq: map[uint64]string{}, byID: map[string]uint64{}}
	after := "earliest"
	for {
		a, err := s.direct.call(
			ctx,
			replica,
			&request{method: http.MethodGet, path: st.path() + "/events?limit=1000&after=" + after},
		)
		if ctx.Err() != nil {
			return h, fmt.Errorf("%w, after %v", ctx.Err(), err)
		}
		if err != nil || a.passing() {
			pause(ctx, 50*time.Millisecond)
			continue
		}
		var p page
		if err := json.Unmarshal(a.body, &p); err != nil || a.status != http.StatusOK {
			return h, fmt.Errorf("status %d: %s", a.status, a.body)
		}
		for i := range p.Events {
			h.events = append(h.events, got{p.Events[i].Seq, p.Events[i].id()})
		}
		if after = p.NextCursor; !p.HasMore {
			return h, nil
		}
	}
}

// checkForm checks the seqs, the end, and that no event occurs twice.
func (s *stage) checkForm(h *history) {
	bad := func(what string, args ...any) {
		s.ledger.violation("stream %s: "+what, append([]any{h.stream.name}, args...)...)
	}
	for i, e := range h.events {
		if i == 0 && e.seq != 1 && !h.stream.small {
			bad("it begins with %d", e.seq)
		}
		if i > 0 && e.seq != h.events[i-1].seq+1 {
			bad("%d comes after %d", e.seq, h.events[i-1].seq)
		}
		if before, twice := h.byID[e.id]; twice {
			bad("%q is there as %d and as %d", e.id, before, e.seq)
		}
		if strings.HasPrefix(e.id, strangerName) {
			bad("%q of another tenant is there", e.id)
		}
		if strings.Contains(e.id, "misuses") {
			bad("%q was refused and is there as %d", e.id, e.seq)
		}
		if (e.id == typeEnd) != (i == len(h.events)-1) {
			bad("event %d of %d is %q", i+1, len(h.events), e.id)
		}
		h.bySeq[e.seq], h.byID[e.id] = e.id, e.seq
	}
	if h.stream.small && len(h.events) > windowEvents {
		bad("it keeps %d events, and %d is its bound", len(h.events), windowEvents)
	}
}

// checkOrder checks that the events of each producer are in its order.
func (s *stage) checkOrder(h *history) {
	newest := map[string]int{}
	for _, e := range h.events {
		part := strings.Split(e.id, ".") // writer, call, index
		if len(part) != 3 || !strings.Contains(part[0], "producer") {
			continue
		}
		call, _ := strconv.Atoi(part[1])
		if call < newest[part[0]] {
			s.ledger.violation(
				"stream %s: %s comes after call %d of its producer",
				h.stream.name,
				e.id,
				newest[part[0]],
			)
		}
		newest[part[0]] = call
	}
}

func (s *stage) checkAcks(ctx context.Context, h *history) {
	earliest := uint64(1)
	if len(h.events) > 0 {
		earliest = h.events[0].seq
	}
	for i := range s.ledger.acks {
		a := &s.ledger.acks[i]
		if a.stream != h.stream.name || a.last > 0 && a.last < earliest || a.last == 0 && h.stream.small {
			continue
		}
		if what := h.missing(a, earliest); what != "" && !s.told(ctx, h.stream, a) {
			if ctx.Err() != nil {
				s.ledger.violation("stream %s: its cursors were not checked within %v", a.stream, checkWithin)
				return
			}
			s.ledger.violation("stream %s: acknowledged as %d to %d, and %s", a.stream, a.first, a.last, what)
		}
	}
}

// missing describes the events of an append that are missing or at another seq, "" if none is.
func (h *history) missing(a *ack, earliest uint64) string {
	for i, id := range a.ids {
		want := a.first + uint64(i)
		at, there := h.byID[id]
		switch {
		case a.last > 0 && want < earliest:
		case !there:
			return fmt.Sprintf("%s is missing", id)
		case a.last > 0 && at != want:
			return fmt.Sprintf("%s is there as %d", id, at)
		}
	}
	return ""
}

// told reports whether the cursor of an append is refused with an error that states the loss.
func (s *stage) told(ctx context.Context, st *stream, a *ack) bool {
	if !s.engine.mayLose() || a.cursor == "" {
		return false
	}
	ask := &request{method: http.MethodGet, path: st.path() + "/events?limit=1&after=" + a.cursor}
	answer, err := s.direct.call(ctx, 0, ask)
	for ctx.Err() == nil && (err != nil || answer.passing()) {
		pause(ctx, 50*time.Millisecond)
		answer, err = s.direct.call(ctx, 0, ask)
	}
	if err != nil || answer.Code != "epoch_changed" || answer.Fork != "" && position(answer.Fork) >= a.first {
		return false
	}
	s.ledger.count("taken back and told", len(a.ids))
	return true
}

// checkReader compares the events of a reader with the stream. Events that have left the window cannot be compared.
func (s *stage) checkReader(h *history, r *reader) {
	seen := map[uint64]bool{}
	for _, e := range r.events {
		if seen[e.seq] {
			r.violation("it has event %d twice", e.seq)
		}
		seen[e.seq] = true
		if id, there := h.bySeq[e.seq]; there && id != e.id {
			r.violation("it has %d as %q, and there is %q", e.seq, e.id, id)
		}
	}
	if r.ended && !h.stream.small && len(r.events) != len(h.events) {
		r.violation("it has %d events, and there are %d", len(r.events), len(h.events))
	}
}

// report returns the counters and violations of the stage.
func (s *stage) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s %4.0fs seed %d, %d servers:", s.name, s.took.Seconds(), s.seed, len(s.replicas))
	sep := " "
	for _, what := range slices.Sorted(maps.Keys(s.ledger.counters)) {
		fmt.Fprintf(&b, "%s%s %d", sep, what, s.ledger.counters[what])
		sep = ", "
	}
	broken := s.ledger.violations()
	fmt.Fprintf(&b, ", violations %d\n", broken)
	for _, v := range s.ledger.broken {
		fmt.Fprintln(&b, "  VIOLATION", v)
	}
	if broken == 0 {
		return b.String()
	}
	if more := broken - len(s.ledger.broken); more > 0 {
		fmt.Fprintf(&b, "  and %d more of the same kinds\n", more)
	}
	for i, r := range s.replicas {
		fmt.Fprintf(&b, "  the log of server %d:\n%s", i, r.log())
	}
	return b.String()
}
