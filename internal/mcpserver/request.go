package mcpserver

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"reprise"
	"reprise/internal/execution"
)

const (
	minBytes = 256
	maxBytes = 1 << 20
	// maxSeconds is the longest time.Duration.
	maxSeconds = float64(math.MaxInt64 / int64(time.Second))
)

// runInput describes a run.
type runInput struct {
	Code        string            `json:"code,omitempty" jsonschema:"program text in language"`
	Language    string            `json:"language,omitempty" jsonschema:"bash, go, javascript, lua, perl, php, python (default), r, ruby, sh or typescript"`
	Interpreter string            `json:"interpreter,omitempty" jsonschema:"name of an interpreter (bash, javascript, python) in session, which remembers variables"`
	Command     string            `json:"command,omitempty" jsonschema:"for bash"`
	Argv        []string          `json:"argv,omitempty" jsonschema:"program and arguments"`
	Cwd         string            `json:"cwd,omitempty" jsonschema:"working directory"`
	Env         map[string]string `json:"env,omitempty" jsonschema:"variables to add"`
	Stdin       string            `json:"stdin,omitempty" jsonschema:"text that it reads"`
	Timeout     float64           `json:"timeout_seconds,omitempty" jsonschema:"end the run after this"`
	Session     string            `json:"session,omitempty" jsonschema:"name of a group of runs"`
	Labels      map[string]string `json:"labels,omitempty" jsonschema:"to find the run by"`
	Key         string            `json:"idempotency_key,omitempty" jsonschema:"equal calls with the same key share a run"`
	Kept        keptArg           `json:"retention,omitzero" jsonschema:"kept output: max_bytes, max_events"`
}

type executeInput struct {
	runInput
	Wait     *float64 `json:"wait_seconds,omitempty" jsonschema:"answer after this although it goes on, 0 to 50 (default 30)"`
	MaxBytes int      `json:"max_bytes,omitempty" jsonschema:"output shown at most, 256 to 1048576 (default 30000)"`
	Quiet    bool     `json:"quiet,omitempty" jsonschema:"show only the last lines and counts"`
}

type startInput struct {
	runInput
	StdinOpen bool `json:"stdin_open,omitempty" jsonschema:"for send_stdin"`
	TTY       bool `json:"tty,omitempty" jsonschema:"run in a terminal of 80 by 24"`
}

// request returns the requested run.
func (in *runInput) request() (execution.Request, error) {
	r := execution.Request{
		IdempotencyKey: in.Key, Session: in.Session, Argv: in.Argv, Command: in.Command, Language: in.Language,
		Code: in.Code,
		Cwd:  in.Cwd, Env: in.Env, Labels: in.Labels, Retention: in.Kept.Retention,
	}
	if err := in.checkProgram(); err != nil {
		return r, err
	}
	if r.Code != "" {
		r.Language = in.language()
	}
	if in.Stdin != "" {
		r.Stdin = &in.Stdin
	}
	timeout, err := seconds("timeout_seconds", in.Timeout, maxSeconds)
	r.Timeout = execution.Duration(timeout)
	return r, err
}

// language returns the language of the code.
func (in *runInput) language() string { return cmp.Or(in.Language, "python") }

// checkProgram refuses a call without a program to run, in the terms of the tool.
func (in *runInput) checkProgram() error {
	var given []string
	for _, p := range []struct {
		name string
		is   bool
	}{{"code", in.Code != ""}, {"command", in.Command != ""}, {"argv", len(in.Argv) > 0}} {
		if p.is {
			given = append(given, p.name)
		}
	}
	switch {
	case len(given) == 0:
		return &execution.FieldError{Field: "code", Reason: "one of code, command and argv is needed"}
	case len(given) > 1:
		return &execution.FieldError{
			Field: given[1], Reason: given[0] + " is given too; exactly one of code, command and argv is taken",
		}
	case in.Language != "" && in.Code == "":
		return &execution.FieldError{Field: "language", Reason: "it is that of code, and " + given[0] + " is given"}
	case in.Interpreter != "" && in.Code == "":
		return &execution.FieldError{Field: "interpreter", Reason: "it runs code, and " + given[0] + " is given"}
	}
	return nil
}

// seconds is a number of seconds from 0 to most.
func seconds(field string, n, most float64) (time.Duration, error) {
	if math.IsNaN(n) || n < 0 || n > most {
		return 0, &execution.FieldError{Field: field, Reason: fmt.Sprintf("0 to %v seconds are taken", most)}
	}
	return time.Duration(n * float64(time.Second)), nil
}

// longestWait is how long a call waits that asks for n seconds: maxWait at most.
func longestWait(field string, n float64) (time.Duration, error) {
	wait, err := seconds(field, n, maxSeconds)
	return min(wait, maxWait), err
}

// bound returns how much output a call shows.
func (s *Server) bound(asked int) (int, error) {
	switch {
	case asked == 0:
		return s.opts.MaxBytes, nil
	case asked < minBytes || asked > maxBytes:
		return 0, &execution.FieldError{
			Field:  "max_bytes",
			Reason: fmt.Sprintf("%d to %d are taken", minBytes, maxBytes),
		}
	}
	return asked, nil
}

