package execution

import (
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

// ErrHasEnded is reprise.ErrEnded for the command of an execution.
var ErrHasEnded = supervisor.Refused(command.ErrHasEnded)

var (
	errNotStartedYet  = supervisor.Refused(command.ErrNotStarted)
	errNoTerminal     = supervisor.Refused(command.ErrNoTerminal)
	errStdinNotOpened = supervisor.Refused(command.ErrStdinNotOpened)
)
