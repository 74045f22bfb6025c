package gateway

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"reprise"
	"reprise/internal/gateway/credential"
	"reprise/internal/spawn"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
)

// Upstream is an MCP server behind a Gateway. One of Command, URL and Merge is set.
type Upstream struct {
	// Name names the upstream in logs and metrics. Default: "upstream".
	Name string
	// Command is a program with its arguments, which speaks MCP over its stdin and stdout. The program is looked for
	// in the PATH that it will have.
	Command []string
	// Dir is the working directory of Command. Default: this process's.
	Dir string
	// Env are variables of Command in addition to those that it inherits: PATH, HOME, USER, LOGNAME, SHELL, LANG,
	// LANGUAGE, TZ, TMPDIR, those that begin with LC_, and those that PassEnv names. The values are templates that may
	// refer to the caller, as in Header; see package credential.
	Env     map[string]string
	PassEnv []string
	// URL is the http or https URL of an endpoint of Streamable HTTP.
	URL string
	// Merge are upstreams that are served as one, each with its Name as the prefix of its tools and prompts (name_tool)
	// and of the URIs of its resources (name+uri). An unavailable member does not affect the others; see package merge.
	// A Name is 1 to 32 letters, digits and "-", and begins with a letter. In addition, a member may set the fields for
	// Command and URL, and no others. KeepsState must not be set.
	Merge []Upstream
	// Tools are patterns of path.Match of the tools that are offered, as UPSTREAM/TOOL, where UPSTREAM is the Name of
	// the member or else of the upstream, or as TOOL for all of them. A tool that matches a pattern after "!" is not
	// offered. If there are patterns without "!", a tool must match one of them. The others are left out of lists, and
	// their calls are refused. Default: all are offered.
	Tools []string
	// MaxToolsBytes bounds the list of tools, as JSON. If the tools need more, the members whose tools do not fit are
	// left out, or the only upstream, and the gateway offers the tools search_tools and call_tool for them. A tool
	// that is not listed can be called by its name. Default: no bound.
	MaxToolsBytes int64
	// Header is sent with each request to URL, for example Authorization. Of the headers of clients, only Mcp-Param-*
	// are passed on, on version 2026-07-28. The values are templates that may refer to the caller; see package
	// credential.
	Header map[string]string
	// Shared makes all sessions use one connection. The gateway declares no capabilities to the upstream, because the
	// upstream could not name the client of a request. Log messages of the upstream are dropped, except those that an
	// upstream at a URL sends in the answer to a request. A log level set by a client is not passed on. No template may
	// refer to the caller.
	Shared bool
	// KeepsState is true if a new connection cannot replace one that has ended. Later requests of the session are
	// refused with an error whose data contain "upstream_lost", until the client begins a new session.
	KeepsState bool
	// Timeout limits how long the upstream may be silent about a request. After it the request is cancelled and
	// answered with an error. Default: no limit.
	Timeout time.Duration
	// StartTimeout limits the initialization of a new connection. Default: 30 s.
	StartTimeout time.Duration
	// MaxConnections is the most connections at a time. If there are as many, a new one takes the place of the
	// session's connection that was unused the longest, if that is at least Idle and KeepsState is not set; else it
	// is refused. Default: 100.
	MaxConnections int
	// MaxCalls is the most requests of one connection without a response. Default: 1,000.
	MaxCalls int
	// Idle is how long an unused connection of clients without sessions is kept; see also MaxConnections. Default: 5
	// minutes.
	Idle time.Duration
}

// Options are the settings of a Gateway. The zero value of each field means its default.
type Options struct {
	// Mark is set in the environment of each process, as REPRISE_GATEWAY=<Mark>/<random>, so that KillMarked finds
	// orphaned processes. It must be unique to this Gateway's process on this machine. Default: random.
	Mark string
	// Tasks, if not nil, makes tasks of the tool calls of version 2026-07-28 that take longer than TaskAfter, if the
	// client has declared the Tasks extension and the upstream has no tasks itself. No other Gateway may
	// use it, and it must be closed before the Gateway.
	Tasks *mcptask.Tasks
	// TaskAfter is the time after which such a call becomes a task. Default: 5 s.
	TaskAfter time.Duration
	// Admit is called for each exchange with requests before anything is sent. An error refuses the requests and is
	// answered with its code, see package problem. release is called once when the requests are answered and, if one
	// has become a task, its call has ended. Default: all are admitted.
	Admit func(x *mcphttp.Exchange) (release func(), err error)
	// Claims returns the claims of the token in a request of a principal. Default: none.
	Claims func(r *http.Request, tenant reprise.Tenant, principal string) map[string]string
	// Secrets reads the secrets of principals. Default: none.
	Secrets credential.Secrets
	// Logger gets errors, and what upstreams write to stderr. Default: silent.
	Logger *slog.Logger
	// Hooks are called at events in the life of connections and calls. Default: none.
	Hooks *Hooks
}

// Hooks are called by the goroutine that serves, so they must be quick. Each may be nil. upstream is Upstream.Name.
type Hooks struct {
	// Connected is called when a connection was opened, and Disconnected when one has ended. lost is true if the
	// Gateway has not ended it. For the connection to one of merged upstreams, "/" and its Name follow, and Connected
	// is called when it was initialized.
	Connected    func(upstream string)
	Disconnected func(upstream string, lost bool)
	// Called is called when a request was answered. If it was for one of merged upstreams, "/" and its Name follow.
	Called func(upstream string, result CallResult, took time.Duration)
	// Garbage is called for each line or answer of an upstream that is not a message.
	Garbage func(upstream string)
}

