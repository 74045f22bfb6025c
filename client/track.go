package client

import (
	"fmt"

	"reprise"
	"reprise/internal/problem"
	"reprise/internal/ssefollow"
)

// track is the position of a reader. It proves that no event is missing or repeated.
//
// Cursors are opaque to users. This package is part of the same module as the server, and reads the seq and the epoch
// in them. A cursor that it cannot read is sent back unchanged, and the proof then begins with the first event.
type track struct {
	cursor string // to resume from; "" before the first event
	// seq and epoch belong to the last event. They are valid if known is true.
	seq   uint64
	epoch reprise.Epoch
	known bool
	// filtered: events are left out by their type, and seq grows by more than 1.
	filtered bool
	// head is the epoch that the header of the present answer names, "" if it names none.
	head reprise.Epoch
	// stranger is an epoch for which the server was asked, see doubt.
	stranger reprise.Epoch
}

// begin begins again at a cursor.
func (t *track) begin(cursor string) {
	*t = track{cursor: cursor, filtered: t.filtered, head: t.head, stranger: t.stranger}
	if c, err := reprise.ParseCursor(cursor); err == nil {
		t.seq, t.epoch, t.known = c.Seq, c.Epoch, true
	}
}

// answered notes the position of the tail in the header of an answer.
func (t *track) answered(tail string) {
	c, _ := reprise.ParseCursor(tail) // without one there is no epoch to compare with
	t.head = c.Epoch
}

// judges reports whether the epoch of the stream is known, so that owns can decide.
func (t *track) judges() bool { return t.head != "" || t.known && t.epoch != "" }

// owns reports whether an epoch is one of this stream: the epoch of the present answer, or of the last event.
func (t *track) owns(epoch reprise.Epoch) bool {
	return epoch != "" && (epoch == t.head || t.known && epoch == t.epoch)
}

// follows reports whether an event of an epoch that the stream did not have may be the next one of it: the server
// continues in another epoch without a gap if the reader has nothing that was lost. For a reader of some types a seq
// proves nothing.
func (t *track) follows(seq uint64) bool {
	return t.known && !t.filtered && seq == t.seq+1
}

// doubt returns an error if only the header of another answer can tell a reader of some types whether an event of
// another epoch is the server's. It does so once for an epoch.
func (t *track) doubt(cursor string, seq uint64) error {
	c, _ := reprise.ParseCursor(cursor) // the zero Cursor has no epoch
	claims := c.Epoch != "" && c.Seq == seq && !t.owns(c.Epoch) && (!t.known || seq > t.seq)
	if !t.filtered || !claims || c.Epoch == t.stranger {
		return nil
	}
	t.stranger = c.Epoch
	return fmt.Errorf("%w: the epoch of the stream may have changed", ssefollow.ErrDropped)
}

// isRenewed reports whether epoch differs from the epoch of the last event. The server continues in another epoch
// without a gap if everything that the reader has is part of its history. The seq then continues as within an epoch.
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

// isBehind reports whether a gap is before the reader's position, so that nothing is missing: the server has not
// received the cursor, because a proxy does not pass on Last-Event-ID.
func (t *track) isBehind(event *Event) bool {
	c, _ := reprise.ParseCursor(event.Cursor) // the zero Cursor has no epoch
	return event.Gap.Code == string(problem.CodeCursorExpired) && t.known && c.Epoch == t.epoch && c.Epoch != "" &&
		c.Seq <= t.seq
}

// pass moves past events that were left out, up to a bare cursor. It is false for one that leads nowhere new, and for
// an id that is not provably the server's: the server sends bare ids to readers of some types alone.
func (t *track) pass(cursor string) (bool, error) {
	c, _ := reprise.ParseCursor(cursor) // the zero Cursor has no epoch, which no stream owns
	switch {
	case !t.filtered || !t.owns(c.Epoch):
		return false, nil
	case t.isRenewed(c.Epoch) && c.Seq <= t.seq:
		return false, fmt.Errorf("%w: the bare id %s of another epoch comes after %d", ErrProtocol, cursor, t.seq)
	case t.known && c.Seq <= t.seq:
		return false, nil
	}
	t.cursor, t.seq, t.epoch, t.known = cursor, c.Seq, c.Epoch, true
	return true, nil
}
