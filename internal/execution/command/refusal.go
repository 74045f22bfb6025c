package command

import "fmt"

// Refusal is why a command does not do what it is asked to.
type Refusal struct {
	Kind RefusalKind
	err  error
}

// RefusalKind is a kind of refusal.
type RefusalKind int

// The kinds of refusals.
const (
	// Ended: the command has ended, or its stdin.
	Ended RefusalKind = iota
	// Conflict: the command is not in the state that it is asked for.
	Conflict
	// Invalid: the request makes no sense.
	Invalid
	// Unknown: the request is not known.
	Unknown
)

// What a command is asked in vain.
var (
	ErrHasEnded       = refuse(Ended, "the command has ended")
	ErrNotStarted     = refuse(Conflict, "the command has not been started yet")
	ErrNoTerminal     = refuse(Conflict, "the command has no terminal")
	ErrStdinNotOpened = refuse(Ended, "stdin was not opened")
	errStdinClosed    = refuse(Ended, "stdin is closed")
)

func refuse(kind RefusalKind, format string, args ...any) error {
	return &Refusal{kind, fmt.Errorf(format, args...)}
}

func (r *Refusal) Error() string { return r.err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.err }
