package httpserver

import (
	"log/slog"
	"net/http"
	"net/netip"
	"time"
)

// Options are the settings of New. The zero value of each field means its default.
type Options struct {
	// MaxConnections is the maximum number of open connections. Default and upper limit: the result of the function
	// MaxConnections for the limit on open files.
	MaxConnections int
	// MaxPerAddress bounds the strangers of one remote address, or of one IPv6 network of 64 bits. At the bound the
	// oldest one is closed in favour of a new one. Behind a proxy all clients have its address, unless it is trusted.
	// Default: half of MaxConnections.
	MaxPerAddress int
	// TrustedProxies are the peers whose headers Forwarded, or X-Forwarded-For and X-Forwarded-Proto, name their
	// clients: Request.RemoteAddr is then the client's, see ParseProxies. These headers are ignored from other
	// peers. Default: none.
	TrustedProxies []netip.Prefix
	// MaxAge is the maximum age of a connection. Responses that follow a stream get the remaining time from Remaining.
	// The time is shortened by up to a tenth at random, so that clients do not return together. Default: no limit.
	MaxAge time.Duration
	// Logger logs connections that were closed for lack of room, and messages of net/http. Default: silent.
	Logger *slog.Logger
}

// The bounds of New.
const (
	// readHeaderTimeout bounds a client that sends its header a byte a minute.
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	// maxStreams bounds the requests of one connection over HTTP/2, and so the readers. A client with more opens
	// another connection.
	maxStreams = 100
	// A connection over HTTP/2 whose client has been silent for pingAfter gets a ping. It is closed if no answer
	// arrives, or no bytes are accepted, within pingTimeout.
	pingAfter   = 30 * time.Second
	pingTimeout = 30 * time.Second
	// maxHeaderBytes leaves room for a cursor of 100 kB to be refused in an orderly way.
	maxHeaderBytes = 128 << 10
)

// New returns an http.Server for handler with bounds on connections and on slow and large headers. It has no
// timeout for whole requests or responses, which may last for days; see GuardBody for request bodies.
// The server uses its hooks ConnState and ConnContext. opts may be nil.
func New(handler http.Handler, opts *Options) *http.Server {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	room := MaxConnections()
	if o.MaxConnections <= 0 || o.MaxConnections > room {
		o.MaxConnections = room
	}
	if o.MaxPerAddress <= 0 || o.MaxPerAddress > o.MaxConnections {
		o.MaxPerAddress = max(1, o.MaxConnections/2)
	}
	l := newLimit(&o)
	return &http.Server{
		Handler:           proxies(o.TrustedProxies).forwarded(closeAged(boundStreams(handler), o.MaxAge)),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			SendPingTimeout:      pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: pingTimeout,
		},
		ErrorLog:    slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
		ConnContext: l.accept,
		ConnState:   l.changed,
	}
}
