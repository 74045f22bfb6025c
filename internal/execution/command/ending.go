package command

import "reprise/internal/wire"

// What is known of a command.
type (
	Outcome   = wire.Outcome
	Usage     = wire.Usage
	Bytes     = wire.Bytes
	Isolation = wire.Isolation
)

// The outcomes. Exited with a code other than 0 is still Exited. Cancelled, TimedOut and LimitExceeded are given when
// that was decided before the process ended, however it then took it. Lost is a command whose process cannot be found
// again.
const (
	Exited        Outcome = "exited"
	Signaled      Outcome = "signaled"
	TimedOut      Outcome = "timed_out"
	Cancelled     Outcome = "cancelled"
	LimitExceeded Outcome = "limit_exceeded"
	FailedToStart Outcome = "failed_to_start"
	Lost          Outcome = "lost"
)

// Ending is how and why a command ended.
type Ending struct {
	Outcome Outcome `json:"outcome"`
	// ExitCode or Signal, a name without SIG, is nil if the process did not end that way.
	ExitCode        *int    `json:"exit_code"`
	Signal          *string `json:"signal"`
	Error           string  `json:"error,omitempty"`
	Limit           string  `json:"limit,omitempty"`
	OutputTruncated bool    `json:"output_truncated,omitempty"`
	// ProcessesLeft: processes of the command may still be there, because what knew them was killed.
	ProcessesLeft bool `json:"processes_left,omitempty"`
	// KilledProcesses is the number of processes that still ran when the command had ended by itself, and were killed.
	// KilledCommands are the command lines of the first five, shortened.
	KilledProcesses int      `json:"killed_processes,omitempty"`
	KilledCommands  []string `json:"killed_commands,omitempty"`
	// Started is zero if the process never was.
	Started    wire.Time `json:"started,omitzero"`
	DurationMS int64     `json:"duration_ms"`
	Usage      *Usage    `json:"usage"`
	// Bytes is the output that was kept.
	Bytes     Bytes      `json:"bytes"`
	Isolation *Isolation `json:"isolation,omitempty"`
}

// Count adds n bytes of chunks of the kind to b.
func (k Kind) Count(b *Bytes, n int) {
	switch k {
	case Stdout:
		b.Stdout += int64(n)
	case Stderr:
		b.Stderr += int64(n)
	case Started:
	}
}
