package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/wire"
)

// StartRequest describes one run of a command. It is the body of POST /v1/executions. Exactly one of Argv, Command and
// Language (with Code) is required.
type StartRequest struct {
	// ID is the id of the execution: 1 to 128 bytes of letters, digits, '.', '_' and '-'.
	// An equal request with the same ID attaches to the existing execution; a different
	// request is refused with reprise.ErrConflict. If ID, IdempotencyKey and Key are empty, the
	// client makes an unguessable ID.
	ID string `json:"id,omitempty"`
	// IdempotencyKey is sent as the header of that name. If there is an ID, the key is part of
	// the request; otherwise the server derives the id from the key.
	IdempotencyKey string `json:"-"`
	// Key, in place of an ID, makes the start resumable. While the execution of the key runs, and while it is kept
	// after exit code 0, an equal request attaches to it. After any other end, the request starts the command again, as
	// another execution. A different request with the same key is refused with reprise.ErrConflict. 1 to 255 bytes.
	Key string `json:"key,omitempty"`
	// TraceParent and TraceState are sent as the headers traceparent and tracestate of the W3C Trace Context. The
	// command finds them in TRACEPARENT and TRACESTATE, unless Env sets those. They are not part of the request, so it
	// may be repeated with other values.
	TraceParent string `json:"-"`
	TraceState  string `json:"-"`
	// Session groups executions.
	Session string `json:"session,omitempty"`

	// Argv is the program and its arguments. A program without a slash is looked up in the PATH that the command gets.
	Argv []string `json:"argv,omitempty"`
	// Command is run by the Shell with "-c": "sh", the default, or "bash".
	Command string `json:"command,omitempty"`
	Shell   string `json:"shell,omitempty"`
	// Language names an interpreter, for example "python", that runs Code.
	Language string `json:"language,omitempty"`
	Code     string `json:"code,omitempty"`
	// Interpreter is the id of an interpreter that runs Code in place of a Language. The code sees earlier
	// declarations, and has the session, directory, environment, limits and isolation of the interpreter. Clear, in
	// place of Code, deletes all declarations.
	Interpreter string `json:"interpreter,omitempty"`
	Clear       bool   `json:"clear,omitempty"`

	// Cwd is the working directory, relative to the directory of the server's commands.
	Cwd string `json:"cwd,omitempty"`
	// Env is added to the few variables that every command gets.
	Env map[string]string `json:"env,omitempty"`
	// Secrets are further variables, with the names of secrets that the server has for the tenant. Only the command
	// gets the values. An unknown name is refused with reprise.ErrInvalid. With MaskSecrets the server replaces the
	// values in the output by "***".
	Secrets     map[string]string `json:"secrets,omitempty"`
	MaskSecrets bool              `json:"mask_secrets,omitempty"`

	// Stdin is the input of the command, StdinBase64 the same for arbitrary bytes; at most
	// one of them. StdinOpen keeps stdin open for Client.WriteStdin.
	Stdin       *string `json:"stdin,omitempty"`
	StdinBase64 []byte  `json:"stdin_base64,omitempty"`
	StdinOpen   bool    `json:"stdin_open,omitempty"`
	// TTY runs the command in a terminal. All its output is on the channel "stdout".
	TTY *TTY `json:"tty,omitempty"`

	// Timeout ends the run; Grace is the time between TERM and KILL, at most 1 min. 0 is the server's default.
	Timeout Duration `json:"timeout,omitzero"`
	Grace   Duration `json:"grace,omitzero"`
	// Hold makes Client.Run hold the output back while the caller is behind, so that the caller does not lose output
	// that the server no longer keeps. The server stops waiting for a caller that reads nothing for this long, at most
	// 5 min. Hold is not part of the request that an ID stands for. Client.Start ignores it, as does
	// Client.Run where it does not know the id.
	Hold Duration `json:"-"`
	// KillOnDisconnect cancels the run some time after its last follower has disconnected. Only followers with the
	// scope "control" for its session and the scopes of the principal that has started it count, and no tickets.
	KillOnDisconnect bool `json:"kill_on_disconnect,omitempty"`

	// Artifacts are paths below Cwd of files to keep with the execution when it has ended. They may have the wildcards
	// of path.Match. A directory means all files below it. Symbolic links are not followed.
	Artifacts []string `json:"artifacts,omitempty"`
	// Labels are for finding executions: at most 60 of them, keys of 1 to 63 bytes, values of at most 256.
	Labels    map[string]string `json:"labels,omitempty"`
	Limits    Limits            `json:"limits,omitzero"`
	Retention Retention         `json:"retention,omitzero"`
	// Isolation is a level; "" means the server's default. Access sets further permissions of the command.
	Isolation string `json:"isolation,omitempty"`
	Access    Access `json:"access,omitzero"`
	// User is the user of the server's machine that the command runs as, by name or number. It needs the scope "admin"
	// and a server that is root. Default: the server's choice.
	User string `json:"user,omitempty"`
}

