package api

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/oidc"
	"reprise/internal/problem"
	"reprise/internal/serverproof"
)

// The permission that a route needs: a scope, or one of these.
const (
	// public: everybody, known or not.
	public identity.Scope = "*"
	// oneStream permits senders that may read the stream in question, with a ticket too. The handler checks it, because
	// only the handler knows the stream.
	oneStream identity.Scope = "?"
	// anybody: every principal, whatever its scopes are, but no ticket.
	anybody identity.Scope = "any"
)

// route is one operation of the API. The same list is in openapi.yaml.
type route struct {
	method, path string
	scope        identity.Scope
	query        []string // the parameters that it knows
	serve        func(*Server, *exchange) error
}

// The parameters of everything that reads events, that for tickets last.
var eventQuery = []string{"after", "cursor", "types", "gap", "cursors", "limit", "wait", identity.TicketParam}

func routes() []route {
	return slices.Concat(coreRoutes(), interpreterRoutes(), fileRoutes(), webhookRoutes(), scheduleRoutes(),
		replicaRoutes(), mcpSessionRoutes(), taskRoutes())
}

// coreRoutes returns the routes that every server has, except those of the store.
func coreRoutes() []route {
	output := []string{"offset", "follow", identity.TicketParam}
	return []route{
		{"POST", "/v1/executions", identity.ScopeRun, []string{"hold"}, (*Server).startExecution},
		{
			"GET", "/v1/executions", identity.ScopeRead,
			[]string{"session", "status", "label", "limit", "cursor"},
			(*Server).listExecutions,
		},
		{"GET", "/v1/executions/{id}", identity.ScopeRead, nil, (*Server).showExecution},
		{"PATCH", "/v1/executions/{id}", identity.ScopeControl, nil, (*Server).configureExecution},
		{"DELETE", "/v1/executions/{id}", identity.ScopeControl, nil, (*Server).removeExecution},
		{"GET", "/v1/executions/{id}/events", oneStream, eventQuery, (*Server).executionEvents},
		{"POST", receiptsPath, identity.ScopeRead, []string{"seq"}, (*Server).takeReceipt},
		{"GET", "/v1/executions/{id}/stdout", oneStream, output, (*Server).executionOutput},
		{"GET", "/v1/executions/{id}/stderr", oneStream, output, (*Server).executionOutput},
		{
			"GET", "/v1/executions/{id}/screen", oneStream,
			[]string{"cols", "rows", identity.TicketParam},
			(*Server).executionScreen,
		},
		{
			"POST", "/v1/executions/{id}/stdin", identity.ScopeControl,
			[]string{"offset", "writer", "eof"},
			(*Server).writeStdin,
		},
		{"POST", "/v1/executions/{id}/resize", identity.ScopeControl, nil, (*Server).resizeExecution},
		{"POST", "/v1/executions/{id}/signal", identity.ScopeControl, nil, (*Server).signalExecution},
		{"POST", "/v1/executions/{id}/cancel", identity.ScopeControl, nil, (*Server).cancelExecution},

		{"GET", "/v1/events", identity.ScopeRead, []string{"of"}, (*Server).readSeveral},

		{"GET", "/v1/streams", identity.ScopeRead, []string{"limit", "cursor"}, (*Server).listStreams},
		{"PUT", "/v1/streams/{name}", identity.ScopePublish, nil, (*Server).createStream},
		{"GET", "/v1/streams/{name}", identity.ScopeRead, nil, (*Server).showStream},
		{"PATCH", "/v1/streams/{name}", identity.ScopeControl, nil, (*Server).configureStream},
		{"DELETE", "/v1/streams/{name}", identity.ScopeControl, nil, (*Server).removeStream},
		{"GET", "/v1/streams/{name}/events", oneStream, eventQuery, (*Server).streamEvents},
		{"POST", "/v1/streams/{name}/events", identity.ScopePublish, []string{"type"}, (*Server).publish},
		{"POST", "/v1/streams/{name}/end", identity.ScopePublish, nil, (*Server).endStream},

		{"GET", "/v1/sessions", identity.ScopeRead, []string{"limit", "cursor"}, (*Server).listSessions},
		{"GET", "/v1/sessions/{id}", identity.ScopeRead, nil, (*Server).showSession},
		{"DELETE", "/v1/sessions/{id}", identity.ScopeControl, nil, (*Server).removeSession},

		{"POST", "/v1/login", public, nil, (*Server).login},
		{"DELETE", "/v1/login", public, nil, (*Server).logout},
		{"POST", "/v1/tickets", identity.ScopeRead, nil, (*Server).issueTicket},
		{"POST", "/v1/tickets/renew", oneStream, []string{identity.TicketParam}, (*Server).renewTicket},

		{"GET", quotaPath, anybody, []string{"tenant", "principal"}, (*Server).showQuota},
		{"GET", "/v1/server", anybody, nil, (*Server).showServer},

		{"GET", "/v1/keys", identity.ScopeAdmin, nil, (*Server).listKeys},
		{"POST", "/v1/keys", identity.ScopeAdmin, nil, (*Server).addKey},
		{"GET", "/v1/keys/{id}", identity.ScopeAdmin, nil, (*Server).showKey},
		{"DELETE", "/v1/keys/{id}", identity.ScopeAdmin, nil, (*Server).revokeKey},
		{"POST", "/v1/keys/{id}/rotate", identity.ScopeAdmin, nil, (*Server).rotateKey},
		{"PUT", "/v1/keys/{id}/limits", identity.ScopeAdmin, nil, (*Server).limitKey},

		{"GET", "/v1/audit/events", identity.ScopeAudit, eventQuery[:len(eventQuery)-1], (*Server).auditEvents},
		{"POST", "/v1/audit/check", identity.ScopeAudit, nil, (*Server).checkAudit},

		{"GET", "/v1/store", identity.ScopeAdmin, []string{"advise"}, (*Server).storeStats},
		{"POST", "/v1/store/sweep", identity.ScopeAdmin, nil, (*Server).sweepStore},
		{"POST", "/v1/store/check", identity.ScopeAdmin, []string{"opaque"}, (*Server).checkStore},
		{"POST", "/v1/store/backup", identity.ScopeAdmin, nil, (*Server).backupStore},

		{"GET", serverproof.Path, public, []string{serverproof.Param}, (*Server).prove},
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

// newMux registers a handler for each path and one for all others, so that every refusal is a problem: the errors of
// ServeMux itself are plain text.
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
		if s.lacks(ops.path) {
			continue
		}
		slices.Sort(ops.methods)
		mux.HandleFunc(ops.path, func(w http.ResponseWriter, r *http.Request) { s.dispatch(w, r, ops) })
	}
	if s.opts.MCP != nil {
		mux.HandleFunc(mcpPath, s.passToMCP)
	}
	if s.opts.Issuers != nil {
		mux.HandleFunc(oidc.MetadataPath, s.resourceMetadata)
		mux.HandleFunc(oidc.MetadataPath+"/", s.resourceMetadata)
	}
	if s.opts.Console != nil {
		mux.HandleFunc("/{$}", s.passPageToConsole)
		mux.HandleFunc(consolePath, s.passToConsole)
		mux.HandleFunc(strings.TrimSuffix(consolePath, "/"), s.noSuchPath) // ServeMux would redirect it
	}
	mux.HandleFunc("/", s.noSuchPath)
	return mux
}

