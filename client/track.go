package client

import (
	"fmt"

	"reprise"
)

// track is the position of a reader. It proves that no event is missing or repeated.
//
// Cursors are opaque to users. This package is part of the same module as the server, and reads the seq and the epoch
// in them. A cursor that it cannot read is sent back unchanged, and the proof then begins with the first event.
type track struct {
	cursor string // to resume from; "" before the first event
	// seq and epoch are those of the last event. They are valid if known is true.
	seq   uint64
	epoch reprise.Epoch
	known bool
	// filtered: events are left out by their type, and seq grows by more than 1.
	filtered bool
}

// startTrack begins at a cursor.
func startTrack(cursor string, filtered bool) track {
	t := track{cursor: cursor, filtered: filtered}
	if c, err := reprise.ParseCursor(cursor); err == nil {
		t.seq, t.epoch, t.known = c.Seq, c.Epoch, true
	}
	return t
}

// isRenewed reports whether epoch differs from that of the last event. The server continues in another epoch without a
// gap if everything that the reader has is part of its history. The seq then continues as within an epoch.
func (t *track) isRenewed(epoch reprise.Epoch) bool {
	return t.known && t.epoch != "" && epoch != t.epoch
}

// advance moves to an event. It is false for one that was seen before; the
// error is ErrProtocol for one that does not follow the last one.
func (t *track) advance(seq uint64, cursor string) (bool, error) {
	c, err := reprise.ParseCursor(cursor)
	readable := err == nil
	switch {
	case readable && c.Seq != seq:
		return false, fmt.Errorf("%w: event %d has the cursor of %d", ErrProtocol, seq, c.Seq)
	case readable && t.isRenewed(c.Epoch) && seq <= t.seq:
		return false, fmt.Errorf("%w: event %d of another epoch comes after %d", ErrProtocol, seq, t.seq)
	case t.known && seq <= t.seq:
		return false, nil
	case t.known && !t.filtered && seq != t.seq+1:
		return false, fmt.Errorf("%w: event %d comes after %d", ErrProtocol, seq, t.seq)
	}
	t.cursor, t.seq, t.epoch, t.known = cursor, seq, c.Epoch, true
	return true, nil
}

// pass moves past events that were left out, up to a bare cursor. It is false for one that
// leads nowhere new.
func (t *track) pass(cursor string) (bool, error) {
	c, err := reprise.ParseCursor(cursor)
	switch {
	case err != nil && cursor == "":
		return false, nil // an id that is reset means nothing to us
	case err != nil && t.filtered:
		t.cursor, t.known = cursor, false
		return true, nil
	case err != nil:
		return false, fmt.Errorf("%w: the bare id %.60q", ErrProtocol, cursor)
	case t.isRenewed(c.Epoch) && c.Seq <= t.seq:
		return false, fmt.Errorf("%w: the bare id %s of another epoch comes after %d", ErrProtocol, cursor, t.seq)
	case t.known && c.Seq <= t.seq:
		return false, nil
	case !t.filtered && t.known:
		return false, fmt.Errorf("%w: the bare id %s leaves events out", ErrProtocol, cursor)
	}
	t.cursor, t.seq, t.epoch, t.known = cursor, c.Seq, c.Epoch, true
	return true, nil
}
