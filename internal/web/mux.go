package web

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/otlp"
	"reprise/internal/park"
	"reprise/internal/problem"
)

// The permission that a route needs: a scope, or one of these.
const (
	// Public: everybody, known or not.
	Public identity.Scope = "*"
	// OneStream permits senders that may read the stream in question, with a ticket too. The handler checks it, because
	// only the handler knows the stream.
	OneStream identity.Scope = "?"
	// Anybody: every principal, whatever its scopes are, but no ticket.
	Anybody identity.Scope = "any"
)

// Trait is what is special about a route.
type Trait int

const (
	// WhileDraining: it is answered while the server shuts down too.
	WhileDraining Trait = 1 << iota
	// Unrecorded: it is not in the audit log.
	Unrecorded
	// Follows: its response may go on for as long as a stream, and be parked meanwhile.
	Follows
	// AnyQuery: it reads its parameters itself, from the URL.
	AnyQuery
)

// route is one operation of the API. The same list is in openapi.yaml.
type route struct {
	method, path string
	scope        identity.Scope
	query        []string // the parameters that it knows
	serve        func(*Exchange) error
	traits       Trait
}

func (rt *route) has(t Trait) bool { return rt.traits&t != 0 }

// Options are the settings of a Mux. The zero value of each field means its default.
type Options struct {
	// Gate identifies senders.
	Gate *identity.Gate
	// Hosts are the names, beside loopback and the address that a connection came in on, by which the server may be
	// called: the part of the header Host before the port.
	Hosts []string
	// Origins are the origins beside our own whose pages may use the API.
	Origins []string
	// MaxBody limits the size of bodies of JSON, in bytes, inclusive. Default: 1 MiB.
	MaxBody int64
	// BodyTimeout is the longest pause in a body, and WriteTimeout how long a client may accept no bytes. Default: 30 s
	// each.
	BodyTimeout, WriteTimeout time.Duration
	// Parking, if not nil, holds responses with the trait Follows while there is nothing to send.
	Parking *park.Lot
	// Tracer sends the spans of requests. Default: none.
	Tracer *otlp.Tracer
	// Journal records what senders do. Default: none.
	Journal Journal
	// Challenge adds to a refusal what an OAuth client has to know. Default: nothing.
	Challenge func(r *http.Request, who *identity.Principal, err error) error
	// Observed is called with each request that is over. Default: nothing.
	Observed func(Observation)
	// Missing says what there is in place of a path that does not exist, and Off how to get one that this server does
	// not offer, "" for others. Off is for known senders. Default: neither says anything.
	Missing, Off func(path string) string
	// Logger is given one line a request, and what went wrong. Default: silent.
	Logger *slog.Logger
	// LogRequests says of which requests. Default: httpserver.LogChanges.
	LogRequests httpserver.Requests
}

// Observation is a request that is over.
type Observation struct {
	Path, Method string // Path is the path of the route, "none" for no route
	Status       int
	Code         problem.Code // of its refusal, "" if it was answered
	Took         time.Duration
}

// Mux answers the requests of an API whose paths were added by Handle. It is safe for concurrent use once all were.
type Mux struct {
	opts  Options
	paths map[string]*operations
	mux   *http.ServeMux
	faces []*Face

	draining context.Context // done from Drain on
	drain    context.CancelCauseFunc
}

// Part is a capability with paths of its own.
type Part interface{ Routes(m *Mux) }

// operations are the routes of one path, by method.
type operations struct {
	path    string
	routes  map[string]*route
	methods []string // sorted, HEAD and OPTIONS too
}

