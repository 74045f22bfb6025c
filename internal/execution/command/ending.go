package command

import (
	"reprise/internal/isolation"
	"reprise/internal/wire"
)

// Outcome is the reason why a command ended. Its exit code or signal is how its process ended.
type Outcome string

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
	// Started is nil if the process never was.
	Started    *wire.Time `json:"started,omitempty"`
	DurationMS int64      `json:"duration_ms"`
	Usage      *Usage     `json:"usage"`
	// Bytes is the output that was kept.
	Bytes     Bytes      `json:"bytes"`
	Isolation *Isolation `json:"isolation,omitempty"`
}

// Usage is what the processes of a command have used. MaxRSSBytes is the largest resident memory of a single process.
type Usage struct {
	UserMS      int64 `json:"user_ms"`
	SystemMS    int64 `json:"system_ms"`
	MaxRSSBytes int64 `json:"max_rss_bytes"`
}

// Bytes counts the output of each channel.
type Bytes struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
}

// Plus returns the sum.
func (b Bytes) Plus(more Bytes) Bytes {
	return Bytes{Stdout: b.Stdout + more.Stdout, Stderr: b.Stderr + more.Stderr}
}

// Add counts n bytes of a chunk.
func (b *Bytes) Add(kind Kind, n int) {
	switch kind {
	case Stdout:
		b.Stdout += int64(n)
	case Stderr:
		b.Stderr += int64(n)
	case Started:
	}
}

// Isolation is the isolation in force for a command, which may differ from the requested one.
type Isolation struct {
	Level isolation.Level `json:"level"`
	// Kill is how the whole tree is found when it is killed: by its "cgroup", as descendants of a supervisor that
	// adopts every orphan ("subreaper"), or by a "scan" of /proc, which a process escapes that leaves its session and
	// its parent and clears its environment. Elsewhere than on Linux it is the process "group" of the command, which
	// a process escapes that leaves it.
	Kill string `json:"kill"`
	// Memory, Processes and CPU are how a limit is enforced: "kernel", "sampled" (every 100 ms), or "" if there is no
	// limit.
	Memory    string `json:"memory_bytes,omitempty"`
	Processes string `json:"processes,omitempty"`
	CPU       string `json:"cpu_time,omitempty"`
	// Layers are those that the process was started with.
	Layers isolation.Layers `json:"layers,omitzero"`
}
