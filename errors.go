package reprise

import (
	"errors"
	"fmt"
)

// The errors that a caller may branch on, with errors.Is. Everything that a
// Log, a Stream or a Store returns wraps one of them, is a *WindowError, or is
// the cause of a cancelled context. Package problem gives each its stable code
// and HTTP status.
var (
	// ErrInvalid: the request itself is wrong (a name, a type, a size).
	ErrInvalid = errors.New("invalid")
	// ErrNotFound: no such stream, or one of another tenant.
	ErrNotFound = errors.New("not found")
	// ErrExpired: the stream was swept; its name is remembered for a while.
	ErrExpired = errors.New("stream expired")
	// ErrEnded: an append after the end event.
	ErrEnded = errors.New("stream ended")
	// ErrConflict: the name is taken by another configuration, the expected
	// seq is not the next one, or a producer left out a seq.
	ErrConflict = errors.New("conflict")
	// ErrFenced: a newer writer or producer epoch has taken over.
	ErrFenced = errors.New("fenced off by a newer writer")
	// ErrQuota: the bound over all streams of the tenant or the process is reached.
	ErrQuota = errors.New("quota exceeded")
	// ErrTooManyReaders: the stream has as many readers as it may have.
	ErrTooManyReaders = errors.New("too many readers")
	// ErrCursorMalformed: the text is no cursor.
	ErrCursorMalformed = errors.New("cursor malformed")
	// ErrCursorForeign: the cursor is of another stream or tenant, or forged.
	ErrCursorForeign = errors.New("cursor of another stream")
	// ErrUnavailable: the store cannot answer now; trying again may help.
	ErrUnavailable = errors.New("store unavailable")
	// ErrClosed: the Log, Store or Reader was closed.
	ErrClosed = errors.New("closed")
)

// WindowReason says why a position cannot be read.
type WindowReason uint8

// The reasons of a WindowError.
const (
	// CursorExpired: events after the position are no longer kept.
	CursorExpired WindowReason = iota + 1
	// CursorAhead: the position is beyond the last event.
	CursorAhead
	// EpochChanged: the position is of an older epoch of the stream.
	EpochChanged
)

// String is the stable wire code of the reason.
func (r WindowReason) String() string {
	switch r {
	case CursorExpired:
		return "cursor_expired"
	case CursorAhead:
		return "cursor_ahead"
	case EpochChanged:
		return "epoch_changed"
	}
	return fmt.Sprintf("WindowReason(%d)", uint8(r))
}

// WindowError refuses a position that lies outside the window of its stream,
// and names the positions that can be asked for in its place.
type WindowError struct {
	Reason WindowReason
	// Asked is the refused position.
	Asked Cursor
	// Earliest is the position before the first kept event, Tail the one after the last.
	Earliest, Tail Cursor
}

func (e *WindowError) Error() string {
	return fmt.Sprintf("%s: asked for events after %d, kept are %d to %d",
		e.Reason, e.Asked.Seq, e.Earliest.Seq+1, e.Tail.Seq)
}

// Missed is the number of events that a reader misses which goes on from
// Earliest. It is known only within one epoch; otherwise it is 0.
func (e *WindowError) Missed() uint64 {
	if e.Reason != CursorExpired || e.Earliest.Seq < e.Asked.Seq {
		return 0
	}
	return e.Earliest.Seq - e.Asked.Seq
}
