package execution

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"reprise"
)

// Request asks for one run of a command. It is the body of POST /v1/executions.
// Exactly one of Argv, Command and Language (with Code) says what to run.
type Request struct {
	// ID is chosen by the client: 1 to 128 bytes of letters, digits, '.', '_' and
	// '-', not beginning with '.'. A second start with the same ID and the same
	// request attaches to the first. Without ID and IdempotencyKey the Host
	// makes an unguessable one.
	ID string `json:"id,omitempty"`
	// IdempotencyKey, 1 to 255 bytes, makes the start idempotent like ID, but the
	// id is derived from it under a secret of the Host. With both, ID names the
	// execution and the key is part of the request: another key is a conflict.
	IdempotencyKey string `json:"-"`
	// Session groups executions. It has the form of ID.
	Session string `json:"session,omitempty"`

	// Argv is the program and its arguments. A program without a slash is looked
	// up in the PATH that the command gets.
	Argv []string `json:"argv,omitempty"`
	// Command is run by "sh -c".
	Command string `json:"command,omitempty"`
	// Language names an interpreter (see Languages) that runs Code.
	Language string `json:"language,omitempty"`
	Code     string `json:"code,omitempty"`

	// Cwd is the working directory, relative to Options.Dir.
	Cwd string `json:"cwd,omitempty"`
	// Env is added to the few variables that every command gets.
	Env map[string]string `json:"env,omitempty"`

	// Stdin is what the command reads, StdinBase64 the same for any bytes; at most
	// one of them. Without StdinOpen the command then finds the end of its stdin.
	Stdin       *string `json:"stdin,omitempty"`
	StdinBase64 []byte  `json:"stdin_base64,omitempty"`
	// StdinOpen keeps stdin open for Host.WriteStdin.
	StdinOpen bool `json:"stdin_open,omitempty"`
	// TTY runs the command in a terminal. Its output is all of channel "stdout".
	TTY *TTY `json:"tty,omitempty"`

	// Timeout ends the run; 0 is Options.MaxTimeout.
	Timeout Duration `json:"timeout,omitzero"`
	// Grace is the time between TERM and KILL; 0 is Options.Grace.
	Grace Duration `json:"grace,omitzero"`
	// KillOnDisconnect cancels the run when somebody has followed it and nobody
	// has for Options.DisconnectGrace.
	KillOnDisconnect bool `json:"kill_on_disconnect,omitempty"`

	// Labels are for finding executions: at most 60 of them, keys of 1 to 63
	// bytes, values of at most 256.
	Labels    map[string]string `json:"labels,omitempty"`
	Limits    Limits            `json:"limits,omitzero"`
	Retention Retention         `json:"retention,omitzero"`
	// Isolation is "none", "limits" or "" for "limits" where Limits asks for any,
	// "none" where not.
	Isolation string `json:"isolation,omitempty"`
}

// TTY is the size of a terminal in characters, each 1 to 65535; 0 stands for 80 and 24.
type TTY struct {
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
}

// Limits bound what a run may use; 0 is no bound. A run that goes over one is
// killed and ends as limit_exceeded.
type Limits struct {
	// OutputBytes is for both channels together. What goes beyond it is not kept.
	OutputBytes int64 `json:"output_bytes,omitempty"`
	// MemoryBytes is the resident memory of all processes of the run.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// Processes is how many may live at a time.
	Processes int64 `json:"processes,omitempty"`
	// CPUTime is that of all processes of the run, in user and system mode.
	CPUTime Duration `json:"cpu_time,omitzero"`
}

// Retention is reprise.Retention as a body.
type Retention struct {
	MaxEvents int64    `json:"max_events,omitempty"`
	MaxBytes  int64    `json:"max_bytes,omitempty"`
	MaxAge    Duration `json:"max_age,omitzero"`
}

// Duration is written as a string such as "90s"; see time.ParseDuration.
type Duration time.Duration

// MarshalText is the inverse of UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads. The error wraps reprise.ErrInvalid.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%w: %q is no duration such as \"90s\"", reprise.ErrInvalid, text)
	}
	*d = Duration(v)
	return nil
}

