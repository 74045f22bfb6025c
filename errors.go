package reprise

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// The errors that a caller may test for with errors.Is. Every error of a Log, a Stream
// or a Store wraps one of them, is a *WindowError, or is the cause of a cancelled
// context. Package problem maps each to its stable code and HTTP status.
var (
	// ErrInvalid: the request is wrong (a name, a type, a size).
	ErrInvalid = errors.New("invalid")
	// ErrNotFound: the stream does not exist, or belongs to another tenant.
	ErrNotFound = errors.New("not found")
	// ErrExpired: the stream was swept; its name is remembered for a while.
	ErrExpired = errors.New("stream expired")
	// ErrEnded: an append after the end event, or a read after the end event was returned. An error
	// of a Store never means the end of a stream: io.EOF from a driver is a failure like any other.
	ErrEnded = errors.New("stream ended")
	// ErrConflict: a stream with another configuration has the name, the expected
	// seq is not the next one, or a producer skipped a seq.
	ErrConflict = errors.New("conflict")
	// ErrFenced: a newer writer or producer epoch has taken over.
	ErrFenced = errors.New("fenced off by a newer writer")
	// ErrQuota: a limit of the tenant or the process is reached.
	ErrQuota = errors.New("quota exceeded")
	// ErrTooManyReaders: the stream has its maximum number of readers.
	ErrTooManyReaders = errors.New("too many readers")
	// ErrCursorMalformed: the text is not a cursor.
	ErrCursorMalformed = errors.New("cursor malformed")
	// ErrCursorForeign: the cursor is of another stream or tenant, or forged.
	ErrCursorForeign = errors.New("cursor of another stream")
	// ErrUnavailable: the store cannot answer now; a retry may succeed.
	ErrUnavailable = errors.New("store unavailable")
	// ErrClosed: the Log, Store or Reader was closed.
	ErrClosed = errors.New("closed")
)

// Outage is a known cause of ErrUnavailable, which it wraps. Its text can be shown to users, because it contains no
// paths and no addresses.
type Outage string

// The known causes.
const (
	// DiskFull: the disk of the store is full. A Store that returns it has stored nothing, and can be asked again.
	DiskFull Outage = "disk full"
	// ReadOnly: the store can no longer be written to.
	ReadOnly Outage = "the store is read-only"
)

func (o Outage) Error() string { return ErrUnavailable.Error() + ": " + string(o) }

// Unwrap returns ErrUnavailable.
func (o Outage) Unwrap() error { return ErrUnavailable }

// WindowReason says why a position cannot be read.
type WindowReason uint8

// The reasons of a WindowError.
const (
	// CursorExpired: events after the position are no longer kept.
	CursorExpired WindowReason = iota + 1
	// CursorAhead: the position is beyond the last event.
	CursorAhead
	// EpochChanged: the position belongs to an older epoch of the stream and is
	// beyond the fork, the end of the shared history.
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

// WindowError refuses a position outside the window of its stream. It contains the
// positions that can be requested instead.
type WindowError struct {
	Reason WindowReason
	// Asked is the refused position.
	Asked Cursor
	// Earliest is the position before the first kept event, Tail the one after the last.
	Earliest, Tail Cursor
	// Fork is set with EpochChanged: the last position that the stream shares with the epoch of Asked. Its Seq is 0
	// if they share no event.
	Fork Cursor
}

func (e *WindowError) Error() string {
	text := fmt.Sprintf("%s: asked for events after %d, kept are %d to %d",
		e.Reason, e.Asked.Seq, e.Earliest.Seq+1, e.Tail.Seq)
	if e.Reason == EpochChanged {
		text += fmt.Sprintf(", the history is shared up to %d", e.Fork.Seq)
	}
	return text
}

// Resume returns the position to continue from: the fork if the epoch has changed and the events after it are still
// kept, and otherwise the start of the window.
func (e *WindowError) Resume() Cursor {
	if e.Reason == EpochChanged && e.Fork.Seq > e.Earliest.Seq {
		return e.Fork
	}
	return e.Earliest
}

// Missed returns the number of events that a reader misses if it continues at Resume. They are counted from the
// position, or from the fork if the epoch has changed.
func (e *WindowError) Missed() uint64 {
	from := e.Asked.Seq
	switch e.Reason {
	case CursorAhead:
		return 0
	case EpochChanged:
		from = e.Fork.Seq
	}
	return e.Resume().Seq - min(from, e.Resume().Seq)
}

// TakenBack returns the number of events up to the position that no longer exist because the store has lost them. It
// is 0 for reasons other than EpochChanged.
func (e *WindowError) TakenBack() uint64 {
	if e.Reason != EpochChanged {
		return 0
	}
	return e.Asked.Seq - min(e.Fork.Seq, e.Asked.Seq)
}

// outages logs why the store is unavailable: once for each cause until the store answers again, and at most once a
// minute per cause, because a nearly full disk accepts one append and refuses the next.
type outages struct {
	active atomic.Bool

	mu   sync.Mutex
	told map[string]time.Time // by cause
}

// outageEvery is the minimum time between two log lines about one cause.
const outageEvery = time.Minute

// note takes the result of a call to the store. A nil err means that the store has written something.
func (o *outages) note(logger *slog.Logger, err error) {
	switch {
	case errors.Is(err, ErrUnavailable):
		o.began(logger, err)
	case err == nil && o.active.Load():
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.active.CompareAndSwap(true, false) {
			logger.Info("the store answers again")
		}
	}
}

// noteFailure is outages.note for a call that may have written nothing.
func (l *Log) noteFailure(err error) {
	if err != nil {
		l.outages.note(l.opts.Logger, err)
	}
}

func (o *outages) began(logger *slog.Logger, err error) {
	cause := unavailableCause(err)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told == nil {
		o.told = map[string]time.Time{}
	}
	if !o.active.Load() {
		maps.DeleteFunc(o.told, func(_ string, at time.Time) bool { return now().Sub(at) >= outageEvery })
	}
	if _, told := o.told[cause]; told {
		return
	}
	o.told[cause] = now()
	o.active.Store(true)
	logger.Error("the store is unavailable", "cause", cause, "error", err)
}

// unavailableCause returns a stable name for the cause of an outage. Other error texts differ from call to call.
func unavailableCause(err error) string {
	if known, ok := errors.AsType[Outage](err); ok {
		return string(known)
	}
	return "unknown"
}

// QuotaError names the limit that is reached. It wraps ErrQuota.
type QuotaError struct {
	// Quota is "streams" or "bytes".
	Quota string
	// Of is the owner of the limit: "principal" for an account, "tenant", or "server" for the process.
	Of string
	// Limit is the value of the limit.
	Limit int64
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("%v: the quota %q of the %s is used up: %d", ErrQuota, e.Quota, e.Of, e.Limit)
}

// Unwrap returns ErrQuota.
func (e *QuotaError) Unwrap() error { return ErrQuota }
