package gateway

import (
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"

	"reprise"
	"reprise/mcptask"
)

// Upstream is an MCP server that is not ours. Either Command or URL is set.
type Upstream struct {
	// Name stands in logs and metrics. Default: "upstream".
	Name string
	// Command is a program with its arguments, which speaks MCP over its stdin and stdout. The program is looked
	// for in the PATH that it will have.
	Command []string
	// Dir is the directory in which Command is started. Default: that of this process.
	Dir string
	// Env are variables for Command, beside those of our own environment that it gets: PATH, HOME, USER, LOGNAME, SHELL, LANG,
	// LANGUAGE, TZ, TMPDIR, those that begin with LC_, and those that PassEnv names.
	Env     map[string]string
	PassEnv []string
	// URL is that of an endpoint of Streamable HTTP, "http" or "https".
	URL string
	// Header is sent with each request to URL, for example Authorization. Nothing of the clients' headers is passed on, but
	// for Mcp-Param-* on version 2026-07-28.
	Header map[string]string
	// Shared has all sessions use one connection. The upstream is then told that its clients can do nothing: it cannot ask
	// them, for it could not say whom. Its log messages go to nobody, but for those that an
	// upstream at a URL sends in the answer to a request. A log level set by a client is not passed on.
	Shared bool
	// KeepsState says that a new connection cannot take the place of one that has ended. The requests of a session
	// are refused then, with an error whose data say "upstream_lost", until the client begins a new session.
	KeepsState bool
	// Timeout is how long the upstream may say nothing about a request before that is answered with an error, and cancelled. Default: no
	// bound.
	Timeout time.Duration
	// StartTimeout is how long a new connection may take to be initialized. Default: 30 s.
	StartTimeout time.Duration
	// MaxConnections bounds how many connections there are at a time. Beyond it that of a session gives way that was unused for
	// Idle, unless KeepsState is set, and else new ones are refused. Default: 100.
	MaxConnections int
	// MaxCalls bounds the requests of one connection that have no answer yet. Default: 1,000.
	MaxCalls int
	// Idle is how long a connection is kept that clients without sessions share, while none uses it; see also MaxConnections. Default: 5
	// minutes.
	Idle time.Duration
}

// Options are the settings of a Gateway. The zero value of each field means its default.
type Options struct {
	// Mark is put into the environment of each process, as REPRISE_GATEWAY=<Mark>/<random>, so that KillMarked finds what was
	// left behind. It must be unique to this Gateway's process on this machine. Default: random.
	Mark string
	// Tasks, if not nil, makes tasks of the tool calls of clients of version 2026-07-28 that take longer than TaskAfter, where the client
	// has declared the Tasks extension and the upstream has none of its own. It is for this Gateway alone, and is closed before it.
	Tasks *mcptask.Tasks
	// TaskAfter is how long such a call may take before it becomes a task. Default: 5 s.
	TaskAfter time.Duration
	// Logger is told of what goes wrong, and of what upstreams write to stderr. Default: silent.
	Logger *slog.Logger
	// Hooks are called as things happen.
	Hooks *Hooks
}

// Hooks are called by the goroutine that serves, so they must be quick. Each may be nil. upstream is Upstream.Name.
type Hooks struct {
	// Connected is called when a connection is made, Disconnected when one has ended; lost says that it was not us who ended it.
	Connected    func(upstream string)
	Disconnected func(upstream string, lost bool)
	// Called is called when a request was answered.
	Called func(upstream string, result CallResult, took time.Duration)
	// Garbage is called for each line that was no message.
	Garbage func(upstream string)
}

// CallResult is what came of a request to an upstream.
type CallResult string

// The results of a request.
const (
	// Answered: with a result or an error of the upstream.
	Answered CallResult = "answered"
	// Lost: the upstream ended before it had answered.
	Lost CallResult = "lost"
	// TimedOut: the upstream said nothing for Upstream.Timeout.
	TimedOut CallResult = "timed_out"
	// Cancelled: the client did not want it any more.
	Cancelled CallResult = "cancelled"
	// Refused: it was not sent.
	Refused CallResult = "refused"
)

func (u *Upstream) withDefaults() Upstream {
	d := *u
	orDefault(&d.Name, "upstream")
	orDefault(&d.StartTimeout, 30*time.Second)
	orDefault(&d.MaxConnections, 100)
	orDefault(&d.MaxCalls, 1000)
	orDefault(&d.Idle, 5*time.Minute)
	return d
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (u *Upstream) validate() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: upstream %s: "+format, append([]any{reprise.ErrInvalid, u.Name}, args...)...)
	}
	switch {
	case len(u.Command) == 0 && u.URL == "":
		return invalid("neither a command nor a URL")
	case len(u.Command) > 0 && u.URL != "":
		return invalid("both a command and a URL")
	case len(u.Command) > 0 && u.Command[0] == "":
		return invalid("the command is empty")
	case u.URL != "" && (u.Dir != "" || len(u.Env) > 0 || len(u.PassEnv) > 0):
		return invalid("a URL has no directory and no variables")
	case u.URL == "" && len(u.Header) > 0:
		return invalid("a command has no headers")
	case u.Dir != "" && !filepath.IsAbs(u.Dir):
		return invalid("the directory %q is not absolute", u.Dir)
	case u.Timeout < 0 || u.StartTimeout < 0 || u.Idle < 0 || u.MaxConnections < 0 || u.MaxCalls < 0:
		return invalid("a negative time or number")
	}
	if u.URL != "" {
		if at, err := url.Parse(u.URL); err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
			return invalid("%q is no http or https URL", u.URL)
		}
	}
	return nil
}
