package linear

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// input is a call. after and before are seqs.
type input struct {
	op       string // "append", "write", "end", "trim", "poll", "info"
	ids      []int  // of the appended events
	producer int    // of an append that may be retried, 0 for none
	after    uint64
	before   uint64
}

// output is the result of a call.
type output struct {
	err            string // "", "ended", "invalid", "expired", "ahead", "ended"
	first, last    uint64 // append, end: of its events; poll: of what it got
	duplicate      bool
	ids            []int // poll: the events
	earliest, tail uint64
	ended          bool
}

// state is a stream of the model. It is never changed in place.
type state struct {
	ids       []int // of all events ever appended; seq is the index plus 1
	earliest  uint64
	ended     bool
	producers []int  // producers whose append is stored
	window    uint64 // Retention.MaxEvents
}

func (s state) tail() uint64 { return uint64(len(s.ids)) }

// model is a stream as the Log specifies it. It keeps at most window events.
func model(window uint64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{earliest: 1, window: window} },
		Step: func(st, in, out any) (bool, any) {
			s, i, o := st.(state), in.(input), out.(output)
			switch i.op {
			case "append", "write", "end":
				return s.append(i, o)
			case "trim":
				return s.trim(i, o)
			case "poll":
				return s.poll(i, o), s
			default:
				return o.earliest == s.earliest && o.tail == s.tail() && o.ended == s.ended, s
			}
		},
		Equal: func(a, b any) bool {
			x, y := a.(state), b.(state)
			return x.earliest == y.earliest && x.ended == y.ended && slices.Equal(x.producers, y.producers) &&
				slices.Equal(x.ids, y.ids)
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	}
}

func (s state) append(i input, o output) (bool, state) {
	if i.producer != 0 && slices.Contains(s.producers, i.producer) {
		return o.err == "" && o.duplicate && o.first > 0 && s.ids[o.first-1] == i.ids[0], s
	}
	if s.ended {
		return o.err == "ended", s
	}
	if o.err != "" || o.duplicate || o.first != s.tail()+1 || o.last != s.tail()+uint64(len(i.ids)) {
		return false, s
	}
	next := s
	next.ids = slices.Concat(s.ids, i.ids)
	if tail := next.tail(); tail > s.window {
		next.earliest = max(next.earliest, tail-s.window+1)
	}
	next.ended = i.op == "end"
	if i.producer != 0 {
		next.producers = append(slices.Clone(s.producers), i.producer)
	}
	return true, next
}

func (s state) trim(i input, o output) (bool, state) {
	if i.before > s.tail()+1 {
		return o.err == "invalid", s
	}
	next := s
	next.earliest = max(s.earliest, i.before)
	return o.err == "", next
}

// poll is a read from a position. It may return any number of events after the first.
func (s state) poll(i input, o output) bool {
	switch {
	case i.after > s.tail():
		return o.err == "ahead"
	case i.after+1 < s.earliest:
		return o.err == "expired"
	case i.after == s.tail() && s.ended:
		return o.err == "ended"
	case i.after == s.tail():
		return o.err == "" && len(o.ids) == 0
	}
	return o.err == "" && len(o.ids) > 0 && o.first == i.after+1 && o.last <= s.tail() &&
		slices.Equal(o.ids, s.ids[o.first-1:o.last])
}
