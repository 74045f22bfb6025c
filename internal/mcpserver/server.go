package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/audit"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/mcpguard"
	"reprise/internal/quota"
	"reprise/internal/recent"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
	"reprise/replica"
)

// Options are the settings of a Server. The zero value of each field means its default.
type Options struct {
	// Identify returns the sender of a request: a tenant sees only its own executions, and tasks also belong to the
	// principal. ctx is the handler's. Default: the result of Options.Identify of mcphttp if the server is used
	// through Server.Backend; otherwise reprise.DefaultTenant and the user of the token of the request, or "".
	Identify func(ctx context.Context, req mcp.Request) (tenant reprise.Tenant, principal string, err error)
	// Principal returns the current permissions of the sender that Identify has returned. An error, such as
	// identity.ErrUnauthenticated, refuses the request. Default: everything is permitted.
	Principal func(ctx context.Context, tenant reprise.Tenant, principal string) (identity.Principal, error)
	// Audit records a call of a tool or the reading of a resource, before it has any effect, and refusals. An error
	// refuses the call. Default: none.
	Audit func(ctx context.Context, e audit.Entry, change bool) error
	// Replica is this process among those that share the Store of the Log. Default: it is alone.
	Replica *replica.Member
	// Name and Version identify the server to clients. Defaults: "reprise" and "".
	Name, Version string
	// Directory is the absolute path of the directory in which a run works that names no other, and below which
	// relative ones lie. DirectoryHeader of a request takes precedence, and the first root of the client over both.
	// Default: the directory of the Host.
	Directory string
	// MaxBytes is how much output a call shows by default. Default: 30,000.
	MaxBytes int
	// CallGrace is how long the run of an execute_code goes on whose call was cut off on version 2026-07-28, which does
	// not tell a cut from a cancellation. The next answer to the same sender names the run, which then stays.
	// Default: the run is cancelled at once.
	CallGrace time.Duration
	// TaskAfter is the time after which a call of execute_code becomes a task, for clients that support tasks. Default:
	// 2 s.
	TaskAfter time.Duration
	// ProgressEvery is the time between two progress notifications. Default: 1 s.
	ProgressEvery time.Duration
	// MaxResource is the longest output that is read as a resource, in bytes. Default: 4 MiB.
	MaxResource int64
	// Tasks are further settings of tasks; Identify, Replica and Logger are taken from here. Default: theirs.
	Tasks *mcptask.Options
	// Logger logs errors. Default: silent.
	Logger *slog.Logger

	quiet       time.Duration // see defaultQuiet
	rootsWithin time.Duration // see defaultRootsWithin
}

// Server is an MCP server for an execution.Host. It is safe for concurrent use.
type Server struct {
	log   *reprise.Log
	host  *execution.Host
	opts  Options
	tasks *mcptask.Tasks
	mcp   *mcp.Server

	// schemas are the schemas of the arguments of each tool.
	schemas map[string]*jsonschema.Schema

	opening sync.Mutex // of interpreters

	matching *quota.Places               // in which output is searched for patterns
	shown    recent.Map[shownTo, string] // the cursors of the newest answers
	roots    recent.Map[aClient, string]
	cuts     cuts
	shell    string // of commands: bash, for which models write, or sh on a machine without it
}

const instructions = `Runs commands and code, and keeps their output. A run goes on when the connection breaks, and when execute_code answers before its end. ` +
	`Then get_execution_output with the cursor of the answer and until "end" waits for the rest; until "match" waits for a prompt or a message. ` +
	`Output that is left out with a note can be read with the cursor in the note.`

