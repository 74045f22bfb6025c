package api

import (
	"errors"
	"net/http"
	"net/url"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/web"
	"reprise/internal/wire"
	"reprise/mcp/mcphttp"
)

// mcpSessionsPath is where the sessions of MCP clients are listed.
const mcpSessionsPath = "/v1/mcp/sessions"

func (s *Server) mcpSessionRoutes(m *web.Mux) {
	const one = mcpSessionsPath + "/{id}"
	page := []string{"limit", "cursor"}
	m.Handle("GET", mcpSessionsPath, identity.ScopeRead, page, s.listMCPSessions)
	m.Handle("GET", one, identity.ScopeRead, nil, s.showMCPSession)
	m.Handle("DELETE", one, identity.ScopeControl, nil, s.endMCPSession)
	m.Handle("GET", one+"/calls", identity.ScopeRead, page, s.listMCPCalls)
}

// mcpSessionBody is how a session of MCP is shown.
type mcpSessionBody struct {
	ID string `json:"id"`
	// Endpoint is the endpoint at which the session was opened; see Options.MCPSessions.
	Endpoint     string          `json:"endpoint"`
	Client       mcpClientBody   `json:"client"`
	Version      string          `json:"version"`
	Principal    string          `json:"principal"`
	Created      execution.Time  `json:"created"`
	LastActivity execution.Time  `json:"last_activity"`
	Streams      int             `json:"streams"`
	Running      int             `json:"running"`
	Bytes        int64           `json:"bytes"`
	Links        mcpSessionLinks `json:"links"`
}

type mcpClientBody struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type mcpSessionLinks struct {
	Self  string `json:"self"`
	Calls string `json:"calls"`
}

// mcpCallBody is how a call of a session is shown.
type mcpCallBody struct {
	ID       string          `json:"id"`
	Method   string          `json:"method"`
	Name     string          `json:"name"`
	Requests int             `json:"requests"`
	Status   string          `json:"status"`
	Created  execution.Time  `json:"created"`
	Ended    *execution.Time `json:"ended"`
	Events   uint64          `json:"events"`
	Bytes    int64           `json:"bytes"`
}

func showMCPCall(c *mcphttp.CallInfo) mcpCallBody {
	b := mcpCallBody{
		ID: c.ID, Method: c.Method, Name: c.Name, Requests: c.Requests, Status: "running",
		Created: wire.At(c.Created), Ended: wire.NonZero(c.Ended), Events: c.Events, Bytes: c.Bytes,
	}
	if b.Ended != nil {
		b.Status = "answered"
	}
	return b
}

// MCPEndpoint is an endpoint whose sessions can be seen.
type MCPEndpoint struct {
	// Name is the name that users know the endpoint by.
	Name    string
	Handler *mcphttp.Handler
}

func (e *MCPEndpoint) show(s *mcphttp.SessionInfo) mcpSessionBody {
	self := mcpSessionsPath + "/" + url.PathEscape(s.ID)
	return mcpSessionBody{
		ID: s.ID, Endpoint: e.Name, Client: mcpClientBody{s.Client, s.ClientVersion}, Version: s.Version,
		Principal: s.Principal, Created: wire.At(s.Created), LastActivity: wire.At(s.Used),
		Streams: s.Streams, Running: s.Running, Bytes: s.Bytes,
		Links: mcpSessionLinks{Self: self, Calls: self + "/calls"},
	}
}

// endpointsFor returns the endpoints whose sessions a scope permits. Sessions of MCP do not belong to a session of
// executions, so a scope with a prefix permits none.
func (s *Server) endpointsFor(x *web.Exchange, scope identity.Scope) []MCPEndpoint {
	if !x.Who.MayAll(scope) {
		return nil
	}
	return s.opts.MCPSessions
}

func (s *Server) listMCPSessions(x *web.Exchange) error {
	list := func(e *MCPEndpoint, limit int, after string) (shown []mcpSessionBody, next string, err error) {
		page, err := e.Handler.Sessions(x.R.Context(), x.Who.Tenant, limit, after)
		for i := range page.Sessions {
			shown = append(shown, e.show(&page.Sessions[i]))
		}
		return shown, page.Next, err
	}
	shown, next, err := listEach(x, s.endpointsFor(x, identity.ScopeRead), list)
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, struct {
		Sessions   []mcpSessionBody `json:"sessions"`
		NextCursor string           `json:"next_cursor"`
	}{shown, next})
}

func (s *Server) showMCPSession(x *web.Exchange) error {
	return findIn(s.endpointsFor(x, identity.ScopeRead), func(e *MCPEndpoint) error {
		info, err := e.Handler.SessionInfo(x.R.Context(), x.Who.Tenant, x.R.PathValue("id"))
		if err != nil {
			return err
		}
		return x.Answer(http.StatusOK, e.show(&info))
	})
}

// listMCPCalls lists the kept calls of a session.
func (s *Server) listMCPCalls(x *web.Exchange) error {
	limit, cursor, err := x.Query.Page()
	if err != nil {
		return err
	}
	return findIn(s.endpointsFor(x, identity.ScopeRead), func(e *MCPEndpoint) error {
		page, err := e.Handler.Calls(x.R.Context(), x.Who.Tenant, x.R.PathValue("id"), limit, cursor)
		if err != nil {
			return x.Query.ListError(err)
		}
		shown := make([]mcpCallBody, len(page.Calls))
		for i := range page.Calls {
			shown[i] = showMCPCall(&page.Calls[i])
		}
		return x.Answer(http.StatusOK, struct {
			Calls      []mcpCallBody `json:"calls"`
			NextCursor string        `json:"next_cursor"`
		}{shown, page.Next})
	})
}

// endMCPSession ends a session. One that has ended, does not exist or may not be ended is answered alike.
func (s *Server) endMCPSession(x *web.Exchange) error {
	err := findIn(s.endpointsFor(x, identity.ScopeControl), func(e *MCPEndpoint) error {
		return e.Handler.EndSession(x.R.Context(), x.Who.Tenant, x.R.PathValue("id"))
	})
	if err != nil && !errors.Is(err, reprise.ErrNotFound) {
		return err
	}
	return x.Done()
}