// Access restricts a command at every level of isolation except "none". Zero values mean the server's defaults.
type Access struct {
	// Network is "on", or "off" for only a loopback interface of its own.
	Network string `json:"network,omitempty"`
	// Writable are directories below which the command may write at the levels "landlock" and "bubblewrap", in addition
	// to its working directory and the temporary directory.
	Writable []string `json:"writable,omitempty"`
	// Readable are files and directories that the command may read at the levels "landlock" and "bubblewrap", in
	// addition to the system's and the writable ones.
	Readable []string `json:"readable,omitempty"`
	// Hidden are paths that the command cannot reach.
	Hidden []string `json:"hidden,omitempty"`
}

// TTY is the size of a terminal in characters, each 1 to 65535; 0 stands for 80 and 24.
type TTY struct {
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
}

// Limits limit the resources of a run; 0 means no limit. A run that exceeds one is killed and ends as LimitExceeded.
// A server that is not on Linux refuses all except OutputBytes.
type Limits struct {
	// OutputBytes applies to both channels together. Output beyond it is not kept.
	OutputBytes int64 `json:"output_bytes,omitempty"`
	// MemoryBytes is the resident memory of all processes of the run.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// Processes is the maximum number of processes at a time.
	Processes int64 `json:"processes,omitempty"`
	// CPUTime is the time of all processes of the run, in user and system mode.
	CPUTime Duration `json:"cpu_time,omitzero"`
}

// Retention limits how much of a stream is kept; 0 means the server's default. MaxAge
// counts from the end.
type Retention struct {
	MaxEvents int64    `json:"max_events,omitempty"`
	MaxBytes  int64    `json:"max_bytes,omitempty"`
	MaxAge    Duration `json:"max_age,omitzero"`
	// MaxIdle is how long the stream may be open without new events. Then the server ends it with the outcome "failed"
	// and data whose code is "idle". It is refused for executions, which end by themselves.
	MaxIdle Duration `json:"max_idle,omitzero"`
	// MaxAgeEach is how old an event may become while the stream is open. Older events are removed with the next sweep.
	MaxAgeEach Duration `json:"max_age_each,omitzero"`
}

// Duration is written as a string such as "1m30s".
type Duration time.Duration

// MarshalText is the inverse of UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText parses a duration like time.ParseDuration. The error wraps reprise.ErrInvalid.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%w: %q is not a duration such as \"90s\"", reprise.ErrInvalid, text)
	}
	*d = Duration(v)
	return nil
}

// The statuses of an execution, and the outcomes of one that has ended.
const (
	StatusQueued  = "queued"
	StatusRunning = "running"
	StatusEnded   = "ended"

	Exited        = "exited"
	Signaled      = "signaled"
	TimedOut      = "timed_out"
	Cancelled     = "cancelled"
	LimitExceeded = "limit_exceeded"
	FailedToStart = "failed_to_start"
	Lost          = "lost"
)