const (
	// receiptsPath is where receipts are sent, which are part of reading.
	receiptsPath = "/v1/executions/{id}/receipts"
	// quotaPath is where quotas are shown.
	quotaPath = "/v1/quota"
)

// storePath, keysPath and auditPath are the prefixes of the paths that need Options.Store, Options.Keys and
// Options.Audit.
const (
	storePath = "/v1/store"
	keysPath  = "/v1/keys"
	auditPath = "/v1/audit"
)

// isManagement reports whether a path exists without streams and executions; see NewManagement.
func isManagement(path string) bool {
	return slices.ContainsFunc([]string{quotaPath, keysPath, auditPath, mcpSessionsPath, tasksPath},
		func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") })
}

// lacks reports whether the server lacks the option for a path.
func (s *Server) lacks(path string) bool {
	return s.host == nil && !isManagement(path) ||
		s.opts.Token == "" && path == serverproof.Path ||
		s.opts.Store == nil && strings.HasPrefix(path, storePath) ||
		s.opts.Files == nil && strings.HasPrefix(path, filesPath) ||
		s.opts.Webhooks == nil && strings.HasPrefix(path, webhooksPath) ||
		s.opts.Schedules == nil && strings.HasPrefix(path, schedulesPath) ||
		s.opts.Replicas == nil && strings.HasPrefix(path, replicasPath) ||
		len(s.opts.MCPTasks) == 0 && strings.HasPrefix(path, tasksPath) ||
		s.opts.Keys == nil && strings.HasPrefix(path, keysPath) ||
		s.opts.Audit == nil && strings.HasPrefix(path, auditPath)
}

// offDetail names the option that enables a path, or returns "" if there is none.
func offDetail(path string) string {
	switch {
	case path == filesPath || strings.HasPrefix(path, filesPath+"/"):
		return "this server gives no access to files; serve --files NAME=DIR does"
	case strings.HasPrefix(path, auditPath+"/"):
		return "this server keeps no audit log; serve --audit does"
	}
	return ""
}

// mcpPath is the endpoint of the Model Context Protocol, which has its own rules.
const mcpPath = "/mcp"

// passToMCP leaves authentication to the endpoint, which repeats it during a response. Requests under way end as soon
// as the credential expires or is revoked.
func (s *Server) passToMCP(w http.ResponseWriter, r *http.Request) {
	recordOf(w).route = mcpPath
	if who, err := s.gate.Known(r); err == nil {
		recordOf(w).Principal, recordOf(w).Tenant = who.Name, string(who.Tenant)
		ctx, release := identity.WhileGood(r.Context(), &who)
		defer release()
		defer httpserver.EndBody(ctx, r)()
		r = r.WithContext(ctx)
	}
	s.opts.MCP.ServeHTTP(w, r)
}

// consolePath is below which the files of the console lie.
const consolePath = "/console/"

func (s *Server) passToConsole(w http.ResponseWriter, r *http.Request) {
	recordOf(w).route = consolePath
	s.allowWrite(w)
	s.opts.Console.ServeHTTP(w, r)
}

// passPageToConsole answers "/": browsers get a page, and other clients get status 404.
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
	if p := r.URL.EscapedPath(); p != "/" && (!strings.HasPrefix(p, "/") || p != path.Clean(p)) {
		s.noSuchPath(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) noSuchPath(w http.ResponseWriter, r *http.Request) {
	detail := "there is no such path; /openapi.yaml lists those there are"
	if s.host == nil {
		detail = "there is no such path; below /v1 there are /v1/mcp/sessions, /v1/tasks, /v1/quota, /v1/keys and, " +
			"with --audit, /v1/audit alone"
	} else if off := offDetail(r.URL.Path); off != "" && s.lacks(r.URL.Path) {
		if _, err := s.gate.Identify(r); err != nil { // how the server is set up is not for everybody
			s.refuse(w, r, s.challenged(&exchange{w: w, r: r}, err))
			return
		}
		detail = off
	}
	s.refuse(w, r, problem.New(problem.CodeNotFound, detail))
}

// dispatch selects the route by the method and checks the permission of the sender.
//
// The stack frames from dispatch down to a waiting reader exist for as long as a client follows. The runtime halves a
// stack when less than a quarter of it is in use. Requests reach 16 KiB, so the frames have to be small: code with
// large frames, such as problems, is in functions that have returned by then.
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
		s.endWithCredential(x, rt)
	}
	if err == nil && s.opts.Audit != nil {
		err = s.record(x, rt)
	}
	if err == nil {
		err = rt.serve(s, x)
	}
	if err != nil {
		s.refuse(w, r, s.challenged(x, err))
	}
	if s.opts.Audit != nil {
		s.recordRefusal(x, rt)
	}
}

