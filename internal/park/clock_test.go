package park

import (
	"testing"
	"testing/synctest"
	"time"
)

// rings returns when the heartbeats of n Seats come that are set at the same time, for the given number of rounds, in
// which each heartbeat is followed by a silence.
func rings(t *testing.T, n, rounds int, silence time.Duration) (at [][]time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		var c *clock
		at = make([][]time.Duration, n)
		number := map[*Seat]int{}
		c = newClock(func(s *Seat) {
			if left, early := c.missed(s); left > 0 && !early {
				t.Errorf("rang %v too early", left)
			}
			i := number[s]
			at[i] = append(at[i], time.Since(c.start))
			if len(at[i]) < rounds {
				c.set(s, silence, silence)
			}
		})
		defer c.stop()
		for i := range n {
			s := &Seat{}
			number[s] = i
			c.set(s, silence, silence)
		}
		time.Sleep(time.Duration(rounds+1) * silence)
		synctest.Wait()
	})
	return at
}

// TestFewHeartbeatsComeWhenDue: a silence lasts neither shorter nor a hundredth longer.
func TestFewHeartbeatsComeWhenDue(t *testing.T) {
	const silence = 15 * time.Second
	for _, at := range rings(t, 10, 5, silence) {
		last := time.Duration(0)
		for _, ring := range at {
			if took := ring - last; took < silence || took > silence+silence/grains {
				t.Errorf("a silence of %v, want %v", took, silence)
			}
			last = ring
		}
		if len(at) != 5 {
			t.Errorf("%d heartbeats", len(at))
		}
	}
}

// TestManyHeartbeatsAreSpread: readers whose silence begins at once do not stay together. No silence is longer than
// asked for, or shorter than by a quarter.
func TestManyHeartbeatsAreSpread(t *testing.T) {
	const readers, rounds, silence = 10_000, 8, 15 * time.Second
	most := make([]map[time.Duration]int, rounds)
	for i := range most {
		most[i] = map[time.Duration]int{}
	}
	for _, at := range rings(t, readers, rounds, silence) {
		last := time.Duration(0)
		for round, ring := range at {
			if took := ring - last; took < silence-silence/advance || took > silence+silence/grains {
				t.Fatalf("a silence of %v", took)
			}
			last = ring
			most[round][ring/time.Second]++
		}
	}
	for round, limit := range []int{readers / 3, readers / 3, readers / 4, readers / 4, readers / 5, readers / 5} {
		for second, n := range most[round] {
			if n > limit {
				t.Errorf("round %d: %d heartbeats within second %d, want at most %d", round, n, second, limit)
			}
		}
	}
}

// TestEventsMoveHeartbeats: the silence begins again with what is sent, and a Seat that has left does not ring.
func TestEventsMoveHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const silence = time.Second
		var c *clock
		var rang []time.Duration
		c = newClock(func(s *Seat) {
			if left, early := c.missed(s); left > 0 && !early {
				c.set(s, left, silence) // as Seat.ring does
				return
			}
			rang = append(rang, time.Since(c.start))
		})
		defer c.stop()
		s, gone := &Seat{}, &Seat{}
		c.set(s, silence, silence)
		c.set(gone, silence, silence)
		c.cancel(gone)
		time.Sleep(silence / 2)
		c.set(s, silence, silence)
		time.Sleep(3 * silence)
		synctest.Wait()
		if len(rang) != 1 || rang[0] < 3*silence/2 || rang[0] > 3*silence/2+silence/grains {
			t.Errorf("rang at %v, want once, after %v", rang, 3*silence/2)
		}
	})
}

// TestAppointmentMadeWhileTheClockRings: a Seat that has a new appointment before it hears of the old one is not early.
func TestAppointmentMadeWhileTheClockRings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const silence = time.Second
		rang := 0
		var c *clock
		c = newClock(func(s *Seat) {
			if rang++; rang > 1 {
				return
			}
			c.set(s, silence, silence) // there was an event, after which s waits again
			if left, early := c.missed(s); left <= 0 || early {
				t.Errorf("%v are left, early: %v; want a new silence", left, early)
			}
		})
		defer c.stop()
		c.set(&Seat{}, silence, silence)
		time.Sleep(5 * silence / 2)
		synctest.Wait()
		if rang != 2 {
			t.Errorf("rang %d times, want twice", rang)
		}
	})
}
