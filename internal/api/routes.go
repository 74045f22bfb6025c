package api

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/problem"
)

// Who may use a route: a scope, or one of these.
const (
	// public: everybody, known or not.
	public identity.Scope = "*"
	// oneStream: whoever may read the stream in question, with a ticket too. The
	// handler checks it, for it alone knows the stream.
	oneStream identity.Scope = "?"
)

// route is one operation of the API. The same list is in openapi.yaml.
type route struct {
	method, path string
	scope        identity.Scope
	query        []string // the parameters that it knows
	serve        func(*Server, *exchange) error
}

// The parameters of everything that reads events.
var eventQuery = []string{"after", "cursor", "types", "gap", "cursors", "limit", "wait", identity.TicketParam}

func routes() []route { return append(coreRoutes(), fileRoutes()...) }

// coreRoutes are the routes that every server has, but for those of the store.
func coreRoutes() []route {
	output := []string{"offset", "follow", identity.TicketParam}
	return []route{
		{"POST", "/v1/executions", identity.ScopeRun, nil, (*Server).startExecution},
		{"GET", "/v1/executions", identity.ScopeRead, []string{"session", "status", "label", "limit", "cursor"}, (*Server).listExecutions},
		{"GET", "/v1/executions/{id}", identity.ScopeRead, nil, (*Server).showExecution},
		{"DELETE", "/v1/executions/{id}", identity.ScopeRun, nil, (*Server).removeExecution},
		{"GET", "/v1/executions/{id}/events", oneStream, eventQuery, (*Server).executionEvents},
		{"GET", "/v1/executions/{id}/stdout", oneStream, output, (*Server).executionOutput},
		{"GET", "/v1/executions/{id}/stderr", oneStream, output, (*Server).executionOutput},
		{"POST", "/v1/executions/{id}/stdin", identity.ScopeRun, []string{"offset", "eof"}, (*Server).writeStdin},
		{"POST", "/v1/executions/{id}/signal", identity.ScopeRun, nil, (*Server).signalExecution},
		{"POST", "/v1/executions/{id}/cancel", identity.ScopeRun, nil, (*Server).cancelExecution},

		{"GET", "/v1/streams", identity.ScopeRead, []string{"limit", "cursor"}, (*Server).listStreams},
		{"PUT", "/v1/streams/{name}", identity.ScopeWrite, nil, (*Server).createStream},
		{"GET", "/v1/streams/{name}", identity.ScopeRead, nil, (*Server).showStream},
		{"DELETE", "/v1/streams/{name}", identity.ScopeWrite, nil, (*Server).removeStream},
		{"GET", "/v1/streams/{name}/events", oneStream, eventQuery, (*Server).streamEvents},
		{"POST", "/v1/streams/{name}/events", identity.ScopeWrite, []string{"type"}, (*Server).publish},
		{"POST", "/v1/streams/{name}/end", identity.ScopeWrite, nil, (*Server).endStream},

		{"GET", "/v1/sessions", identity.ScopeRead, []string{"limit", "cursor"}, (*Server).listSessions},
		{"GET", "/v1/sessions/{id}", identity.ScopeRead, nil, (*Server).showSession},
		{"DELETE", "/v1/sessions/{id}", identity.ScopeRun, nil, (*Server).removeSession},

		{"GET", "/v1/mcp/sessions", identity.ScopeRead, []string{"limit", "cursor"}, (*Server).listMCPSessions},
		{"GET", "/v1/mcp/sessions/{id}", identity.ScopeRead, nil, (*Server).showMCPSession},
		{"DELETE", "/v1/mcp/sessions/{id}", identity.ScopeRun, nil, (*Server).endMCPSession},

		{"POST", "/v1/login", public, nil, (*Server).login},
		{"DELETE", "/v1/login", public, nil, (*Server).logout},
		{"POST", "/v1/tickets", identity.ScopeRead, nil, (*Server).issueTicket},

		{"GET", "/v1/store", identity.ScopeAdmin, nil, (*Server).storeStats},
		{"POST", "/v1/store/sweep", identity.ScopeAdmin, nil, (*Server).sweepStore},
		{"POST", "/v1/store/check", identity.ScopeAdmin, []string{"opaque"}, (*Server).checkStore},
		{"POST", "/v1/store/backup", identity.ScopeAdmin, nil, (*Server).backupStore},

		{"GET", "/openapi.yaml", public, nil, (*Server).openAPI},
		{"GET", "/healthz", public, nil, (*Server).healthz},
		{"GET", "/readyz", public, nil, (*Server).readyz},
		{"GET", "/metrics", identity.ScopeAdmin, nil, (*Server).metrics},
	}
}

// operations are the routes of one path, by method.
type operations struct {
	path    string
	routes  map[string]*route
	methods []string // sorted, HEAD and OPTIONS too
}

