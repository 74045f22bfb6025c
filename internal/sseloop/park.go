package sseloop

import (
	"context"
	"time"

	"reprise"
)

// Parking takes over responses that have nothing to send, so that none of them needs a goroutine while it waits.
type Parking interface {
	// After is the time without events after which a response is parked.
	After() time.Duration
	// Park takes over a response that must send nothing before the next event, or before beat has passed. It returns
	// false if it cannot. Otherwise it calls resume with ctx in another goroutine when reader may have something to
	// return, when beat has passed, or when ctx is done. resume returns true if the response was parked again.
	Park(ctx context.Context, reader *reprise.Reader, beat time.Duration,
		resume func(context.Context) (parked bool)) bool
}

type parkingKey struct{}

// WithParking returns a context for a request whose response may be parked. Its handler may return before the response
// ends.
func WithParking(ctx context.Context, parking Parking) context.Context {
	return context.WithValue(ctx, parkingKey{}, parking)
}

// ParkingOf returns the Parking in ctx, nil if there is none.
func ParkingOf(ctx context.Context) Parking {
	parking, _ := ctx.Value(parkingKey{}).(Parking)
	return parking
}

// clocks are the timers of one Follow. They run on while events are sent.
type clocks struct {
	heartbeat *time.Timer
	idle      *time.Timer // has no channel if the response is never parked
}

func (c *Conn) newClocks() clocks {
	clocks := clocks{heartbeat: time.NewTimer(c.Left()), idle: &neverTimer}
	if c.Parking != nil {
		clocks.idle = time.NewTimer(c.untilIdle())
	}
	return clocks
}

// neverTimer is a timer that never fires.
var neverTimer time.Timer

func (t clocks) stop() {
	t.heartbeat.Stop()
	if t.idle != &neverTimer {
		t.idle.Stop()
	}
}

// stayActive notes that there were events, for the client or filtered out.
func (c *Conn) stayActive() {
	switch {
	case c.Parking == nil:
	case c.wrote:
		c.active = c.spoke
	default:
		c.active = time.Now()
	}
}

// untilIdle returns the time until the response may be parked.
func (c *Conn) untilIdle() time.Duration { return c.Parking.After() - time.Since(c.active) }

// park parks the response if there were no events for long enough. After true, c belongs to another goroutine.
func (c *Conn) park(ctx context.Context, idle *time.Timer) bool {
	if left := c.untilIdle(); left > 0 {
		idle.Reset(left)
		return false
	}
	if beat := c.Left(); beat > 0 {
		c.deadline = time.Time{} // that of the parked connection is not known
		if c.Parking.Park(ctx, c.Reader, beat, c.Resume) {
			return true
		}
	}
	idle.Reset(max(c.Parking.After(), time.Millisecond))
	return false
}
