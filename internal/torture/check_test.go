//go:build linux

package main

import (
	"testing"
	"time"
)

// sound is a stage with a stream of two events and its end, acknowledged and read as it is.
func sound() (*stage, *history, *reader) {
	s := newStage(&options{heartbeat: time.Second}, "memory", "", 1, memory{})
	st := s.streams[0]
	events := []got{{1, "busy-producer0.1.0"}, {2, "busy-producer0.2.0"}, {3, typeEnd}}
	h := &history{stream: st, events: events, bySeq: map[uint64]string{}, byID: map[string]uint64{}}
	s.ledger.acknowledge(&ack{st.name, []string{events[0].id, events[1].id}, 1, 2, "2.E.T"})
	return s, h, &reader{s: s, name: "test", stream: st, events: append([]got(nil), events...), ended: true}
}

// TestCheckFindsEachViolation breaks one rule at a time.
func TestCheckFindsEachViolation(t *testing.T) {
	for name, spoil := range map[string]func(*stage, *history, *reader){
		"nothing": nil,
		"acknowledged and missing": func(s *stage, _ *history, _ *reader) {
			s.ledger.acks[0].ids[1] = "busy-producer0.9.0"
		},
		"acknowledged as another": func(s *stage, _ *history, _ *reader) {
			s.ledger.acks[0].first, s.ledger.acks[0].last = 2, 3
		},
		"there twice": func(_ *stage, h *history, _ *reader) { h.events[1].id = h.events[0].id },
		"a hole":      func(_ *stage, h *history, _ *reader) { h.events[2].seq = 4 },
		"out of order": func(_ *stage, h *history, _ *reader) {
			h.events[0].id, h.events[1].id = h.events[1].id, h.events[0].id
		},
		"no end":          func(_ *stage, h *history, _ *reader) { h.events[2].id = "x.1.0" },
		"read twice":      func(_ *stage, _ *history, r *reader) { r.events[1] = r.events[0] },
		"not read":        func(_ *stage, _ *history, r *reader) { r.events = r.events[:2] },
		"read as another": func(_ *stage, _ *history, r *reader) { r.events[1].id = "x.1.0" },
		"refused and there all the same": func(_ *stage, h *history, _ *reader) {
			h.events[1].id = "busy-misuser misuses"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, h, r := sound()
			if spoil != nil {
				spoil(s, h, r)
			}
			s.checkForm(h)
			s.checkOrder(h)
			s.checkAcks(t.Context(), h)
			s.checkReader(h, r)
			if n := s.ledger.violations(); (n > 0) != (spoil != nil) {
				t.Errorf("%d violations: %q", n, s.ledger.broken)
			}
		})
	}
}

// TestReaderFindsEachViolation gives a reader after event 5 what may not come next.
func TestReaderFindsEachViolation(t *testing.T) {
	three, five := uint64(3), uint64(5)
	for name, next := range map[string]item{
		"skips":                 {Seq: 7, Cursor: "7.E.T"},
		"comes twice":           {Seq: 5, Cursor: "5.E.T"},
		"other cursor":          {Seq: 6, Cursor: "5.E.T"},
		"end that nobody asked": {Seq: 6, Cursor: "6.E.T", Type: typeEnd},
		"expired":               {Type: typeGap, Code: "cursor_expired", Cursor: "9.E.T", Missed: 4},
		"loss without a cause": {
			Type: typeGap, Code: "epoch_changed", Cursor: "2.F.T", Fork: "2.F.T", TakenBack: &three,
		},
		"wrong count": {Type: typeGap, Code: "epoch_changed", Cursor: "2.F.T", Fork: "2.F.T", TakenBack: &five},
		"ahead":       {Type: typeGap, Code: "cursor_ahead", Cursor: "0.E.T"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := sound()
			r := &reader{s: s, stream: s.streams[0], cursor: "5.E.T", last: 5}
			r.take(&next)
			if s.ledger.violations() == 0 {
				t.Error("no violation is found")
			}
		})
	}
}
