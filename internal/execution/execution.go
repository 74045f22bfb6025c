package execution

import (
	"encoding/json"
	"time"

	"reprise/client"
	"reprise/internal/artifact"
	"reprise/internal/isolation"
)

// Execution is one run of a command as it is shown. It is the body of GET
// /v1/executions/{id}, but for the links, which are the API's.
type Execution struct {
	ID      string `json:"id"`
	Session string `json:"session,omitempty"`
	// Key is that of the request; it may stand for a later execution by now.
	Key    string `json:"key,omitempty"`
	Status Status `json:"status"`
	// Outcome, ExitCode and Signal are nil until the end, and the last two where
	// the process did not end that way.
	Outcome  *Outcome `json:"outcome"`
	ExitCode *int     `json:"exit_code"`
	// Signal is a name without SIG, for example "SEGV".
	Signal *string `json:"signal"`
	// Error is why a run did not start, was lost, or was ended by the Host.
	Error string `json:"error,omitempty"`
	// Limit is which one was exceeded, for example "memory_bytes".
	Limit string `json:"limit,omitempty"`
	// OutputTruncated: the command wrote output that is not in the stream.
	OutputTruncated bool `json:"output_truncated,omitempty"`
	// ProcessesLeft: what owned its processes was killed, and some of them may still run.
	ProcessesLeft bool `json:"processes_left,omitempty"`

	// What was asked for. A long Argv, Command or list of names is cut short.
	Argv     []string `json:"argv,omitempty"`
	Command  string   `json:"command,omitempty"`
	Language string   `json:"language,omitempty"`
	// Interpreter is the one that the code runs in.
	Interpreter string `json:"interpreter,omitempty"`
	Cwd         string `json:"cwd"`
	// EnvNames are the names, not the values, of the variables of the request.
	EnvNames []string          `json:"env_names,omitempty"`
	TTY      *TTY              `json:"tty,omitempty"`
	Timeout  Duration          `json:"timeout,omitzero"`
	Labels   map[string]string `json:"labels"`

	Created Time  `json:"created"`
	Started *Time `json:"started"`
	Ended   *Time `json:"ended"`
	// DurationMS is from the start of the process to its end, once it has ended.
	DurationMS *int64     `json:"duration_ms"`
	Window     Window     `json:"window"`
	Usage      *Usage     `json:"usage"`
	Bytes      Bytes      `json:"bytes"`
	Isolation  *Isolation `json:"isolation"`
	// Artifacts are the files that are kept with it, ArtifactNotes what was left out and why.
	Artifacts     []artifact.File `json:"artifacts,omitempty"`
	ArtifactNotes []string        `json:"artifact_notes,omitempty"`

	driven *drivenProgress // of an interpreter that runs

	tail uint64 // of the stream when it was looked at
}

// Status says how far an execution is.
type Status string

// The states of an execution, in this order.
const (
	StatusQueued  Status = "queued"
	StatusRunning Status = "running"
	StatusEnded   Status = "ended"
)

// Outcome says why an execution ended. ExitCode and Signal say how.
type Outcome string

// The outcomes. Exited with a code other than 0 is still Exited. Cancelled,
// TimedOut and LimitExceeded are given when that was decided before the process
// ended, however it then took it. Lost is a run whose process the Host cannot
// find again.
const (
	Exited        Outcome = "exited"
	Signaled      Outcome = "signaled"
	TimedOut      Outcome = "timed_out"
	Cancelled     Outcome = "cancelled"
	LimitExceeded Outcome = "limit_exceeded"
	FailedToStart Outcome = "failed_to_start"
	Lost          Outcome = "lost"
)

// What a client is shown of an execution; see package client.
type (
	Window = client.Window
	Usage  = client.Usage
)

// Bytes counts the output of each channel that the stream was given, kept or not.
type Bytes struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
}

func (b Bytes) plus(more Bytes) Bytes {
	return Bytes{Stdout: b.Stdout + more.Stdout, Stderr: b.Stderr + more.Stderr}
}

// Isolation is what is in force for a run, not what was asked for.
type Isolation struct {
	Level isolation.Level `json:"level"`
	// Kill is how the whole tree is found when it is killed: by its "cgroup", as descendants of a supervisor that
	// adopts every orphan ("subreaper"), or by a "scan" of /proc, which a process escapes that leaves its session and
	// its parent and clears its environment. Elsewhere than on Linux it is the process "group" of the command, which
	// a process escapes that leaves it.
	Kill string `json:"kill"`
	// Memory, Processes and CPU say how a limit is held: "kernel", "sampled"
	// (every 100 ms), or "" where none was asked for.
	Memory    string `json:"memory_bytes,omitempty"`
	Processes string `json:"processes,omitempty"`
	CPU       string `json:"cpu_time,omitempty"`
	// Layers are those that the process was started with.
	Layers isolation.Layers `json:"layers,omitzero"`
}

// Time is written as RFC 3339 in UTC with milliseconds.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// MarshalJSON is the inverse of time.Time.UnmarshalJSON for whole milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.UTC().Format(timeLayout))
}
