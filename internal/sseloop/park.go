package sseloop

import (
	"context"
	"errors"
	"time"

	"reprise"
)

// Parking takes over responses that have nothing to send, so that none of them needs a goroutine while it waits.
type Parking interface {
	// After is the time without events after which a response is parked.
	After() time.Duration
	// Park takes over a response that must send nothing before the next event, or before beat has passed; silence is
	// the time between two heartbeats. It returns false if it cannot. Otherwise it calls Glance when reader may have
	// something to return, or when a heartbeat is due, and Resume with ctx, in another goroutine, when Glance has
	// returned false or ctx is done. One of them is called at a time.
	Park(ctx context.Context, reader *reprise.Reader, beat, silence time.Duration, p Parked) bool
}

// Parked is a Handler whose responses may be parked.
type Parked interface {
	// Glance calls Conn.Glance.
	Glance(early bool) (beat time.Duration, ok bool)
	// Resume calls Conn.Follow. It returns true if the response was parked again.
	Resume(ctx context.Context) (parked bool)
}

// ErrBlocked is the error of a Flush during Glance if the connection did not accept all bytes immediately. The
// ResponseWriter keeps the rest for the next Flush.
var ErrBlocked = errors.New("the connection accepts no more bytes now")

// glanceBytes bounds the events that Glance sends. A connection that does not accept them keeps a copy.
const glanceBytes = 32 << 10

// Glance sends the events that are ready to a connection that accepts them without a wait, and a heartbeat if one is
// due, or in any case if early is true. It returns the time until the next heartbeat. ok is false if Resume has to
// continue: it may have to read from the store or to wait for the client, the response has ended, or the events
// are many.
func (c *Conn) Glance(h Handler, early bool) (beat time.Duration, ok bool) {
	c.wrote, c.glancing = false, true
	defer func() { c.glancing = false }()
	var events reprise.Events
	if events, ok, c.polled = c.Reader.PollMemory(glanceBytes); !ok || c.polled != nil {
		return 0, false
	}
	if events.Len() > 0 {
		h.Send(events)
		c.stayActive()
	}
	if !c.wrote && (early || c.Left() <= 0) {
		h.Beat()
	}
	if c.err != nil || !h.MayGoOn() {
		return 0, false
	}
	if c.Flush(); errors.Is(c.err, ErrBlocked) {
		c.err, c.unsent = nil, true
		return 0, false
	}
	return c.Left(), c.err == nil
}

// ParkingKey is the key of the Parking in the context of a request whose response may be parked. Its handler may return
// before the response ends.
type ParkingKey struct{}

// ParkingOf returns the Parking in ctx, nil if there is none.
func ParkingOf(ctx context.Context) Parking {
	parking, _ := ctx.Value(ParkingKey{}).(Parking)
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
func (c *Conn) park(ctx context.Context, h Handler, idle *time.Timer) bool {
	if left := c.untilIdle(); left > 0 {
		idle.Reset(left)
		return false
	}
	if beat := c.Left(); beat > 0 {
		c.deadline = time.Time{} // that of the parked connection is not known
		c.events = nil           // it is empty
		if parked, ok := h.(Parked); ok && c.Parking.Park(ctx, c.Reader, beat, c.Silence, parked) {
			return true
		}
	}
	idle.Reset(max(c.Parking.After(), time.Millisecond))
	return false
}
