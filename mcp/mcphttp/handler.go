package mcphttp

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"reprise"
	"reprise/replica"
)

// Options are the settings of a Handler. The zero value of each field means its default.
type Options struct {
	// Identify returns the tenant and the principal of a request. An error is answered with its code, see package
	// problem. Sessions of a principal do not exist for others; the principal may be "". Default:
	// reprise.DefaultTenant and "".
	Identify func(*http.Request) (tenant reprise.Tenant, principal string, err error)
	// Allow is called with the messages of a POST before any of them has an effect. An error refuses the request with
	// its status, like an error of Identify, and not as the answer to a call. Default: all are allowed.
	Allow func(r *http.Request, messages []Message) error
	// Admit is called before a session is opened. An error refuses the session and is answered with its code. Admit is
	// also called, with opening false, for each existing session that this process begins to use; it cannot refuse
	// those. release is called once when this process no longer uses the session. Default: all are
	// admitted.
	Admit func(tenant reprise.Tenant, principal string, opening bool) (release func(), err error)
	// Life returns a context that ends when a principal is permanently excluded, such as when its API key is revoked.
	// The sessions of the principal that this process uses then end, with their calls and connections. It must not
	// block. Default: principals are never excluded.
	Life func(tenant reprise.Tenant, principal string) context.Context
	// Name separates endpoints that share a Log: 0 to 32 bytes of letters, digits, '.', '_' and '-'. Default: "".
	Name string
	// Replica is this process among those that share the Store of the Log. Default: no other process does.
	Replica *replica.Member
	// Versions are the served versions, the newest first. Default: Versions.
	Versions []string
	// ResponseAge is the age at which the response to a call, or one that resumes it, is closed in good order, on
	// versions whose clients then come back for the rest (2025-11-25). Clients that count broken connections do not
	// count this one, so that a call outlives a proxy that cuts later. Default: 45 s in sessions whose client has come
	// back before, since some clients never do and would wait for ever; negative: no limit.
	ResponseAge time.Duration
	// SessionIdle is how long an unused session is kept. Default: 1 hour.
	SessionIdle time.Duration
	// MaxBody is the maximum size of the body of a POST, in bytes. Default: 4 MiB.
	MaxBody int64
	// BodyTimeout is the longest pause in the body of a request before the request is given up. Default: 30 s.
	BodyTimeout time.Duration
	// AllowedHosts are the names, without a port, that the Host header may have; "*" allows any. Default: the names of
	// loopback if the request came in over loopback, and any otherwise.
	AllowedHosts []string
	// AllowedOrigins are origins, such as "https://example.com", whose pages may send requests. Requests
	// without Origin are always accepted. Default: origins with the host of the request.
	AllowedOrigins []string
	// Retry is how long clients are asked to wait before they reconnect. Default: 1 s.
	Retry time.Duration
	// KeepAlive is the silence after which a comment is sent. Default: 15 s.
	KeepAlive time.Duration
	// WriteTimeout is how long a client may accept no bytes before its connection is closed. Default: 30 s.
	WriteTimeout time.Duration
	// JSONResponse answers requests, except subscriptions/listen, with application/json and not with a stream. Other
	// messages of a request then go to the stream of the session as a whole.
	JSONResponse bool
	// Quick is the time within which a request is answered with JSON, without a stream, if the response is its only
	// message. This saves the store two commits. A client that disconnects before it has seen an event id could not
	// resume anyway. ping and lists, which cost nothing to repeat, may take as long as KeepAlive. Default: 50 ms. A
	// negative time makes every request a stream from the beginning.
	Quick time.Duration
	// Retention applies to the streams of calls. Default: 100,000 events, 64 MiB, 1 hour after the end.
	Retention reprise.Retention
	// Logger receives errors. Default: silent.
	Logger *slog.Logger
	// Hooks are called on the events that they name.
	Hooks *Hooks
}

// Hooks are called by the goroutine that serves, so they must be quick. Each may be nil.
type Hooks struct {
	// Resumed is called for each GET with a Last-Event-ID, with the result and the number of events
	// to replay.
	Resumed func(tenant reprise.Tenant, result Resumption, events uint64)
	// TakenOver is called when a newer connection has ended an older one.
	TakenOver func(tenant reprise.Tenant)
	// SessionOpened and SessionEnded are called once for each session, on one replica.
	SessionOpened func(tenant reprise.Tenant)
	SessionEnded  func(tenant reprise.Tenant, why SessionEnd)
	// Lost is called when this process has ended a call whose server had died.
	Lost func(tenant reprise.Tenant)
}

// Resumption is the result of a GET with a Last-Event-ID.
type Resumption string

// The results of a resumption.
const (
	// Replayed: there were events after the id.
	Replayed Resumption = "replayed"
	// Nothing: no events after the id exist, or none will follow.
	Nothing Resumption = "nothing"
	// Expired: the events after the id, or the stream, are no longer kept.
	Expired Resumption = "expired"
	// Foreign: the id does not belong to the session.
	Foreign Resumption = "foreign"
)

// SessionEnd is the reason why a session has ended.
type SessionEnd string