// Execution is one run of a command as the server shows it.
type Execution struct {
	ID      string `json:"id"`
	Session string `json:"session,omitempty"`
	// Key is the key of the request. A later execution may have the key by now.
	Key    string `json:"key,omitempty"`
	Status string `json:"status"`
	// Expired: it has ended, and the server remembers only how and when. ExpiredAt is when the output expired, and zero
	// if the output was removed before, to make room.
	Expired   bool `json:"expired,omitempty"`
	ExpiredAt Time `json:"expired_at,omitzero"`
	// Waiting is "storage" while the output of a running command waits until there is room for it, since WaitingSince.
	Waiting      string `json:"waiting,omitempty"`
	WaitingSince Time   `json:"waiting_since,omitzero"`
	// Outcome is "" until the end. ExitCode and Signal, a name without SIG, are nil until then, and if the process did
	// not end that way.
	Outcome  Outcome `json:"outcome"`
	ExitCode *int    `json:"exit_code"`
	Signal   *string `json:"signal"`
	// Error is why a run did not start, was lost, or was ended by the server, and Limit which limit it has exceeded,
	// for example "memory_bytes".
	Error string `json:"error,omitempty"`
	Limit string `json:"limit,omitempty"`
	// OutputTruncated: the command wrote output that is not in the stream.
	OutputTruncated bool `json:"output_truncated,omitempty"`
	// ProcessesLeft: the owner of its processes was killed, and some of the processes may still run.
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

	Created Time `json:"created"`
	// Started and Ended are zero until then. DurationMS is from the start of the process to its end.
	Started    Time       `json:"started"`
	Ended      Time       `json:"ended"`
	DurationMS *int64     `json:"duration_ms"`
	Window     Window     `json:"window,omitzero"`
	Usage      *Usage     `json:"usage"`
	Bytes      Bytes      `json:"bytes"`
	Isolation  *Isolation `json:"isolation"`
	// Artifacts are the kept files of the execution. ArtifactNotes name each omitted file and the reason.
	Artifacts     []Artifact `json:"artifacts,omitempty"`
	ArtifactNotes []string   `json:"artifact_notes,omitempty"`

	// Raw is the object as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// Window contains the cursors of the kept events: Earliest is just before
// the first, Tail just after the last.
type Window struct {
	Earliest string `json:"earliest"`
	Tail     string `json:"tail"`
}

// The parts of an Execution. An Outcome is "" until the end.
type (
	Outcome   = wire.Outcome
	Usage     = wire.Usage
	Bytes     = wire.Bytes
	Isolation = wire.Isolation
	Layers    = wire.Layers
	Artifact  = wire.Artifact
)

// Start starts an execution. It retries after a lost connection, and the
// command still runs once, because every start carries an id. The errors come from the
// server, including reprise.ErrConflict.
//
// A server remembers for a while that an id was used, by default for 30 days after the end. If the output has expired
// by then, the answer has Execution.Expired, and the command does not run again.
//
// With a Key, which replaces the id in the request, a retry attaches to the execution of the lost answer. If that has
// failed by then, the retry starts the command again.
func (c *Client) Start(ctx context.Context, run StartRequest) (Execution, error) {
	r, _, err := startRequest(run)
	if err != nil {
		return Execution{}, err
	}
	return answer[Execution](ctx, c, r)
}

// startRequest is the same request however often it is sent, with the id that it has, "" with a key of either kind.
func startRequest(run StartRequest) (*request, string, error) {
	if run.ID == "" && run.Key == "" && run.IdempotencyKey == "" {
		run.ID = rand.Text()
	}
	op := "start execution " + cmp.Or(run.ID, run.Key, run.IdempotencyKey)
	r, err := jsonRequest(op, http.MethodPost, "/v1/executions", run)
	if err != nil {
		return nil, "", err
	}
	for name, value := range map[string]string{
		"Idempotency-Key": run.IdempotencyKey, "Traceparent": run.TraceParent, "Tracestate": run.TraceState,
	} {
		if value != "" {
			r.header.Set(name, value)
		}
	}
	return r, run.ID, err
}

// answer is call for an answer of type T.
func answer[T any](ctx context.Context, c *Client, r *request) (T, error) {
	var v T
	err := c.call(ctx, r, &v)
	return v, err
}

// Show returns the state of an execution.
func (c *Client) Show(ctx context.Context, id string) (Execution, error) {
	op := "show execution " + id
	if err := checkName(op, id); err != nil {
		return Execution{}, err
	}
	return answer[Execution](ctx, c, &request{op: op, method: http.MethodGet, path: executionPath(id, "")})
}

// KeptRequest is what the server keeps of the request of an execution.
type KeptRequest struct {
	// Request has no id and no keys.
	Request StartRequest `json:"request"`
	// Missing are the names of the members that are not kept because they may be secrets, or are too long: "stdin" for
	// example, and "env.NAME" for a variable.
	Missing []string `json:"missing"`
}

// ShowRequest returns what the server keeps of the request of an execution, so that it can run again.
func (c *Client) ShowRequest(ctx context.Context, id string) (KeptRequest, error) {
	op := "show the request of execution " + id
	if err := checkName(op, id); err != nil {
		return KeptRequest{}, err
	}
	return answer[KeptRequest](ctx, c, &request{op: op, method: http.MethodGet, path: executionPath(id, "/request")})
}

// Configure changes the retention and the labels of an execution as ConfigureStream does for a stream. The
// request that has started it still finds it.
func (c *Client) Configure(ctx context.Context, id string, change Change) (Execution, error) {
	op := "configure execution " + id
	if err := checkName(op, id); err != nil {
		return Execution{}, err
	}
	r, err := jsonRequest(op, http.MethodPatch, executionPath(id, ""), change)
	if err != nil {
		return Execution{}, err
	}
	return answer[Execution](ctx, c, r)
}

// ExecutionQuery selects a list of executions. The zero value selects the newest hundred.
type ExecutionQuery struct {
	Session string
	Status  string
	// Labels that an execution must have.
	Labels map[string]string
	// Limit is 1 to 1,000; 0 is 100.
	Limit int
	// Cursor is ExecutionList.NextCursor of the page before, "" for the first.
	Cursor string
}

// ExecutionList is one page of executions, newest first.
type ExecutionList struct {
	Executions []Execution `json:"executions"`
	// NextCursor is "" on the last page.
	NextCursor string `json:"next_cursor"`
}

// List returns one page of executions.
func (c *Client) List(ctx context.Context, q ExecutionQuery) (ExecutionList, error) {
	query := listQuery(q.Limit, q.Cursor)
	setText(query, "session", q.Session)
	setText(query, "status", q.Status)
	for _, key := range slices.Sorted(maps.Keys(q.Labels)) {
		query.Add("label", key+"="+q.Labels[key])
	}
	return answer[ExecutionList](ctx, c,
		&request{op: "list executions", method: http.MethodGet, path: "/v1/executions", query: query})
}

func listQuery(limit int, cursor string) url.Values {
	query := url.Values{}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	setText(query, "cursor", cursor)
	return query
}

func setText(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

// Signal sends a signal, for example "INT", to the command. It is not sent again
// once it may have arrived, because two INTs differ from one.
func (c *Client) Signal(ctx context.Context, id, name string) error {
	op := "signal execution " + id
	if err := checkName(op, id); err != nil {
		return err
	}
	r, err := jsonRequest(op, http.MethodPost, executionPath(id, "/signal"), map[string]string{"signal": name})
	if err != nil {
		return err
	}
	r.once = true
	return c.call(ctx, r, nil)
}

// Resize sets the size of the terminal of an execution. If the size changes, the command gets WINCH. Resize retries
// after a lost connection. The error is reprise.ErrConflict if the command has no terminal or was not started
// yet, and reprise.ErrEnded if it has ended.
func (c *Client) Resize(ctx context.Context, id string, size TTY) error {
	op := "resize the terminal of execution " + id
	if err := checkName(op, id); err != nil {
		return err
	}
	r, err := jsonRequest(op, http.MethodPost, executionPath(id, "/resize"), size)
	if err != nil {
		return err
	}
	return c.call(ctx, r, nil)
}

// Screen is the contents of the terminal of an execution.
type Screen struct {
	// Cursor is the position just after the last event that was drawn, for FollowOptions.After.
	Cursor string `json:"cursor"`
	Cols   int    `json:"cols"`
	Rows   int    `json:"rows"`
	// Text is the readable text, one line per row.
	Text string `json:"text"`
	// Paint, written to a terminal of this size, makes it show the same screen, including colours, cursor, alternate
	// screen and modes.
	Paint string `json:"paint"`
}

// Screen draws the output of an execution on a terminal of the given size; 0 means the current size of its own
// terminal. Following after its Cursor continues from that screen without the output before it. The error is
// reprise.ErrConflict if the command has no terminal.
func (c *Client) Screen(ctx context.Context, id string, on TTY) (Screen, error) {
	op := "draw the screen of execution " + id
	if err := checkName(op, id); err != nil {
		return Screen{}, err
	}
	query := url.Values{}
	for name, n := range map[string]int{"cols": on.Cols, "rows": on.Rows} {
		if n != 0 {
			query.Set(name, strconv.Itoa(n))
		}
	}
	return answer[Screen](ctx, c,
		&request{op: op, method: http.MethodGet, path: executionPath(id, "/screen"), query: query})
}

// Cancel ends an execution: TERM, the grace period, then KILL to the whole process tree. It
// does not wait for the end. Cancelling an ended execution does nothing.
func (c *Client) Cancel(ctx context.Context, id string) error {
	op := "cancel execution " + id
	if err := checkName(op, id); err != nil {
		return err
	}
	return c.call(ctx, &request{op: op, method: http.MethodPost, path: executionPath(id, "/cancel")}, nil)
}

// Remove cancels an execution if it runs, and removes it.
func (c *Client) Remove(ctx context.Context, id string) error {
	return c.remove(ctx, "remove execution "+id, id, executionPath(id, ""))
}

// remove deletes the resource at a path. If the resource does not exist, remove succeeds, because an earlier attempt
// whose answer was lost may have deleted it.
func (c *Client) remove(ctx context.Context, op, name, path string) error {
	if err := checkName(op, name); err != nil {
		return err
	}
	return c.call(ctx, &request{op: op, method: http.MethodDelete, path: path}, nil)
}
