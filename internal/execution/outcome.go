package execution

import (
	"time"

	"reprise/internal/artifact"
)

// verdict is a decision to end a run, and why. The first one holds.
type verdict struct {
	Outcome Outcome `json:"outcome"`
	Limit   string  `json:"limit,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	// Now: without TERM and grace.
	Now bool `json:"now,omitempty"`
}

// ending is the data of the end event of an execution.
type ending struct {
	Outcome         Outcome `json:"outcome"`
	ExitCode        *int    `json:"exit_code"`
	Signal          *string `json:"signal"`
	Error           string  `json:"error,omitempty"`
	Limit           string  `json:"limit,omitempty"`
	OutputTruncated bool    `json:"output_truncated,omitempty"`
	// ProcessesLeft: processes of the run may still be there, because what knew them was killed.
	ProcessesLeft bool `json:"processes_left,omitempty"`
	// KilledProcesses is the number of processes that still ran when the command had ended by itself, and were killed.
	// KilledCommands are the command lines of the first five, shortened.
	KilledProcesses int      `json:"killed_processes,omitempty"`
	KilledCommands  []string `json:"killed_commands,omitempty"`
	// Started is not there if the process never was.
	Started    *Time  `json:"started,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	Usage      *Usage `json:"usage"`
	Bytes      Bytes  `json:"bytes"`
	// BytesFrom is set on a run whose output was counted again, because the run was lost or its store had lost output,
	// after the beginning had left its window. Bytes then counts from the event with this seq.
	BytesFrom uint64     `json:"bytes_from,omitempty"`
	Isolation *Isolation `json:"isolation,omitempty"`
	// Artifacts are the kept files, ArtifactNotes the omitted ones.
	Artifacts     []artifact.File `json:"artifacts,omitempty"`
	ArtifactNotes []string        `json:"artifact_notes,omitempty"`

	// remembered: its record was written.
	remembered bool
	// judged: it is known why it ended.
	judged bool
}

// stop ends the run for a reason, unless it was stopped before. If its process has ended already, stop ends the
// remaining tree and keeps the outcome.
func (j *job) stop(v verdict) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// A limit was exceeded before the process ended, whenever that is found out.
	if j.verdict == nil && (!j.exited || v.Outcome == LimitExceeded) {
		j.verdict = &v
	}
	if !j.stopped {
		j.stopped, j.now = true, v.Now
		close(j.stopping)
	}
	if j.stopCall != nil {
		j.stopCall()
	}
}

// onStop makes stop call f, also if it was called before. nil undoes that.
func (j *job) onStop(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopCall = f
}

func (j *job) isStopping() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stopped
}

// processEnded closes the time in which a decision counts.
func (j *job) processEnded() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.exited = true
}

// judge adds to how the command ended why it did.
func (j *job) judge(e ending) ending {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.verdict != nil:
		e.Outcome, e.Limit = j.verdict.Outcome, j.verdict.Limit
		if j.verdict.Reason != "" {
			e.Error = j.verdict.Reason
		}
	case e.Outcome != "":
	case e.Signal != nil:
		e.Outcome = Signaled
	default:
		e.Outcome = Exited
	}
	return e
}

// ms converts a time to its form in JSON, or nil for the zero time.
func ms(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return &Time{Time: t.UTC().Truncate(time.Millisecond)}
}
