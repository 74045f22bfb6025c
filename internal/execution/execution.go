package execution

import (
	"reprise/client"
	"reprise/internal/artifact"
	"reprise/internal/execution/command"
	"reprise/internal/wire"
)

// Execution describes one run of a command. It is the body of GET /v1/executions/{id}, except the links, which package
// api adds.
type Execution struct {
	ID      string `json:"id"`
	Session string `json:"session,omitempty"`
	// Key is the key of the request. It may belong to a later execution now.
	Key    string `json:"key,omitempty"`
	Status Status `json:"status"`
	// Expired: it has ended, and is remembered only with its outcome and times. ExpiredAt is when the kept output
	// expired; it is nil if the output was removed before, to make room.
	Expired   bool  `json:"expired,omitempty"`
	ExpiredAt *Time `json:"expired_at,omitempty"`
	// Waiting is WaitingStorage while output waits until there is room for it, since WaitingSince.
	Waiting      string `json:"waiting,omitempty"`
	WaitingSince *Time  `json:"waiting_since,omitempty"`
	// Outcome, ExitCode and Signal are nil until the end. ExitCode or Signal stays nil if the process did not end that
	// way.
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
	// KilledProcesses is the number of processes that still ran when the command had ended by itself, and were killed.
	// KilledCommands are the command lines of the first five, shortened.
	KilledProcesses int      `json:"killed_processes,omitempty"`
	KilledCommands  []string `json:"killed_commands,omitempty"`

	// The request. A long Argv, Command or list of names is shortened.
	Argv     []string `json:"argv,omitempty"`
	Command  string   `json:"command,omitempty"`
	Language string   `json:"language,omitempty"`
	// Interpreter is the id of the interpreter that runs the code.
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
	Window     Window     `json:"window,omitzero"`
	Usage      *Usage     `json:"usage"`
	Bytes      Bytes      `json:"bytes"`
	Isolation  *Isolation `json:"isolation"`
	// Artifacts are the kept files of the execution. ArtifactNotes name each omitted file and the reason.
	Artifacts     []artifact.File `json:"artifacts,omitempty"`
	ArtifactNotes []string        `json:"artifact_notes,omitempty"`

	// Driver is the label of an interpreter, and Driven its progress while it runs.
	Driver string  `json:"-"`
	Driven *Driven `json:"-"`

	tail uint64 // of the stream when it was looked at
	size int64  // of what its stream keeps besides events
}

// Status is the state of an execution.
type Status string

// The states of an execution, in this order.
const (
	StatusQueued  Status = "queued"
	StatusRunning Status = "running"
	StatusEnded   Status = "ended"
)

// WaitingStorage: a bound on what streams keep is reached, and no ended stream is left that could make room. The output
// of the command is not read meanwhile, so that the command waits too.
const WaitingStorage = "storage"

// The outcomes; see package command.
const (
	Exited        = command.Exited
	Signaled      = command.Signaled
	TimedOut      = command.TimedOut
	Cancelled     = command.Cancelled
	LimitExceeded = command.LimitExceeded
	FailedToStart = command.FailedToStart
	Lost          = command.Lost
)

// What is known of the command of an execution. Bytes counts the output that the stream was given, kept or not.
type (
	Outcome   = command.Outcome
	Usage     = command.Usage
	Bytes     = command.Bytes
	Isolation = command.Isolation
)

// Window is what the stream of an execution keeps; see package client.
type Window = client.Window

// Time is a time in JSON.
type Time = wire.Time
