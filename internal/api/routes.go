package api

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/oidc"
	"reprise/internal/reads"
	"reprise/internal/serverproof"
	"reprise/internal/web"
)

// eventQuery are the parameters of what reads events, also with a ticket.
var eventQuery = append(reads.Parameters[:len(reads.Parameters):len(reads.Parameters)], identity.TicketParam)

// routes adds the paths of what the server has. With all it adds every path, also those that have no use.
func (s *Server) routes(m *web.Mux, all bool) {
	for _, part := range []struct {
		there bool
		add   func(*web.Mux)
	}{
		{s.host != nil, s.streamRoutes},
		{s.host != nil, s.executionRoutes},
		{s.host != nil, s.interpreterRoutes},
		{s.host != nil, s.serverRoutes},
		{s.host != nil && s.opts.Token != "", s.proofRoutes},
		{true, s.quotaRoutes},
	} {
		if part.there || all {
			part.add(m)
		}
	}
	for _, part := range s.opts.Parts {
		part.Routes(m)
	}
	if s.opts.MCP != nil {
		m.Pass(mcpPath, mcpPath, http.HandlerFunc(s.passToMCP))
	}
	if s.opts.Issuers != nil {
		m.Pass(oidc.MetadataPath, oidc.MetadataPath, http.HandlerFunc(s.resourceMetadata))
		m.Pass(oidc.MetadataPath+"/", oidc.MetadataPath, http.HandlerFunc(s.resourceMetadata))
	}
	if s.opts.Console != nil {
		m.Pass("/{$}", "/", http.HandlerFunc(s.passPageToConsole))
		m.Pass(consolePath, consolePath, http.HandlerFunc(s.passToConsole))
		// which ServeMux would redirect
		m.Pass(strings.TrimSuffix(consolePath, "/"), "none", http.HandlerFunc(m.NoSuchPath))
	}
}

func (s *Server) executionRoutes(m *web.Mux) {
	list := []string{"session", "status", "label", "limit", "cursor"}
	output := []string{"offset", "follow", identity.TicketParam}
	screen := []string{"cols", "rows", identity.TicketParam}
	stdin := []string{"offset", "writer", "eof"}
	m.Handle("POST", "/v1/executions", identity.ScopeRun, []string{"hold"}, s.startExecution, web.Follows)
	m.Handle("GET", "/v1/executions", identity.ScopeRead, list, s.listExecutions)
	m.Handle("GET", "/v1/executions/{id}", identity.ScopeRead, nil, s.showExecution)
	m.Handle("GET", "/v1/executions/{id}/request", identity.ScopeRead, nil, s.showRequest)
	m.Handle("PATCH", "/v1/executions/{id}", identity.ScopeControl, nil, s.configureExecution)
	m.Handle("DELETE", "/v1/executions/{id}", identity.ScopeControl, nil, s.removeExecution)
	m.Handle("GET", "/v1/executions/{id}/events", web.OneStream, eventQuery, s.executionEvents, web.Follows)
	m.Handle("POST", "/v1/executions/{id}/receipts", identity.ScopeRead, []string{"seq"}, s.takeReceipt, web.Unrecorded)
	m.Handle("GET", "/v1/executions/{id}/stdout", web.OneStream, output, s.executionOutput)
	m.Handle("GET", "/v1/executions/{id}/stderr", web.OneStream, output, s.executionOutput)
	m.Handle("GET", "/v1/executions/{id}/screen", web.OneStream, screen, s.executionScreen)
	m.Handle("POST", "/v1/executions/{id}/stdin", identity.ScopeControl, stdin, s.writeStdin)
	m.Handle("POST", "/v1/executions/{id}/resize", identity.ScopeControl, nil, s.resizeExecution)
	m.Handle("POST", "/v1/executions/{id}/signal", identity.ScopeControl, nil, s.signalExecution)
	m.Handle("POST", "/v1/executions/{id}/cancel", identity.ScopeControl, nil, s.cancelExecution)
	m.Handle("GET", "/v1/sessions", identity.ScopeRead, []string{"limit", "cursor"}, s.listSessions)
	m.Handle("GET", "/v1/sessions/{id}", identity.ScopeRead, nil, s.showSession)
	m.Handle("DELETE", "/v1/sessions/{id}", identity.ScopeControl, nil, s.removeSession)
}