// New returns a Server over host, whose executions are kept in log. Close the Server before both. The error is
// reprise.ErrInvalid for invalid options. opts may be nil.
func New(log *reprise.Log, host *execution.Host, opts *Options) (*Server, error) {
	s := &Server{log: log, host: host, opts: opts.withDefaults(), schemas: map[string]*jsonschema.Schema{}}
	s.shell = "sh"
	if _, err := exec.LookPath("bash"); err == nil {
		s.shell = "bash"
	}
	s.matching = quota.NewPlaces(max(1, runtime.GOMAXPROCS(0)/2))
	if s.opts.MaxBytes < minBytes || s.opts.MaxBytes > maxBytes || s.opts.TaskAfter < 0 || s.opts.ProgressEvery < 0 ||
		s.opts.MaxResource < 0 || s.opts.CallGrace < 0 {
		return nil, fmt.Errorf("mcpserver: %w: a time or a size", reprise.ErrInvalid)
	}
	var tasks mcptask.Options
	if s.opts.Tasks != nil {
		tasks = *s.opts.Tasks
	}
	tasks.Identify, tasks.Replica, tasks.Logger = s.opts.Identify, s.opts.Replica, s.opts.Logger
	if tasks.Name == "" {
		tasks.Name = "executions"
	}
	var err error
	if s.tasks, err = mcptask.New(log, &tasks); err != nil {
		return nil, err
	}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: s.opts.Name, Title: "Reprise", Version: s.opts.Version},
		&mcp.ServerOptions{
			Instructions: instructions, Logger: mcpguard.Quiet(s.opts.Logger),
			Capabilities: &mcp.ServerCapabilities{
				Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}, // which do not change
			},
			//lint:ignore SA1019 the versions before 2026-07-28 have roots
			RootsListChangedHandler: func(_ context.Context, req *mcp.RootsListChangedRequest) {
				s.roots.Store(clientOf(req.Session), unknownRoot)
			},
			// what a tenant has run belongs to it alone
			SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
		})
	s.mcp.AddReceivingMiddleware(mcpguard.Panics(s.opts.Logger), offered, codes, s.checkArguments, s.tellCuts)
	s.addTools()
	s.addResources()
	s.tasks.Support(toolExecute, mcptask.Tool{After: s.opts.TaskAfter, Resume: s.resume})
	return s, s.tasks.Install(s.mcp)
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Identify == nil {
		d.Identify = mcptask.Identify
	}
	if d.Principal == nil {
		d.Principal = func(_ context.Context, tenant reprise.Tenant, name string) (identity.Principal, error) {
			return identity.Principal{Name: name, Tenant: tenant, Grants: identity.AllGrants()}, nil
		}
	}
	if d.Audit == nil {
		d.Audit = func(context.Context, audit.Entry, bool) error { return nil }
	}
	if d.Name == "" {
		d.Name = "reprise"
	}
	if d.MaxBytes == 0 {
		d.MaxBytes = 30_000
	}
	if d.TaskAfter == 0 {
		d.TaskAfter = 2 * time.Second
	}
	if d.ProgressEvery == 0 {
		d.ProgressEvery = time.Second
	}
	if d.quiet == 0 {
		d.quiet = defaultQuiet
	}
	if d.rootsWithin == 0 {
		d.rootsWithin = defaultRootsWithin
	}
	if d.MaxResource == 0 {
		d.MaxResource = 4 << 20
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// MCP is the server of the SDK, to which further tools may be added.
func (s *Server) MCP() *mcp.Server { return s.mcp }

// Tasks returns the tasks of the server.
func (s *Server) Tasks() *mcptask.Tasks { return s.tasks }

// Backend is what mcphttp.New takes to serve it.
func (s *Server) Backend() mcphttp.Backend {
	return mcptask.Backend(mcphttp.Server(func(*http.Request) *mcp.Server { return s.mcp }))
}

// Run serves one client on a transport, such as mcp.StdioTransport, until that goes or ctx is done.
func (s *Server) Run(ctx context.Context, transport mcp.Transport) error {
	err := s.mcp.Run(ctx, s.tasks.Transport(transport))
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// Close ends the waits of calls; executions continue. Closing again does nothing.
func (s *Server) Close() error {
	err := s.tasks.Close()
	s.cuts.close()
	return err
}
