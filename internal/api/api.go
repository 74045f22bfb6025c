package api

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"reprise"
	"reprise/internal/audit"
	"reprise/internal/execution"
	"reprise/internal/grants"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/memo"
	"reprise/internal/oidc"
	"reprise/internal/otlp"
	"reprise/internal/park"
	"reprise/internal/quota"
	"reprise/internal/reads"
	"reprise/internal/web"
)

// Options are the settings of a Server. The zero value of each field means its default.
type Options struct {
	// Version is the version of the program.
	Version string
	// Hosts are the names, beside loopback and the address that a connection came
	// in on, by which the server may be called: the part of the header Host
	// before the port. Without the check a page of anybody's could be served under a name
	// that later leads here (DNS rebinding).
	Hosts []string
	// Origins are the origins beside our own whose pages may use the API, for example
	// "https://console.example.org", exactly as browsers send them.
	Origins []string
	// Quotas are the quotas of principals and tenants, shared with the Host. Default: no quotas.
	Quotas *quota.Book
	// MaxReadersPerPrincipal bounds the responses that one principal follows at
	// a time, over all streams. Default: 20,000.
	MaxReadersPerPrincipal int
	// MaxBody limits the size of bodies, MaxStdin the size of stdin, in bytes, inclusive. Defaults: 1 MiB, 16 MiB.
	MaxBody, MaxStdin int64
	// BodyTimeout is the longest pause in a body before the request fails, even if the answer does not depend on the
	// body. Default: 30 s.
	BodyTimeout time.Duration
	// WriteTimeout is how long a client may accept no bytes before its connection is closed. Default: 30 s.
	WriteTimeout time.Duration
	// Heartbeat is the silence after which a reader that follows is sent
	// something without a meaning. Default: 15 s.
	Heartbeat time.Duration
	// CloseEvent is passed to ssehttp.Options.
	CloseEvent bool
	// NoCompression disables the compression of events for clients that request it with Accept-Encoding.
	NoCompression bool
	// Parking, if not nil, holds responses that follow a stream while there is nothing to send. Default: each keeps its
	// goroutine.
	Parking *park.Lot
	// MCP, if not nil, answers /mcp once Host and Origin were checked. It authenticates by itself.
	MCP http.Handler
	// Reads answers what reads events, here and in Parts. Default: one of NewReads.
	Reads *reads.Service
	// Parts are further capabilities. Default: none.
	Parts []web.Part
	// Issuers, if not nil, are the identity providers whose tokens the gate takes: what OAuth clients have to know of
	// the server is answered then.
	Issuers *oidc.Verifier
	// Audit records requests for /v1/audit. Default: none; these paths do not exist.
	Audit *audit.Trail
	// Token, if not "", is the token that the server proves to know. Clients that have found the token in a file of
	// this machine require the proof before they send it.
	Token string
	// Console, if not nil, serves "/" for browsers and all paths below "/console/", after the check of Host and Origin.
	// It needs no authentication.
	Console http.Handler
	// Metrics counts. Make it before the Log, which needs its hooks. Default: one
	// that knows of HTTP alone.
	Metrics *Metrics
	// Tracer sends the spans of requests, appends and executions. Default: none.
	Tracer *otlp.Tracer
	// Logger is given one line a request, and what went wrong. Default: silent.
	Logger *slog.Logger
	// LogRequests is passed to web.Options.
	LogRequests httpserver.Requests
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.MaxReadersPerPrincipal = cmp.Or(d.MaxReadersPerPrincipal, 20_000)
	d.MaxBody = cmp.Or(d.MaxBody, 1<<20)
	d.MaxStdin = cmp.Or(d.MaxStdin, 16<<20)
	d.BodyTimeout = cmp.Or(d.BodyTimeout, 30*time.Second)
	d.WriteTimeout = cmp.Or(d.WriteTimeout, 30*time.Second)
	d.Heartbeat = cmp.Or(d.Heartbeat, 15*time.Second)
	if d.Quotas == nil {
		d.Quotas = quota.New(nil)
	}
	if d.Metrics == nil {
		d.Metrics = NewMetrics()
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// Server answers the requests of the API. It is safe for concurrent use. What it
// was made of stays the caller's.
type Server struct {
	log    *reprise.Log
	host   *execution.Host // nil for one of NewManagement
	grants grants.Executions
	gate   *identity.Gate
	opts   Options
	web    *web.Mux
	health health

	appendKeys *memo.Book // the Idempotency-Keys of appends
}

// NewReads returns what answers the readers of a Server with these options.
func NewReads(log *reprise.Log, opts *Options) *reads.Service {
	o := opts.withDefaults()
	return reads.New(log, &reads.Options{
		Heartbeat: o.Heartbeat, WriteTimeout: o.WriteTimeout, NoCompression: o.NoCompression,
		CloseEvent:      o.CloseEvent,
		MaxPerPrincipal: o.MaxReadersPerPrincipal, Quotas: o.Quotas, Resumed: o.Metrics.resumed,
	})
}

// New returns a Server for the streams of log and the executions of host. gate authenticates the requests. opts may be
// nil. The error wraps reprise.ErrInvalid if an entry of Hosts or Origins is invalid.
func New(log *reprise.Log, host *execution.Host, gate *identity.Gate, opts *Options) (*Server, error) {
	s, err := newServer(log, host, gate, opts)
	if err != nil {
		return nil, err
	}
	s.opts.Metrics.WatchLog(log)
	s.opts.Metrics.watchExecutions(host)
	s.opts.Metrics.watchParking(s.opts.Parking)
	s.opts.Metrics.watchQuotas(s.opts.Quotas, host, log)
	return s, nil
}

// NewManagement returns a Server for a program without streams and executions, such as a gateway. It serves only
// /v1/quota, /v1/audit with Options.Audit, which is in log, and the paths of Options.Parts. It returns the same errors
// as New.
func NewManagement(log *reprise.Log, gate *identity.Gate, opts *Options) (*Server, error) {
	s, err := newServer(log, nil, gate, opts)
	if err != nil {
		return nil, err
	}
	s.opts.Metrics.watchQuotas(s.opts.Quotas, nil, log)
	return s, nil
}

func newServer(log *reprise.Log, host *execution.Host, gate *identity.Gate, opts *Options) (s *Server, err error) {
	s = &Server{log: log, host: host, gate: gate, grants: grants.Executions{Host: host}, opts: opts.withDefaults()}
	s.appendKeys = openAppendKeys(log, s.opts.Logger)
	if s.opts.Reads == nil {
		s.opts.Reads = NewReads(log, &s.opts)
	}
	settings := &web.Options{
		Gate: gate, Hosts: s.opts.Hosts, Origins: s.opts.Origins, MaxBody: s.opts.MaxBody,
		BodyTimeout: s.opts.BodyTimeout, WriteTimeout: s.opts.WriteTimeout, Parking: s.opts.Parking,
		Tracer: s.opts.Tracer, Observed: s.opts.Metrics.request, Missing: s.missing, Off: s.off,
		Logger: s.opts.Logger, LogRequests: s.opts.LogRequests,
	}
	if s.opts.Audit != nil {
		settings.Journal = journal{s.opts.Audit}
	}
	if issuers := s.opts.Issuers; issuers != nil {
		settings.Challenge = func(r *http.Request, who *identity.Principal, err error) error {
			return Challenged(issuers, r, who, err)
		}
	}
	if s.web, err = web.New(settings); err != nil {
		return nil, err
	}
	s.routes(s.web, false)
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.web.ServeHTTP(w, r) }

// Drain prepares the shutdown: it ends the answers of readers with a request to reconnect soon, and later requests fail
// with shutting_down, except /healthz and /metrics. It returns immediately. Draining again does nothing.
func (s *Server) Drain() { s.web.Drain() }

// NewHTTPServer returns an http.Server for s with bounds on connections, on slow and large
// headers and on idle connections. It has no timeout for whole requests or responses,
// which may last for days; s bounds the pauses in them. Its Shutdown drains s.
func NewHTTPServer(s *Server) *http.Server {
	server := httpserver.New(s, &httpserver.Options{Logger: s.opts.Logger})
	server.RegisterOnShutdown(s.Drain)
	return server
}