// FieldError says which field of a request is wrong. It wraps reprise.ErrInvalid.
type FieldError struct {
	// Field is the name in the JSON form, for example "limits.cpu_time".
	Field  string
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap returns reprise.ErrInvalid.
func (e *FieldError) Unwrap() error { return reprise.ErrInvalid }

func invalid(field, format string, args ...any) error {
	return &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

const (
	maxID             = 128
	maxIdempotencyKey = 255
	maxLabels         = 60
	maxLabelKey       = 63
	maxLabelValue     = 256
)

// Validate reports whether r can be started at all. The error is a *FieldError.
// A program or directory that does not exist is no error of the request: such
// a run ends as failed_to_start.
func (r *Request) Validate() error {
	for _, check := range []func() error{
		r.checkNames, r.checkProgram, r.checkEnv, r.checkStdin, r.checkTimes, r.checkLimits,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) checkNames() error {
	if r.ID != "" {
		if err := checkID("id", r.ID); err != nil {
			return err
		}
	}
	if r.Session != "" {
		if err := checkID("session", r.Session); err != nil {
			return err
		}
	}
	if len(r.IdempotencyKey) > maxIdempotencyKey {
		return invalid("idempotency_key", "at most %d bytes are taken", maxIdempotencyKey)
	}
	if len(r.Labels) > maxLabels {
		return invalid("labels", "at most %d are taken", maxLabels)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
		if k == "" || len(k) > maxLabelKey || len(r.Labels[k]) > maxLabelValue {
			return invalid("labels", "a key has 1 to %d bytes, a value at most %d", maxLabelKey, maxLabelValue)
		}
	}
	return nil
}

// checkID holds for the ids of executions and sessions.
func checkID(field, id string) error {
	if id == "" || len(id) > maxID {
		return invalid(field, "an id has 1 to %d bytes", maxID)
	}
	if id[0] == '.' {
		return invalid(field, "an id does not begin with '.'")
	}
	for i := range len(id) {
		if c := id[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-') {
			return invalid(field, "an id has letters, digits, '.', '_' and '-', not %q", c)
		}
	}
	return nil
}

func (r *Request) checkProgram() error {
	given := 0
	for _, is := range []bool{len(r.Argv) > 0, r.Command != "", r.Language != ""} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return invalid("argv", "exactly one of argv, command and language is needed")
	case r.Language == "" && r.Code != "":
		return invalid("code", "needs language")
	case r.Language != "" && languages[r.Language] == nil:
		return invalid("language", "%q is not one of %s", r.Language, strings.Join(Languages(), ", "))
	case len(r.Argv) > 0 && r.Argv[0] == "":
		return invalid("argv", "the program has no name")
	case slices.ContainsFunc(r.Argv, hasNUL):
		return invalid("argv", "holds a NUL")
	case hasNUL(r.Command):
		return invalid("command", "holds a NUL")
	case hasNUL(r.Cwd):
		return invalid("cwd", "holds a NUL")
	}
	return nil
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

func (r *Request) checkEnv() error {
	for _, k := range slices.Sorted(maps.Keys(r.Env)) {
		if k == "" || strings.Contains(k, "=") || hasNUL(k) || hasNUL(r.Env[k]) {
			return invalid("env", "%q is no name and value of a variable", k)
		}
	}
	return nil
}

func (r *Request) checkStdin() error {
	if r.Stdin != nil && r.StdinBase64 != nil {
		return invalid("stdin_base64", "stdin is given as well")
	}
	if r.TTY != nil && (r.TTY.Cols < 0 || r.TTY.Cols > 65535 || r.TTY.Rows < 0 || r.TTY.Rows > 65535) {
		return invalid("tty", "cols and rows are 1 to 65535")
	}
	return nil
}

func (r *Request) checkTimes() error {
	for _, d := range []struct {
		field string
		value Duration
	}{
		{"timeout", r.Timeout},
		{"grace", r.Grace},
		{"limits.cpu_time", r.Limits.CPUTime},
		{"retention.max_age", r.Retention.MaxAge},
	} {
		if d.value < 0 {
			return invalid(d.field, "is negative")
		}
	}
	return nil
}

func (r *Request) checkLimits() error {
	for _, n := range []struct {
		field string
		value int64
	}{
		{"limits.output_bytes", r.Limits.OutputBytes},
		{"limits.memory_bytes", r.Limits.MemoryBytes},
		{"limits.processes", r.Limits.Processes},
		{"retention.max_events", r.Retention.MaxEvents},
		{"retention.max_bytes", r.Retention.MaxBytes},
	} {
		if n.value < 0 {
			return invalid(n.field, "is negative")
		}
	}
	switch r.Isolation {
	case "", LevelLimits:
		return nil
	case LevelNone:
		if r.Limits.onProcesses() {
			return invalid("isolation", "limits on processes need the level %q", LevelLimits)
		}
		return nil
	case "landlock", "bubblewrap":
		return invalid("isolation", "the level %q is not available here", r.Isolation)
	}
	return invalid("isolation", "%q is not a level; there are %s", r.Isolation, strings.Join([]string{LevelNone, LevelLimits}, ", "))
}

// onProcesses reports whether any limit binds processes and not the output alone.
func (l Limits) onProcesses() bool { return l.MemoryBytes > 0 || l.Processes > 0 || l.CPUTime > 0 }

// level is the level of isolation that is asked for.
func (r *Request) level() string {
	switch {
	case r.Isolation != "":
		return r.Isolation
	case r.Limits.onProcesses():
		return LevelLimits
	}
	return LevelNone
}

// input is what the command reads before anything that WriteStdin sends.
func (r *Request) input() []byte {
	if r.Stdin != nil {
		return []byte(*r.Stdin)
	}
	return r.StdinBase64
}

// cwd is the absolute working directory of the command.
func (r *Request) cwd(dir string) string {
	if path.IsAbs(r.Cwd) {
		return path.Clean(r.Cwd)
	}
	return path.Join(dir, r.Cwd)
}
