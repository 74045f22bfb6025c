package execution

import (
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/artifact"
	"reprise/internal/execution/command"
)

// ending is the data of the end event of an execution.
type ending struct {
	command.Ending
	// BytesFrom is set on a run whose output was counted again, because the run was lost or its store had lost output,
	// after the beginning had left its window. Bytes then counts from the event with this seq.
	BytesFrom uint64 `json:"bytes_from,omitempty"`
	// Artifacts are the kept files, ArtifactNotes the omitted ones.
	Artifacts     []artifact.File `json:"artifacts,omitempty"`
	ArtifactNotes []string        `json:"artifact_notes,omitempty"`

	// remembered: its record was written.
	remembered bool
	// judged: it is known why it ended.
	judged bool
}

// refused returns an error of package command as one of package reprise.
func refused(err error) error {
	r, ok := errors.AsType[*command.Refusal](err)
	if !ok {
		return err
	}
	kind := reprise.ErrInvalid
	switch r.Kind {
	case command.Ended:
		kind = reprise.ErrEnded
	case command.Conflict:
		kind = reprise.ErrConflict
	case command.Invalid:
	}
	return fmt.Errorf("%w: %w", kind, err)
}

var (
	errHasEnded       = refused(command.ErrHasEnded)
	errNotStartedYet  = refused(command.ErrNotStarted)
	errNoTerminal     = refused(command.ErrNoTerminal)
	errStdinNotOpened = refused(command.ErrStdinNotOpened)
)

// ms converts a time to its form in JSON, or nil for the zero time.
func ms(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return &Time{Time: t.UTC().Truncate(time.Millisecond)}
}