// newMux makes a handler for each path and one for all others, so that every
// refusal is ours: the errors of ServeMux itself are plain text.
func (s *Server) newMux() *http.ServeMux {
	paths := map[string]*operations{}
	for _, rt := range routes() {
		ops := paths[rt.path]
		if ops == nil {
			ops = &operations{path: rt.path, routes: map[string]*route{}, methods: []string{http.MethodOptions}}
			paths[rt.path] = ops
		}
		ops.routes[rt.method] = &rt
		ops.methods = append(ops.methods, rt.method)
		if rt.method == http.MethodGet {
			ops.routes[http.MethodHead] = &rt
			ops.methods = append(ops.methods, http.MethodHead)
		}
	}
	mux := http.NewServeMux()
	for _, ops := range paths {
		if s.opts.Store == nil && strings.HasPrefix(ops.path, storePath) ||
			s.opts.Files == nil && strings.HasPrefix(ops.path, filesPath) {
			continue
		}
		slices.Sort(ops.methods)
		mux.HandleFunc(ops.path, func(w http.ResponseWriter, r *http.Request) { s.dispatch(w, r, ops) })
	}
	if s.opts.MCP != nil {
		mux.HandleFunc(mcpPath, s.passToMCP)
	}
	if s.opts.Console != nil {
		mux.HandleFunc("/{$}", s.passPageToConsole)
		mux.HandleFunc(consolePath, s.passToConsole)
		mux.HandleFunc(strings.TrimSuffix(consolePath, "/"), s.noSuchPath) // ServeMux would redirect it
	}
	mux.HandleFunc("/", s.noSuchPath)
	return mux
}

// storePath is where the paths begin that need Options.Store.
const storePath = "/v1/store"

// mcpPath is where the Model Context Protocol is spoken, which has rules of its own.
const mcpPath = "/mcp"

func (s *Server) passToMCP(w http.ResponseWriter, r *http.Request) {
	recordOf(w).route = mcpPath
	s.opts.MCP.ServeHTTP(w, r)
}

// consolePath is below which the files of the console lie.
const consolePath = "/console/"

func (s *Server) passToConsole(w http.ResponseWriter, r *http.Request) {
	recordOf(w).route = consolePath
	s.allowWrite(w)
	s.opts.Console.ServeHTTP(w, r)
}

// passPageToConsole answers "/": browsers want a page, and get it. Other clients are told that there is nothing.
func (s *Server) passPageToConsole(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if form, err := accepts(r, jsonType, htmlType); err != nil || form != htmlType {
		s.noSuchPath(w, r)
		return
	}
	recordOf(w).route = "/"
	s.allowWrite(w)
	s.opts.Console.ServeHTTP(w, r)
}

// route hands a request to the handler of its path.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	// ServeMux would answer these with a redirection and a page.
	if p := r.URL.EscapedPath(); p != "/" && p != path.Clean("/"+p) {
		s.noSuchPath(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) noSuchPath(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, problem.New(problem.CodeNotFound, "there is no such path; /openapi.yaml lists those there are"))
}

// dispatch picks the route by the method and lets in who may use it.
//
// It and what it calls down to a reader that waits stay on the stack for as long as
// somebody follows. A stack is halved when less than a quarter of it is in use, which for
// the 16 KiB that a request reaches takes small frames: what makes large ones, such
// as problems, is made in functions that have returned by then.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, ops *operations) {
	recordOf(w).route = ops.path
	rt := ops.routes[r.Method]
	if rt == nil {
		s.noSuchMethod(w, r, ops)
		return
	}
	x := &exchange{w: w, r: r}
	err := s.admit(x, rt)
	if err == nil {
		err = rt.serve(s, x)
	}
	if err != nil {
		s.refuse(w, r, err)
	}
}

// noSuchMethod answers OPTIONS, and refuses what the path does not know.
func (s *Server) noSuchMethod(w http.ResponseWriter, r *http.Request, ops *operations) {
	methods := strings.Join(ops.methods, ", ")
	w.Header().Set("Allow", methods)
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.refuse(w, r, invalidStatus(http.StatusMethodNotAllowed, "this path knows the methods "+methods))
}

// admit checks who sent the request and which parameters it has.
func (s *Server) admit(x *exchange, rt *route) error {
	if s.draining.Err() != nil && rt.path != "/healthz" && rt.path != "/metrics" {
		return errDraining
	}
	if rt.scope != public {
		who, err := s.gate.Identify(x.r)
		if err != nil {
			return err
		}
		x.who = who
		httpserver.Authenticated(x.r)
		recordOf(x.w).principal = who.Name
		if rt.scope != oneStream && !who.May(rt.scope) {
			return fmt.Errorf("%w: this needs the scope %q", identity.ErrForbidden, rt.scope)
		}
	}
	var err error
	x.query, err = parseQuery(x.r.URL.RawQuery, rt.query)
	return err
}

// exchange is one request on its way, and the answer to it.
type exchange struct {
	w     http.ResponseWriter
	r     *http.Request
	who   identity.Principal
	query query
}

// mayRead refuses who may not read a stream. A ticket for another stream is refused
// whether that stream exists or not.
func (x *exchange) mayRead(name string) error {
	if !x.who.MayRead(streamKey(x.who.Tenant, name)) {
		return fmt.Errorf("%w: this stream is not yours to read", identity.ErrForbidden)
	}
	return nil
}