// CallResult is how a request of a client was answered.
type CallResult string

// The results of a request.
const (
	// Answered: with a result or an error of the upstream.
	Answered CallResult = "answered"
	// Lost: the upstream ended before it had answered.
	Lost CallResult = "lost"
	// TimedOut: the upstream said nothing for Upstream.Timeout.
	TimedOut CallResult = "timed_out"
	// Cancelled: the client has cancelled the request or disconnected.
	Cancelled CallResult = "cancelled"
	// Refused: the request was not sent.
	Refused CallResult = "refused"
)

func (u *Upstream) withDefaults() Upstream {
	d := *u
	d.Name = cmp.Or(d.Name, "upstream")
	d.StartTimeout = cmp.Or(d.StartTimeout, 30*time.Second)
	d.MaxConnections = cmp.Or(d.MaxConnections, 100)
	d.MaxCalls = cmp.Or(d.MaxCalls, 1000)
	d.Idle = cmp.Or(d.Idle, 5*time.Minute)
	return d
}

// templates returns the templates of the upstream, or of each merged upstream.
func (u *Upstream) templates() (set credential.Set, err error) {
	members := u.Merge
	if len(members) == 0 {
		members = []Upstream{*u}
	}
	for i := range members {
		t, err := credential.New(credential.Texts{Header: members[i].Header, Env: members[i].Env})
		if err != nil && len(u.Merge) > 0 {
			err = fmt.Errorf("%s: %w", members[i].Name, err)
		}
		if err != nil {
			return nil, err
		}
		set = append(set, t)
	}
	return set, nil
}

// Claims are the names of the claims that the templates of u refer to. u is valid.
func (u *Upstream) Claims() (names []string) {
	templates, _ := u.templates()
	for _, t := range templates {
		names = append(names, t.Claims()...)
	}
	return names
}

func (u *Upstream) validate() error {
	what := u.invalidTransport()
	templates, err := u.templates()
	switch {
	case what != "":
	case err != nil:
		what = err.Error()
	case u.Shared && templates.Refer():
		what = "what is shared by all is called with nothing of who calls"
	case u.invalidTools() != "":
		what = u.invalidTools()
	case len(u.Merge) > 0 && u.KeepsState:
		what = "upstreams that are merged cannot keep state"
	case u.Dir != "" && !filepath.IsAbs(u.Dir):
		what = fmt.Sprintf("the directory %q is not absolute", u.Dir)
	case min(u.Timeout, u.StartTimeout, u.Idle) < 0 || min(u.MaxConnections, u.MaxCalls) < 0:
		what = "a negative time or number"
	default:
		return nil
	}
	return fmt.Errorf("%w: upstream %s: %s", reprise.ErrInvalid, u.Name, what)
}

// invalidTransport returns the error in Command, URL and their fields, or "" if they are valid.
func (u *Upstream) invalidTransport() string {
	hasCommand, hasURL := len(u.Command) > 0, u.URL != ""
	switch {
	case len(u.Merge) > 0:
		return u.invalidMerge()
	case !hasCommand && !hasURL:
		return "neither a command nor a URL"
	case hasCommand && hasURL:
		return "both a command and a URL"
	case hasURL:
		return u.invalidURL()
	case u.Command[0] == "":
		return "the command is empty"
	case len(u.Header) > 0:
		return "a command has no headers"
	}
	if wrong := spawn.InvalidName(u.PassEnv); wrong != "" {
		return "pass_env " + wrong
	}
	return ""
}

// memberNames matches the names of upstreams that are merged, which begin the scheme of a URI and the name of a tool.
var memberNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,31}$`)
})

// invalidMerge returns the error in the merged upstreams, or "" if they are valid.
func (u *Upstream) invalidMerge() string {
	if len(u.Command) > 0 || u.URL != "" || u.Dir != "" || len(u.Env)+len(u.PassEnv)+len(u.Header) > 0 {
		return "what is merged has its command or URL, and what belongs to those, itself"
	}
	taken := map[string]bool{}
	for i := range u.Merge {
		m := &u.Merge[i]
		switch what := m.invalidTransport(); {
		case !memberNames().MatchString(m.Name):
			return fmt.Sprintf(
				"the name %q of a member is not 1 to 32 letters, digits and '-' that begin with a letter", m.Name,
			)
		case taken[m.Name]:
			return "two members are called " + m.Name
		case len(m.Merge) > 0:
			return m.Name + ": what is merged cannot merge others"
		case what != "":
			return m.Name + ": " + what
		case m.Dir != "" && !filepath.IsAbs(m.Dir):
			return fmt.Sprintf("%s: the directory %q is not absolute", m.Name, m.Dir)
		}
		taken[m.Name] = true
	}
	return ""
}

// invalidURL returns the error in an upstream at a URL, or "" if it is valid.
func (u *Upstream) invalidURL() string {
	if u.Dir != "" || len(u.Env) > 0 || len(u.PassEnv) > 0 {
		return "a URL has no directory and no variables"
	}
	at, err := url.Parse(u.URL)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return fmt.Sprintf("%q is not an http or https URL", u.URL)
	}
	return ""
}
