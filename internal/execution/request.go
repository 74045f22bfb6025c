package execution

import (
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/execution/command"
	"reprise/internal/execution/language"
	"reprise/internal/problem"
)

// Request is a request to start an execution. Its members are documented at client.StartRequest; Host validates it. An
// ID is not required: without ID and IdempotencyKey the Host makes an unguessable id. With only the key, the id is
// derived from the key with a secret of the Host.
type Request client.StartRequest

// The parts of a Request.
type (
	// TTY is the size of a terminal.
	TTY = client.TTY
	// Limits limit the resources of a run.
	Limits = client.Limits
	// Retention is reprise.Retention as a body.
	Retention = client.Retention
	// Duration is written as a string such as "90s".
	Duration = client.Duration
)

// BusyError refuses code for an interpreter that runs other code. It wraps reprise.ErrConflict.
type BusyError struct {
	Running string // the execution of that code
}

func (e *BusyError) Error() string {
	return "the interpreter runs other code, execution " + e.Running + ": wait for its end, or interrupt it"
}

// Unwrap returns reprise.ErrConflict.
func (e *BusyError) Unwrap() error { return reprise.ErrConflict }

// FieldError reports an invalid field of a request. It wraps reprise.ErrInvalid.
type FieldError struct {
	// Field is the name in the JSON form, for example "limits.cpu_time".
	Field  string
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Problem implements problem.Teller.
func (e *FieldError) Problem(detail string) problem.Problem {
	return problem.Invalid(http.StatusUnprocessableEntity, e.Field, detail)
}

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

// Validate reports whether r can be started at all. The error is a *FieldError. A program or directory that does not
// exist does not make a request invalid: such a run ends as failed_to_start.
func (r *Request) Validate() error {
	for _, check := range []func() error{
		r.checkNames, r.checkProgram, r.checkEnv, r.checkSecrets, r.checkStdin, r.checkTimes, r.checkLimits,
		r.checkIsolation,
		r.checkArtifacts,
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
	switch {
	case len(r.Key) > maxIdempotencyKey:
		return invalid("key", "at most %d bytes are taken", maxIdempotencyKey)
	case r.Key != "" && (r.ID != "" || r.IdempotencyKey != ""):
		return invalid("key", "an id or an Idempotency-Key, which never start again, is given as well")
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

// CheckID returns a *FieldError unless an execution or a session can have the id.
func CheckID(id string) error { return checkID("id", id) }

// checkID holds for the ids of executions and sessions.
func checkID(field, id string) error {
	if id == "" || len(id) > maxID {
		return invalid(field, "an id has 1 to %d bytes", maxID)
	}
	if id[0] == '.' {
		return invalid(field, "an id does not begin with '.'")
	}
	for _, c := range id {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-') {
			return invalid(field, "an id has letters, digits, '.', '_' and '-', not %q", c)
		}
	}
	return nil
}

func (r *Request) checkProgram() error {
	if r.Interpreter != "" {
		return r.checkInside()
	}
	if r.Clear {
		return invalid("clear", "needs interpreter")
	}
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
	case r.Shell != "" && r.Command == "":
		return invalid("shell", "needs command")
	case r.Shell != "" && r.Shell != "sh" && r.Shell != "bash":
		return invalid("shell", "sh and bash are taken")
	case r.Language != "" && language.Lookup(r.Language) == nil:
		return invalid("language", "%q is not one of %s", r.Language, strings.Join(language.Names(), ", "))
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
			return invalid("env", "%q is not a variable: a name has a byte and no '=', and nothing has a NUL", k)
		}
	}
	return nil
}

func (r *Request) checkStdin() error {
	if r.Stdin != nil && r.StdinBase64 != nil {
		return invalid("stdin_base64", "stdin is given as well")
	}
	if r.TTY != nil && (r.TTY.Cols < 0 || r.TTY.Cols > maxSize || r.TTY.Rows < 0 || r.TTY.Rows > maxSize) {
		return invalid("tty", "cols and rows are 1 to %d", maxSize)
	}
	return nil
}

// maxGrace bounds how long a command may go on after its timeout, its cancellation or the stop of the server.
const maxGrace = time.Minute

func (r *Request) checkTimes() error {
	for _, d := range []struct {
		field string
		value Duration
	}{
		{"timeout", r.Timeout},
		{"grace", r.Grace},
		{"limits.cpu_time", r.Limits.CPUTime},
		{"retention.max_age", r.Retention.MaxAge},
		{"retention.max_age_each", r.Retention.MaxAgeEach},
	} {
		if d.value < 0 {
			return invalid(d.field, "is negative")
		}
	}
	if time.Duration(r.Grace) > maxGrace {
		return invalid("grace", "at most %v is taken", maxGrace)
	}
	if r.Retention.MaxIdle != 0 {
		return invalid("retention.max_idle", "is for streams that are no executions")
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
	if !command.HoldsLimits && onProcesses(&r.Limits) {
		return invalid("limits", "only servers on Linux bound memory, processes and CPU time")
	}
	return nil
}

// onProcesses reports whether any limit applies to processes and not only to the output.
func onProcesses(l *Limits) bool {
	limits := (&Caps{}).limits(l)
	return limits.OnProcesses()
}

// input returns the data that the command reads before the data of WriteStdin.
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