// endWithCredential makes the request end as soon as its credential expires or is revoked.
func (s *Server) endWithCredential(x *exchange, rt *route) {
	ctx, release := identity.WhileGood(s.mayPark(x, rt), &x.who)
	x.atEnd(release)
	if ctx != x.r.Context() { // WithContext copies the request
		x.r = x.r.WithContext(ctx)
	}
	if x.who.CanEnd() {
		x.atEnd(httpserver.EndBody(ctx, x.r))
	}
}

// mayPark returns the context of the request, which for a response that may be parked lives as long as the response.
func (s *Server) mayPark(x *exchange, rt *route) context.Context {
	follows := rt.path == "/v1/executions" || strings.HasSuffix(rt.path, "/events")
	if s.opts.Parking == nil || !follows || !asksForEvents(x.r) {
		return x.r.Context()
	}
	rec := recordOf(x.w)
	rec.seat = s.opts.Parking.Seat(x.w, x.r, func(w http.ResponseWriter) { rec.ResponseWriter = w })
	if rec.seat == nil {
		return x.r.Context()
	}
	return rec.seat
}

// noSuchMethod answers OPTIONS, and refuses methods that the path does not have.
func (s *Server) noSuchMethod(w http.ResponseWriter, r *http.Request, ops *operations) {
	methods := strings.Join(ops.methods, ", ")
	w.Header().Set("Allow", methods)
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.refuse(w, r, invalidStatus(http.StatusMethodNotAllowed, "this path knows the methods "+methods))
}

// admit checks the sender and the parameters of the request.
func (s *Server) admit(x *exchange, rt *route) error {
	if s.draining.Err() != nil && rt.path != "/healthz" && rt.path != "/metrics" && rt.path != serverproof.Path {
		return errDraining
	}
	if rt.scope != public {
		who, err := s.gate.Identify(x.r)
		if err != nil {
			return err
		}
		x.who, x.scope = who, rt.scope
		httpserver.Authenticated(x.r)
		recordOf(x.w).Principal, recordOf(x.w).Tenant = who.Name, string(who.Tenant)
		if rt.scope == anybody && who.Only != (reprise.StreamKey{}) {
			return errTicketReads
		}
		if rt.scope != oneStream && rt.scope != anybody {
			if err := x.needs(rt.scope); err != nil {
				return err
			}
		}
	}
	if httpserver.IsEncoded(x.r) {
		x.w.Header().Set("Accept-Encoding", "identity")
		return invalidStatus(http.StatusUnsupportedMediaType, "the body has a Content-Encoding, and none is read")
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
	scope identity.Scope // that the route needs
	query query
}

// atEnd calls f when the response ends, which for a parked one is after its handler.
func (x *exchange) atEnd(f func()) { recordOf(x.w).atEnd(f) }
