package execution

import (
	"time"

	"reprise/internal/artifact"
	"reprise/internal/execution/command"
	"reprise/internal/execution/supervisor"
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

	// remembered: its record was written. collected: the files were looked for. unlisted: their list does not fit.
	remembered, collected, unlisted bool
}

var (
	errHasEnded       = supervisor.Refused(command.ErrHasEnded)
	errNotStartedYet  = supervisor.Refused(command.ErrNotStarted)
	errNoTerminal     = supervisor.Refused(command.ErrNoTerminal)
	errStdinNotOpened = supervisor.Refused(command.ErrStdinNotOpened)
)

// ms converts a time to its form in JSON, or nil for the zero time.
func ms(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return &Time{Time: t.UTC().Truncate(time.Millisecond)}
}