// The reasons of a SessionEnd.
const (
	// Terminated: the client has ended it.
	Terminated SessionEnd = "terminated"
	// Idle: the session was not used for Options.SessionIdle.
	Idle SessionEnd = "idle"
	// Ended: Handler.EndSession has ended it, or its principal is excluded.
	Ended SessionEnd = "ended"
)

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Identify == nil {
		d.Identify = func(*http.Request) (reprise.Tenant, string, error) { return reprise.DefaultTenant, "", nil }
	}
	if d.Admit == nil {
		d.Admit = func(reprise.Tenant, string, bool) (func(), error) { return func() {}, nil }
	}
	if d.Life == nil {
		d.Life = func(reprise.Tenant, string) context.Context { return context.Background() }
	}
	if d.Versions == nil {
		d.Versions = Versions
	}
	d.SessionIdle = cmp.Or(d.SessionIdle, time.Hour)
	d.MaxBody = cmp.Or(d.MaxBody, 4<<20)
	d.BodyTimeout = cmp.Or(d.BodyTimeout, 30*time.Second)
	d.Retry = cmp.Or(d.Retry, time.Second)
	d.Quick = cmp.Or(d.Quick, 50*time.Millisecond)
	d.KeepAlive = cmp.Or(d.KeepAlive, 15*time.Second)
	d.WriteTimeout = cmp.Or(d.WriteTimeout, 30*time.Second)
	d.Retention.MaxEvents = cmp.Or(d.Retention.MaxEvents, 100_000)
	d.Retention.MaxBytes = cmp.Or(d.Retention.MaxBytes, 64<<20)
	d.Retention.MaxAge = cmp.Or(d.Retention.MaxAge, time.Hour)
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Hooks == nil {
		d.Hooks = &Hooks{}
	}
	return d
}

// Handler serves an endpoint: POST, GET and DELETE. It is safe for concurrent use.
type Handler struct {
	log     *reprise.Log
	backend Backend
	opts    Options
	name    string // of this Handler among all that there were, where it is alone
	// streams and states are the namespaces of the streams of exchanges and of sessions.
	streams, states string

	// running is the context of calls and ends first, when the Handler is closed. answering is the context of
	// connections and ends when all calls have ended. storing ends last.
	running, answering, storing context.Context
	endRunning                  context.CancelCauseFunc
	endAnswering, endStoring    context.CancelCauseFunc

	work     sync.WaitGroup // what begin has begun
	requests sync.WaitGroup // that are being answered
	loading  sync.Mutex     // held while a session is looked up in the store

	dead sync.Map // the names of replicas that are dead

	mu       sync.Mutex
	closed   bool
	sessions map[sessionKey]*Session
}

var _ http.Handler = (*Handler)(nil)

// New returns a Handler that stores its sessions and streams in log, which must accept events of 512 KiB; see
// reprise.Options.MaxEventBytes. The Handler must be closed before the Log. opts may be nil;
// the error is reprise.ErrInvalid for invalid options.
func New(log *reprise.Log, backend Backend, opts *Options) (*Handler, error) {
	h := &Handler{log: log, backend: backend, opts: opts.withDefaults(), sessions: map[sessionKey]*Session{}}
	if err := h.opts.validate(); err != nil {
		return nil, fmt.Errorf("mcphttp: %w", err)
	}
	h.name = "alone-" + rand.Text()
	h.streams, h.states = "mcp:", "mcp-session:"
	if h.opts.Name != "" {
		h.streams, h.states = "mcp."+h.opts.Name+":", "mcp-session."+h.opts.Name+":"
	}
	h.running, h.endRunning = context.WithCancelCause(context.Background())
	h.answering, h.endAnswering = context.WithCancelCause(context.Background())
	h.storing, h.endStoring = context.WithCancelCause(context.Background())
	if h.opts.Replica != nil {
		h.opts.Replica.Serve(h.service(), h.serveReplicas)
	}
	h.begin(h.sweepSessions)
	h.begin(h.attendLost)
	return h, nil
}

func (o *Options) validate() error {
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "mcp-session." + o.Name + ":x"}
	if err := key.Validate(); err != nil || len(o.Name) > 32 {
		return fmt.Errorf("%w: the name %q", reprise.ErrInvalid, o.Name)
	}
	for _, v := range o.Versions {
		if !isVersion(v) {
			return fmt.Errorf("%w: the version %q is not served", reprise.ErrInvalid, v)
		}
	}
	if o.SessionIdle < 0 || o.MaxBody < 0 || o.Retry < 0 || o.KeepAlive < 0 || o.WriteTimeout < 0 || o.BodyTimeout < 0 {
		return fmt.Errorf("%w: a negative time or size", reprise.ErrInvalid)
	}
	return nil
}

// begin runs f in a goroutine that Close waits for. It reports false if the Handler is closed.
func (h *Handler) begin(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.work.Go(f)
	return true
}

// enter begins the answer to a request. It reports false if the Handler is closed.
func (h *Handler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.requests.Add(1)
	return true
}

// closeWait limits how long Close waits for calls to end, and then for their messages to be kept.
const closeWait = 5 * time.Second

// Close ends all calls: each is answered with the response of the backend, or with an error. Then Close ends all
// connections, and asks the clients to reconnect. If a call cannot be answered within a few seconds, the next process
// answers it with an error. Later requests are refused. Closing again does nothing.
func (h *Handler) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	sessions := make([]*Session, 0, len(h.sessions))
	for _, s := range h.sessions {
		sessions = append(sessions, s)
	}
	h.closed = true
	h.mu.Unlock()
	if h.opts.Replica != nil {
		h.opts.Replica.Serve(h.service(), nil)
	}
	h.endRunning(reprise.ErrClosed)
	if !within(closeWait, h.work.Wait) {
		h.opts.Logger.Warn("MCP calls go on although their server is closed")
	}
	h.endAnswering(reprise.ErrClosed)
	within(closeWait, h.requests.Wait)
	for _, s := range sessions {
		h.drop(s)
	}
	h.endStoring(reprise.ErrClosed)
	return nil
}

// within waits for f for at most d, and reports whether f has returned.
func within(d time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}
