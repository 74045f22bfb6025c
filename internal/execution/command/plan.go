package command

import (
	"cmp"
	"time"

	"reprise/internal/isolation"
)

// Plan contains everything that is needed to run a command. A server passes it to a supervisor.
type Plan struct {
	ID string `json:"id"`
	// Shown is the description of the command in the started chunk.
	Shown Shown `json:"shown"`

	Argv    []string `json:"argv"`
	Cwd     string   `json:"cwd"`
	Environ []string `json:"environ"`
	// Mark is the entry of Environ that all processes of the command have. Its value is never used twice.
	Mark string `json:"mark"`
	TTY  *Size  `json:"tty,omitempty"`
	// Masked is what stands as "***" in the output.
	Masked []string `json:"masked,omitempty"`

	// Input is the beginning of stdin. StdinOpen is true if more may follow.
	Input     []byte `json:"input,omitempty"`
	StdinOpen bool   `json:"stdin_open,omitempty"`

	// Timeout is 0 for none.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Grace is the time between TERM and KILL.
	Grace time.Duration `json:"grace"`
	// Drain is how long the end waits, after the process has ended, for others that keep the output open.
	Drain  time.Duration `json:"drain"`
	Limits Limits        `json:"limits"`
	// Isolation is how the process is started.
	Isolation *isolation.Plan `json:"isolation"`
}

// Shown describes a command as its request did.
type Shown struct {
	Argv     []string `json:"argv,omitempty"`
	Command  string   `json:"command,omitempty"`
	Language string   `json:"language,omitempty"`
}

// Size is the size of a terminal. A zero stands for the default, 80 columns and 24 rows.
type Size struct {
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
}

// WithDefaults returns the size with the defaults in place of zeros.
func (s Size) WithDefaults() Size { return Size{Cols: cmp.Or(s.Cols, 80), Rows: cmp.Or(s.Rows, 24)} }

// Limits limit the resources of a command. 0 means no limit.
type Limits struct {
	// OutputBytes applies to both channels together.
	OutputBytes int64 `json:"output_bytes,omitempty"`
	// MemoryBytes is the resident memory of all processes.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// Processes is the maximum number of processes at a time.
	Processes int64 `json:"processes,omitempty"`
	// CPUTime is the time of all processes, in user and system mode.
	CPUTime time.Duration `json:"cpu_time,omitempty"`
}

// OnProcesses reports whether any limit applies to processes and not only to the output. Such limits need HoldsLimits.
func (l *Limits) OnProcesses() bool { return l.MemoryBytes > 0 || l.Processes > 0 || l.CPUTime > 0 }