// New returns a Mux without paths. The error wraps reprise.ErrInvalid if an entry of Hosts or Origins is invalid.
func New(opts *Options) (*Mux, error) {
	m := &Mux{opts: *opts, paths: map[string]*operations{}, mux: http.NewServeMux()}
	m.opts.MaxBody = cmp.Or(m.opts.MaxBody, 1<<20)
	m.opts.BodyTimeout = cmp.Or(m.opts.BodyTimeout, 30*time.Second)
	m.opts.WriteTimeout = cmp.Or(m.opts.WriteTimeout, 30*time.Second)
	if m.opts.Challenge == nil {
		m.opts.Challenge = func(_ *http.Request, _ *identity.Principal, err error) error { return err }
	}
	if m.opts.Observed == nil {
		m.opts.Observed = func(Observation) {}
	}
	if m.opts.Logger == nil {
		m.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := m.opts.checkNames(); err != nil {
		return nil, err
	}
	m.draining, m.drain = context.WithCancelCause(context.Background())
	m.mux.HandleFunc("/", m.NoSuchPath) // so that every refusal is a problem: the errors of ServeMux are plain text
	return m, nil
}

// Handle adds an operation: a method of a path, which may hold wildcards of http.ServeMux, the scope that it needs, and
// the names of its parameters. An operation with GET answers HEAD too.
func (m *Mux) Handle(
	method, path string, scope identity.Scope, query []string, serve func(*Exchange) error, traits ...Trait,
) {
	rt := &route{method: method, path: path, scope: scope, query: query, serve: serve}
	for _, t := range traits {
		rt.traits |= t
	}
	ops := m.paths[path]
	if ops == nil {
		ops = &operations{path: path, routes: map[string]*route{}, methods: []string{http.MethodOptions}}
		m.paths[path] = ops
		m.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { m.dispatch(w, r, ops) })
	}
	ops.add(method, rt)
	if method == http.MethodGet {
		ops.add(http.MethodHead, rt)
	}
}

func (ops *operations) add(method string, rt *route) {
	ops.routes[method] = rt
	ops.methods = append(ops.methods, method)
	slices.Sort(ops.methods)
}

// Pass adds a handler of whole requests, which does without the check of the sender. name is the path in metrics.
func (m *Mux) Pass(pattern, name string, handler http.Handler) {
	m.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		recordOf(w).route = name
		handler.ServeHTTP(w, r)
	})
}

// Has reports whether there are operations of a path.
func (m *Mux) Has(path string) bool { return m.paths[path] != nil }

// Operation is a method of a path.
type Operation struct {
	Method, Path string
	Query        []string
}

// Operations returns what was added, sorted by path and method.
func (m *Mux) Operations() (all []Operation) {
	for _, ops := range m.paths {
		for method, rt := range ops.routes {
			if method == rt.method {
				all = append(all, Operation{rt.method, rt.path, rt.query})
			}
		}
	}
	slices.SortFunc(all, func(a, b Operation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
	})
	return all
}

// errDraining is why requests that are under way are ended by Drain.
var errDraining = fmt.Errorf("%w: the server is shutting down", reprise.ErrClosed)

// Drain prepares the shutdown: it ends the answers of readers with a request to reconnect soon, and later requests fail
// with shutting_down, except those with the trait WhileDraining. It returns immediately. Draining again does nothing.
func (m *Mux) Drain() {
	m.drain(errDraining)
	m.opts.Parking.End(errDraining)
}

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if AsksForEvents(r) {
		growStack(len(r.Method))
	}
	m.serve(w, r)
}

// route hands a request to the handler of its path.
func (m *Mux) route(w http.ResponseWriter, r *http.Request) {
	// ServeMux would answer these with a redirection and a page.
	if p := r.URL.EscapedPath(); p != "/" && (!strings.HasPrefix(p, "/") || p != path.Clean(p)) {
		m.NoSuchPath(w, r)
		return
	}
	m.mux.ServeHTTP(w, r)
}

// NoSuchPath answers a request for a path that does not exist.
func (m *Mux) NoSuchPath(w http.ResponseWriter, r *http.Request) {
	detail := ""
	if m.opts.Missing != nil {
		detail = m.opts.Missing(r.URL.Path)
	}
	if m.opts.Off != nil {
		if off := m.opts.Off(r.URL.Path); off != "" {
			if who, err := m.opts.Gate.Identify(r); err != nil { // how the server is set up is not for everybody
				m.refuse(w, r, m.opts.Challenge(r, &who, err))
				return
			}
			detail = off
		}
	}
	m.refuse(w, r, problem.New(problem.CodeNotFound, detail))
}

