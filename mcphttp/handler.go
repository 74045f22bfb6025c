package mcphttp

import (
	"log/slog"
	"net/http"
	"time"

	"reprise"
	"reprise/replica"
)

// Options are the settings of a Handler. The zero value of each field means its default.
type Options struct {
	// Identify says whose request it is. An error is answered by its code, see package problem. The principal is "" or names
	// who may use the sessions that it has opened; to others they do not exist. Default: reprise.DefaultTenant and "".
	Identify func(*http.Request) (tenant reprise.Tenant, principal string, err error)
	// Replica is this process among those that share the Store of the Log. Default: it is alone.
	Replica *replica.Member
	// Versions are those that are served, the newest first. Default: Versions.
	Versions []string
	// SessionIdle is how long a session is kept that nobody uses. Default: 1 hour.
	SessionIdle time.Duration
	// MaxBody bounds the body of a POST, in bytes. Default: 4 MiB.
	MaxBody int64
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
	// Retention is for the streams of calls. Default: 100,000 events, 64 MiB, 1 hour after the end.
	Retention reprise.Retention
	// Logger is told of what goes wrong. Default: silent.
	Logger *slog.Logger
	// Hooks are called as things happen.
	Hooks *Hooks
}

// Versions are the protocol versions that a Handler serves, the newest first.
var Versions = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}

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
)

// Handler serves the endpoint: POST, GET and DELETE. It is safe for concurrent use.
type Handler struct{}

var _ http.Handler = (*Handler)(nil)

// New makes a Handler whose sessions and streams are kept in log. It must be closed before the Log. opts may be nil;
// the error is reprise.ErrInvalid for options that make no sense.
func New(log *reprise.Log, backend Backend, opts *Options) (*Handler, error) { panic("not yet") }

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { panic("not yet") }

// Close ends all connections and calls, and tells clients to come back. Calls that have no
// answer by then are answered with an error by the process that serves next. Closing again does nothing.
func (h *Handler) Close() error { panic("not yet") }
