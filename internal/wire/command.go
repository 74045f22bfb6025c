package wire

import "encoding/json"

// Outcome is the reason why a command ended. Its exit code or signal is how its process ended.
type Outcome string

// MarshalJSON writes null for no outcome.
func (o Outcome) MarshalJSON() ([]byte, error) {
	if o == "" {
		return null, nil
	}
	return json.Marshal(string(o))
}

// Ending is how and why a command ended, or another stream, which has only Outcome and Data.
type Ending struct {
	// Outcome of a stream that is no execution is "completed", "failed" or "cancelled".
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
	Started    Time   `json:"started,omitzero"`
	DurationMS int64  `json:"duration_ms"`
	Usage      *Usage `json:"usage"`
	// Bytes is the output that was kept.
	Bytes     Bytes      `json:"bytes"`
	Isolation *Isolation `json:"isolation,omitempty"`
	// Data is what another stream was ended with.
	Data json.RawMessage `json:"data,omitempty"`
}

// Usage is what the processes of a command have used. MaxRSSBytes is the largest resident memory of a single process.
type Usage struct {
	UserMS      int64 `json:"user_ms"`
	SystemMS    int64 `json:"system_ms"`
	MaxRSSBytes int64 `json:"max_rss_bytes"`
}

// Bytes counts the output of each channel, kept or not.
type Bytes struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
}

// Plus returns the sum.
func (b Bytes) Plus(more Bytes) Bytes {
	return Bytes{Stdout: b.Stdout + more.Stdout, Stderr: b.Stderr + more.Stderr}
}

// Artifact is a file that is kept with an execution.
type Artifact struct {
	// Path is relative to the working directory of the command, with slashes.
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Isolation is the isolation in force for a command, which may differ from the requested one.
type Isolation struct {
	Level string `json:"level"`
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
	Layers Layers `json:"layers,omitzero"`
}

// Layers are the layers in force for a command. The zero value of a field means that the layer is not in
// force. The other values are constants of package isolation.
type Layers struct {
	// NoNewPrivileges: no set-user-ID program and no file capability gives the command more than it has.
	NoNewPrivileges bool `json:"no_new_privileges,omitempty"`
	// Capabilities that can be had: EmptySet, or ReducedSet, those that installing software as root takes.
	Capabilities string `json:"capabilities,omitempty"`
	// Hidden is what puts the server's secrets out of reach: ByMounts, ByLandlock or ByUser.
	Hidden string `json:"hidden,omitempty"`
	// Readable is the layer that restricts reading to what the system, the request and the server name: ByMounts or
	// ByLandlock.
	Readable string `json:"readable,omitempty"`
	// Temporary is what gives the command temporary directories of its own: ByMounts, which also gives it System V IPC
	// and message queues of its own, or ByDirectory for a directory that TMPDIR names.
	Temporary string `json:"temporary,omitempty"`
	// Writable is the layer that restricts writing: ByLandlock or ByMounts.
	Writable string `json:"writable,omitempty"`
	// Signals is what keeps the command from signalling others: ByLandlock or ByPIDNamespace.
	Signals string `json:"signals,omitempty"`
	// Cgroups is ReadOnly if the command cannot leave its cgroup.
	Cgroups string `json:"cgroups,omitempty"`
	// SystemCalls is DenyList where calls are refused that no build makes.
	SystemCalls string `json:"system_calls,omitempty"`
	// Network is Off if the command has no network except its own loopback interface.
	Network string `json:"network,omitempty"`
	// User is the user of the command, if it differs from that of the server.
	User string `json:"user,omitempty"`
}
