package park

import "testing"

// TestEventsComeBeforeHeartbeats: each kind keeps its order, and heartbeats have a turn while there are events.
func TestEventsComeBeforeHeartbeats(t *testing.T) {
	c := crew{} // no goroutine is allowed to take what is called
	var events, beats []*Seat
	for range 4 * beatTurn {
		e, b := &Seat{}, &Seat{}
		events, beats = append(events, e), append(beats, b)
		c.call(b, true)
		c.call(e, false)
	}
	early := 0 // heartbeats before the last event
	for len(events) > 0 || len(beats) > 0 {
		s := c.next()
		switch {
		case len(events) > 0 && s == events[0]:
			events = events[1:]
		case len(beats) > 0 && s == beats[0]:
			beats = beats[1:]
			if len(events) > 0 {
				early++
			}
		default:
			t.Fatalf("not the oldest, with %d events and %d heartbeats left", len(events), len(beats))
		}
	}
	if early != 4 {
		t.Errorf("%d heartbeats came before the last of %d events, want 4", early, 4*beatTurn)
	}
	if s := c.next(); s != nil || c.working != -1 {
		t.Errorf("something is left, or the goroutine goes on: %v, %d", s, c.working)
	}
}
