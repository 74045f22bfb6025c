package mcptask

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/replica"
)

// Options are the settings of Tasks. The zero value of each field means its default.
type Options struct {
	// Identify returns the tenant and the principal of a request; only they can find its tasks. ctx is the context of
	// the handler. Default: the result of Options.Identify of mcphttp if the server is behind Backend, and otherwise
	// reprise.DefaultTenant and the user of the token of the request, or "".
	Identify func(ctx context.Context, req mcp.Request) (tenant reprise.Tenant, principal string, err error)
	// Life returns a context that ends when a principal is permanently excluded, such as when its API key is revoked.
	// The tasks of the principal that run in this process are then cancelled, and those that it resumes later. ctx of
	// a handler ends with a cause that wraps ErrCancelled and the cause of the context. It must not block. Default:
	// principals are never excluded.
	Life func(tenant reprise.Tenant, principal string) context.Context
	// Name separates servers whose tasks share a Log: 0 to 32 bytes of letters, digits, '.', '_' and '-'.
	// Default: "".
	Name string
	// Replica is this process among those that share the Store of the Log. Default: no other process does.
	Replica *replica.Member
	// Keep is how long a task is kept after its end. Default: 1 hour.
	Keep time.Duration
	// Poll is how long clients are asked to wait before they poll again, in whole milliseconds. Default: 1 s.
	Poll time.Duration
	// MaxRunning is the maximum number of tasks that this process runs at a time. A call beyond it is answered with its
	// result, or with an error if it must be a task. Default: 10,000.
	MaxRunning int
	// Logger receives errors. Default: silent.
	Logger *slog.Logger
	// Hooks are called on the events that they name.
	Hooks *Hooks
}

// Hooks are called by the goroutine that does the work, so they must be quick. Each may be nil.
type Hooks struct {
	// Created is called for each task that this process has made.
	Created func(tenant reprise.Tenant)
	// Ended is called for each task that this process has ended.
	Ended func(tenant reprise.Tenant, status Status)
	// Lost is called when this process has ended a task whose server had died and that could not be resumed.
	Lost func(tenant reprise.Tenant)
}

// Tool says how the calls of a tool become tasks, for clients that have declared the extension.
type Tool struct {
	// After is how long a call may take before it becomes a task. 0: the call becomes a task before the handler is
	// called. Negative: the call becomes a task when the handler calls Begin.
	After time.Duration
	// Required refuses clients that have not declared the extension.
	Required bool
	// Resume continues a task whose server has died or was closed, in place of the handler: what it returns is the
	// result of the call. It suits work that outlives the server, and handlers that can be repeated. note is the last
	// value of Note, or nil. As for a handler, FromContext returns the task, tasks/cancel ends ctx, and it may take as
	// long as it has to. One replica at a time calls it; if that one dies too, the next does. If it returns neither a
	// result nor an error, the task has failed with server_lost. Default: a task whose server has died has failed.
	Resume func(ctx context.Context, tenant reprise.Tenant, note json.RawMessage) (*mcp.CallToolResult, error)
}

// Tasks manages the tasks of one or several servers. It is safe for concurrent use.
type Tasks struct {
	log       *reprise.Log
	opts      Options
	name      string // of this process among all that there were, where it is alone
	namespace string

	// running ends when Close is called: it is the life of handlers. storing ends when Close returns.
	running, storing       context.Context
	endRunning, endStoring context.CancelCauseFunc
	stopWatch              func()
	left                   chan struct{} // told when a replica has gone
	attending              sync.Once
	work                   sync.WaitGroup

	outlets sync.Map // heard, by the token in a request; see Transport

	mu     sync.Mutex
	closed bool
	tools  map[string]Tool
	tasks  map[string]*Task // those that run here, by id
}

// New returns Tasks that are stored in log. It must be closed before log. The error is reprise.ErrInvalid for invalid
// options.
func New(log *reprise.Log, opts *Options) (*Tasks, error) {
	t := &Tasks{
		log: log, opts: opts.withDefaults(), name: "alone-" + rand.Text(), namespace: "mcp-task:",
		tools: map[string]Tool{}, tasks: map[string]*Task{},
	}
	if t.opts.Name != "" {
		t.namespace = "mcp-task." + t.opts.Name + ":"
	}
	if err := t.key(reprise.DefaultTenant, "x").Validate(); err != nil || len(t.opts.Name) > 32 {
		return nil, fmt.Errorf("mcptask: %w: the name %q", reprise.ErrInvalid, t.opts.Name)
	}
	if t.opts.Keep < 0 || t.opts.Poll < 0 || t.opts.MaxRunning < 0 {
		return nil, fmt.Errorf("mcptask: %w: a negative time or number", reprise.ErrInvalid)
	}
	t.running, t.endRunning = context.WithCancelCause(context.Background())
	t.storing, t.endStoring = context.WithCancelCause(context.Background())
	t.left = make(chan struct{}, 1)
	t.stopWatch = t.watch()
	return t, nil
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Identify == nil {
		d.Identify = Identify
	}
	if d.Life == nil {
		d.Life = func(reprise.Tenant, string) context.Context { return context.Background() }
	}
	if d.Keep == 0 {
		d.Keep = time.Hour
	}
	if d.Poll == 0 {
		d.Poll = time.Second
	}
	if d.MaxRunning == 0 {
		d.MaxRunning = 10_000
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Hooks == nil {
		d.Hooks = &Hooks{}
	}
	return d
}

// Support declares that calls of the named tool may become tasks. It may be called at any time, and replaces an earlier
// declaration. The name "" declares Tool.Resume for the tools that are not declared, as a proxy needs that learns of
// its tools later; their calls do not become tasks by that.
func (t *Tasks) Support(name string, tool Tool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tools[name] = tool
}

// Install adds the extension to a server: its methods, its declaration in server/discover, and
// middleware for tools/call and subscriptions/listen. Middleware that was added before sees the
// calls that handlers get; middleware that is added later sees the answers that clients get.
//
// From then on, tasks whose process has died are resumed or ended in the background. Tools with Tool.Resume must be
// declared by then.
func (t *Tasks) Install(server *mcp.Server) error {
	for _, method := range []string{methodGet, methodUpdate, methodCancel} {
		if err := mcp.AddReceivingCustomMethod(server, method, unreached); err != nil {
			return err
		}
	}
	server.AddReceivingMiddleware(t.receive)
	server.AddSendingMiddleware(t.send)
	t.attending.Do(func() { t.begin(t.attendLost) })
	return nil
}

// closeWait is how long Close waits for handlers to return.
const closeWait = 5 * time.Second

// Close cancels the handlers of the running tasks, with reprise.ErrClosed as the cause, and waits for them for a
// few seconds. A task whose handler gives up is left to Tool.Resume of the next server, or has failed if its tool has
// none. Closing again does nothing.
func (t *Tasks) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	t.mu.Unlock()
	t.stopWatch()
	t.endRunning(reprise.ErrClosed)
	worked := make(chan struct{})
	go func() {
		t.work.Wait()
		close(worked)
	}()
	select {
	case <-worked:
	case <-time.After(closeWait):
		t.opts.Logger.Warn("handlers of MCP tasks go on although their server is closed")
	}
	t.endStoring(reprise.ErrClosed)
	return nil
}

// begin runs f in a goroutine that Close waits for. It reports false if t is closed.
func (t *Tasks) begin(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.work.Go(f)
	return true
}

func (t *Tasks) key(tenant reprise.Tenant, id string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: tenant, Name: t.namespace + id}
}
