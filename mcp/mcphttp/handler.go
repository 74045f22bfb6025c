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
	// Identify says whose request it is. An error is answered by its code, see package problem. The principal is ""
	// or names who may use the sessions that it has opened; to others they do not exist. Default:
	// reprise.DefaultTenant and "".
	Identify func(*http.Request) (tenant reprise.Tenant, principal string, err error)
	// Allow is asked about the messages of a POST before any of them has an effect. An error refuses the request as
	// that of Identify does: with its status, and not as the answer to a call. Default: all are allowed.
	Allow func(r *http.Request, messages []Message) error
	// Admit is asked before a session is opened, and refuses it with an error, which is answered by its code. It is
	// also told, with opening false, of each session that was opened before and is used in this process again, which it
	// cannot refuse. release is called once when the session is no longer in use in this process. Default: all are
	// admitted.
	Admit func(tenant reprise.Tenant, principal string, opening bool) (release func(), err error)
	// Name sets apart the endpoints that share a Log: 0 to 32 bytes of letters, digits, '.', '_' and '-'. Default: "".
	Name string
	// Replica is this process among those that share the Store of the Log. Default: it is alone.
	Replica *replica.Member
	// Versions are those that are served, the newest first. Default: Versions.
	Versions []string
	// SessionIdle is how long a session is kept that nobody uses. Default: 1 hour.
	SessionIdle time.Duration
	// MaxBody bounds the body of a POST, in bytes. Default: 4 MiB.
	MaxBody int64
	// BodyTimeout is the longest pause in the body of a request before the request is given up. Default: 30 s.
	BodyTimeout time.Duration
	// AllowedHosts are the names, without a port, that the Host header may have; "*" is any. Default: the names of
	// loopback where the request came in over loopback, else any.
	AllowedHosts []string
	// AllowedOrigins are origins, such as "https://example.com", whose pages may send requests. Requests
	// without Origin are always taken. Default: the origins whose host is that of the request.
	AllowedOrigins []string
	// Retry is how long clients are told to wait before they come back. Default: 1 s.
	Retry time.Duration
	// KeepAlive is the silence after which a comment is sent. Default: 15 s.
	KeepAlive time.Duration
	// WriteTimeout is how long a client may accept no bytes before its connection is closed. Default: 30 s.
	WriteTimeout time.Duration
	// JSONResponse answers requests with application/json and not with a stream, but for
	// subscriptions/listen. What else a request makes the server say then goes to the stream of the session as a whole.
	JSONResponse bool
	// Quick is how long a request may take whose response is sent as JSON and not kept, if it is all there is to say:
	// a client that drops before it was shown an event id cannot come back for it. It saves the store two
	// commits. What costs nothing to ask again, ping and lists, may take as long as KeepAlive. Default: 50 ms. A
	// negative time makes every request a stream from the beginning.
	Quick time.Duration
	// Retention is for the streams of calls. Default: 100,000 events, 64 MiB, 1 hour after the end.
	Retention reprise.Retention
	// Logger is told of what goes wrong. Default: silent.
	Logger *slog.Logger
	// Hooks are called as things happen.
	Hooks *Hooks
}

// Hooks are called by the goroutine that serves, so they must be quick. Each may be nil.
type Hooks struct {
	// Resumed is called for each GET with a Last-Event-ID: what came of it, and how many events
	// were there to be replayed.
	Resumed func(tenant reprise.Tenant, result Resumption, events uint64)
	// TakenOver is called when a connection was ended in favour of a newer one.
	TakenOver func(tenant reprise.Tenant)
	// SessionOpened and SessionEnded are called once for each session, on one replica.
	SessionOpened func(tenant reprise.Tenant)
	SessionEnded  func(tenant reprise.Tenant, why SessionEnd)
	// Lost is called when a call was ended whose server had died.
	Lost func(tenant reprise.Tenant)
}

// Resumption is what came of a GET with a Last-Event-ID.
type Resumption string

// The results of a resumption.
const (
	// Replayed: there were events after the id.
	Replayed Resumption = "replayed"
	// Nothing: there were none yet, or will be none.
	Nothing Resumption = "nothing"
	// Expired: the events after the id, or the stream, are not kept any more.
	Expired Resumption = "expired"
	// Foreign: the id is none of the session.
	Foreign Resumption = "foreign"
)

// SessionEnd says why a session has ended.
type SessionEnd string

// The reasons of a SessionEnd.
const (
	// Terminated: the client has ended it.
	Terminated SessionEnd = "terminated"
	// Idle: nobody used it for Options.SessionIdle.
	Idle SessionEnd = "idle"
	// Ended: Handler.EndSession has ended it.
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

// Handler serves the endpoint: POST, GET and DELETE. It is safe for concurrent use.
type Handler struct {
	log     *reprise.Log
	backend Backend
	opts    Options
	name    string // of this Handler among all that there were, where it is alone
	// streams and states are the namespaces of the streams of exchanges and of sessions.
	streams, states string

	// running ends first, when the Handler is closed: it is the life of calls. answering ends when they have ended:
	// it is that of connections. storing ends last.
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

// New makes a Handler whose sessions and streams are kept in log, which must take events of 512 KiB; see
// reprise.Options.MaxEventBytes. It must be closed before the Log. opts may be nil;
// the error is reprise.ErrInvalid for options that make no sense.
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

// closeWait bounds how long Close waits for calls to end, and how long for what they have said to be kept.
const closeWait = 5 * time.Second

// Close ends all calls, which are answered with what the backend says then, or with an error; then all connections,
// whose clients are told to come back. What cannot be answered within a few seconds is answered with an error by the
// process that serves next. Requests that come later are refused. Closing again does nothing.
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

// within waits for f, but no longer than d, and reports whether it has returned.
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