func (s *Server) streamRoutes(m *web.Mux) {
	m.Handle("GET", "/v1/events", identity.ScopeRead, []string{"of"}, s.readSeveral, web.Follows)
	m.Handle("GET", "/v1/streams", identity.ScopeRead, []string{"limit", "cursor"}, s.listStreams)
	m.Handle("PUT", "/v1/streams/{name}", identity.ScopePublish, nil, s.createStream)
	m.Handle("GET", "/v1/streams/{name}", identity.ScopeRead, nil, s.showStream)
	m.Handle("PATCH", "/v1/streams/{name}", identity.ScopeControl, nil, s.configureStream)
	m.Handle("DELETE", "/v1/streams/{name}", identity.ScopeControl, nil, s.removeStream)
	m.Handle("GET", "/v1/streams/{name}/events", web.OneStream, eventQuery, s.streamEvents, web.Follows)
	m.Handle("POST", "/v1/streams/{name}/events", identity.ScopePublish, []string{"type", expectedSeq}, s.publish,
		web.Follows)
	m.Handle("POST", "/v1/streams/{name}/trim", identity.ScopeControl, nil, s.trimStream)
	m.Handle("POST", "/v1/streams/{name}/end", identity.ScopePublish, nil, s.endStream)
}

// serverRoutes adds what every server has.
func (s *Server) serverRoutes(m *web.Mux) {
	m.Handle("GET", "/v1/login", web.Public, nil, s.showProviders)
	m.Handle("POST", "/v1/login", web.Public, nil, s.login)
	m.Handle("POST", "/v1/login/flows", web.Public, nil, s.beginFlow)
	m.Handle("DELETE", "/v1/login", web.Public, nil, s.logout)
	m.Handle("POST", "/v1/tickets", identity.ScopeRead, nil, s.issueTicket)
	m.Handle("POST", "/v1/tickets/renew", web.OneStream, []string{identity.TicketParam}, s.renewTicket)
	m.Handle("GET", "/v1/server", web.Anybody, nil, s.showServer)
	m.Handle("GET", "/openapi.yaml", web.Public, nil, s.openAPI)
	m.Handle("GET", "/healthz", web.Public, nil, s.healthz, web.WhileDraining)
	m.Handle("GET", "/readyz", web.Public, nil, s.readyz)
	m.Handle("GET", "/metrics", identity.ScopeAdmin, nil, s.metrics, web.WhileDraining, web.Unrecorded)
}

func (s *Server) proofRoutes(m *web.Mux) {
	m.Handle("GET", serverproof.Path, web.Public, []string{serverproof.Param}, s.prove, web.WhileDraining)
}

func (s *Server) quotaRoutes(m *web.Mux) {
	m.Handle("GET", "/v1/quota", web.Anybody, []string{"tenant", "principal"}, s.showQuota)
}

// maxShownPath limits the paths that an error repeats.
const maxShownPath = 256

// missing says what there is in place of a path that does not exist.
func (s *Server) missing(from string) string {
	if s.host == nil {
		return "there is no such path; below /v1 there are /v1/mcp/sessions, /v1/tasks, /v1/quota, /v1/keys and, " +
			"with --audit, /v1/audit alone"
	}
	name, ok := strings.CutPrefix(from, streamsPath)
	if ok && len(from) <= maxShownPath && strings.Contains(name, "/") {
		action := ""
		if dir, last := path.Split(name); slices.Contains([]string{"events", "end", "trim"}, last) {
			name, action = strings.TrimSuffix(dir, "/"), "/"+last
		}
		return "there is no such path; a slash in the name of a stream is written %2F: " +
			streamsPath + url.PathEscape(name) + action
	}
	return "there is no such path; /openapi.yaml lists those there are"
}

// off names the option that enables a path, or returns "" if there is none.
func (s *Server) off(path string) string {
	switch {
	case s.host == nil:
	case !s.web.Has("/v1/files") && (path == "/v1/files" || strings.HasPrefix(path, "/v1/files/")):
		return "this server gives no access to files; serve --files NAME=DIR does"
	case !s.web.Has("/v1/audit/events") && strings.HasPrefix(path, "/v1/audit/"):
		return "this server keeps no audit log; serve --audit does"
	}
	return ""
}

// mcpPath is the endpoint of the Model Context Protocol, which has its own rules.
const mcpPath = "/mcp"

// passToMCP leaves authentication to the endpoint, which repeats it during a response. Requests under way end as soon
// as the credential expires or is revoked.
func (s *Server) passToMCP(w http.ResponseWriter, r *http.Request) {
	if who, err := s.gate.Known(r); err == nil {
		rec := web.RecordOf(w)
		rec.Principal, rec.Tenant = who.Name, string(who.Tenant)
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
	s.web.AllowWrite(w)
	s.opts.Console.ServeHTTP(w, r)
}

// passPageToConsole answers "/": browsers get a page, and other clients get status 404.
func (s *Server) passPageToConsole(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if form, err := web.Accepts(r, web.JSON, web.HTML); err != nil || form != web.HTML {
		s.web.NoSuchPath(w, r)
		return
	}
	s.passToConsole(w, r)
}