// dispatch selects the route by the method and checks the permission of the sender.
//
// The stack frames from dispatch down to a waiting reader exist for as long as a client follows. The runtime halves a
// stack when less than a quarter of it is in use. Requests reach 16 KiB, so the frames have to be small: code with
// large frames, such as problems, is in functions that have returned by then.
func (m *Mux) dispatch(w http.ResponseWriter, r *http.Request, ops *operations) {
	recordOf(w).route = ops.path
	rt := ops.routes[r.Method]
	if rt == nil {
		m.NoSuchMethod(w, r, ops.methods...)
		return
	}
	x := &Exchange{W: w, R: r, mux: m}
	err := m.admit(x, rt)
	if err == nil {
		m.endWithCredential(x, rt)
	}
	if err == nil && m.opts.Journal != nil {
		err = m.record(x, rt)
	}
	if err == nil {
		err = rt.serve(x)
	}
	if err != nil {
		m.refuse(w, r, m.opts.Challenge(x.R, &x.Who, err))
	}
	if m.opts.Journal != nil {
		m.recordRefusal(x, rt)
	}
}

// endWithCredential makes the request end as soon as its credential expires or is revoked.
func (m *Mux) endWithCredential(x *Exchange, rt *route) {
	ctx, release := identity.WhileGood(m.mayPark(x, rt), &x.Who)
	x.AtEnd(release)
	if ctx != x.R.Context() { // WithContext copies the request
		x.R = x.R.WithContext(ctx)
	}
	if x.Who.CanEnd() {
		x.AtEnd(httpserver.EndBody(ctx, x.R))
	}
}

// mayPark returns the context of the request, which for a response that may be parked lives as long as the response.
func (m *Mux) mayPark(x *Exchange, rt *route) context.Context {
	if m.opts.Parking == nil || !rt.has(Follows) || !AsksForEvents(x.R) {
		return x.R.Context()
	}
	rec := recordOf(x.W)
	rec.seat = m.opts.Parking.Seat(x.W, x.R, func(w http.ResponseWriter) { rec.ResponseWriter = w })
	if rec.seat == nil {
		return x.R.Context()
	}
	return rec.seat
}

// NoSuchMethod answers OPTIONS, and refuses methods that the path does not have. methods is sorted.
func (m *Mux) NoSuchMethod(w http.ResponseWriter, r *http.Request, methods ...string) {
	list := strings.Join(methods, ", ")
	w.Header().Set("Allow", list)
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	m.refuse(w, r, InvalidStatus(http.StatusMethodNotAllowed, "this path knows the methods "+list))
}

// errTicketReads refuses the holder of a ticket.
var errTicketReads = fmt.Errorf("%w: a ticket reads one stream and nothing else", identity.ErrForbidden)

// admit checks the sender and the parameters of the request.
func (m *Mux) admit(x *Exchange, rt *route) error {
	if m.draining.Err() != nil && !rt.has(WhileDraining) {
		return errDraining
	}
	if rt.scope != Public {
		who, err := m.opts.Gate.Identify(x.R)
		if err != nil {
			return err
		}
		x.Who, x.Scope = who, rt.scope
		httpserver.Authenticated(x.R)
		recordOf(x.W).Principal, recordOf(x.W).Tenant = who.Name, string(who.Tenant)
		if rt.scope == Anybody && who.Only != (reprise.StreamKey{}) {
			return errTicketReads
		}
		if rt.scope != OneStream && rt.scope != Anybody {
			if err := x.Needs(rt.scope); err != nil {
				return err
			}
		}
	}
	if httpserver.IsEncoded(x.R) {
		x.W.Header().Set("Accept-Encoding", "identity")
		return InvalidStatus(http.StatusUnsupportedMediaType, "the body has a Content-Encoding, and none is read")
	}
	if rt.has(AnyQuery) {
		return nil
	}
	var err error
	x.Query, err = parseQuery(x.R.URL.RawQuery, rt.query)
	return err
}