// runStatus is how a run is.
type runStatus struct {
	ID       string  `json:"execution_id"`
	Status   string  `json:"status"`
	Outcome  string  `json:"outcome,omitempty"`
	ExitCode *int    `json:"exit_code,omitempty"`
	Signal   *string `json:"signal,omitempty"`
	Error    string  `json:"error,omitempty"`
	Limit    string  `json:"limit,omitempty"`

	Command  string            `json:"command,omitempty"`
	Argv     []string          `json:"argv,omitempty"`
	Language string            `json:"language,omitempty"`
	Cwd      string            `json:"cwd,omitempty"`
	Session  string            `json:"session,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`

	Created    string `json:"created"`
	Started    string `json:"started,omitempty"`
	Ended      string `json:"ended,omitempty"`
	DurationMS *int64 `json:"duration_ms,omitempty"`

	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	// OutputTruncated: the command wrote more than is kept.
	OutputTruncated bool `json:"output_truncated,omitempty"`
	// KilledProcesses still ran when the command had ended; KilledCommands are what the first of them ran.
	KilledProcesses int      `json:"killed_processes,omitempty"`
	KilledCommands  []string `json:"killed_commands,omitempty"`
}

func statusOf(x *execution.Execution) runStatus {
	return runStatus{
		ID: x.ID, Status: x.Status, Outcome: string(x.Outcome), ExitCode: x.ExitCode, Signal: x.Signal,
		Error: x.Error, Limit: x.Limit,
		Command: x.Command, Argv: x.Argv, Language: x.Language, Cwd: x.Cwd, Session: x.Session, Labels: x.Labels,
		Created: text(x.Created), Started: text(x.Started), Ended: text(x.Ended), DurationMS: x.DurationMS,
		StdoutBytes: x.Bytes.Stdout, StderrBytes: x.Bytes.Stderr, OutputTruncated: x.OutputTruncated,
		KilledProcesses: x.KilledProcesses, KilledCommands: x.KilledCommands,
	}
}

// outcomeOf is statusOf without the fields that the caller has sent itself.
func outcomeOf(x *execution.Execution) runStatus {
	st := statusOf(x)
	st.Command, st.Argv, st.Language, st.Session, st.Labels = "", nil, "", "", nil
	return st
}

// timeFormat is RFC 3339 with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

func text(t execution.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeFormat)
}

// sentence says in a few words how a run is.
func (st *runStatus) sentence() string {
	took, where := "", ""
	if st.DurationMS != nil {
		took = fmt.Sprintf(" after %v", time.Duration(*st.DurationMS)*time.Millisecond)
	}
	if st.Cwd != "" {
		where = " in " + st.Cwd
	}
	switch execution.Outcome(st.Outcome) {
	case "":
		return "execution " + st.ID + " is " + st.Status + where
	case execution.Exited:
		return fmt.Sprintf("execution %s exited with code %d%s%s", st.ID, deref(st.ExitCode), took, where)
	case execution.Signaled:
		return fmt.Sprintf("execution %s was killed by SIG%s%s%s", st.ID, deref(st.Signal), took, where)
	case execution.LimitExceeded:
		return fmt.Sprintf("execution %s was ended, for it has exceeded %s%s", st.ID, st.Limit, took)
	case execution.FailedToStart:
		return fmt.Sprintf("execution %s could not be started: %s", st.ID, st.Error)
	case execution.Lost:
		return fmt.Sprintf("execution %s was lost with its server: %s", st.ID, st.Error)
	}
	return fmt.Sprintf("execution %s has ended: %s%s%s", st.ID, st.Outcome, took, where)
}

// killedNote says which background processes were ended with a run, or is "". commands are the command lines of the
// first ones.
func killedNote(processes int, commands []string) string {
	if processes == 0 {
		return ""
	}
	what := "1 background process was"
	if processes > 1 {
		what = fmt.Sprintf("%d background processes were", processes)
	}
	if processes > len(commands) {
		commands = append(slices.Clone(commands), "...")
	}
	return fmt.Sprintf("[%s ended with it: %s; execute_code_async runs one by itself]\n", what,
		strings.Join(commands, "; "))
}

// shownCommand is how much of a command a line about a run has.
const shownCommand = 80

// line is a sentence about a run that distinguishes it from others: what it runs, its session and its labels.
func (st *runStatus) line() string {
	what := st.Command
	if what == "" {
		what = strings.Join(st.Argv, " ")
	}
	if what == "" {
		what = st.Language + " code"
	}
	what = strings.Join(strings.Fields(what), " ")
	if len(what) > shownCommand {
		what = what[:shownCommand-cutRune([]byte(what[:shownCommand]))] + "..."
	}
	said := st.sentence() + ": " + what
	if st.Session != "" {
		said += "; session " + st.Session
	}
	for _, name := range slices.Sorted(maps.Keys(st.Labels)) {
		said += fmt.Sprintf("; label %s=%s", name, st.Labels[name])
	}
	return said
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// isBad reports whether the run could not be started, or its outcome is unknown.
func (st *runStatus) isBad() bool {
	return st.Outcome == string(execution.FailedToStart) || st.Outcome == string(execution.Lost)
}

// position is where get_execution_output reads from.
func position(cursor, lastEventID string) (reprise.Position, error) {
	if cursor != "" && lastEventID != "" && cursor != lastEventID {
		return reprise.Position{},
			&execution.FieldError{Field: "last_event_id", Reason: "cursor is given too, and another one"}
	}
	if cursor == "" {
		cursor = lastEventID
	}
	return reprise.ParsePosition(cursor)
}
