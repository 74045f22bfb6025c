package api

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/mcp/mcphttp"
)

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
		Created: timeOf(c.Created), Ended: timeOrNull(c.Ended), Events: c.Events, Bytes: c.Bytes,
	}
	if b.Ended != nil {
		b.Status = "answered"
	}
	return b
}

// MCPEndpoint is an endpoint whose sessions can be seen.
type MCPEndpoint struct {
	Name    string
	Handler *mcphttp.Handler
}

func (e *MCPEndpoint) show(s *mcphttp.SessionInfo) mcpSessionBody {
	self := "/v1/mcp/sessions/" + url.PathEscape(s.ID)
	return mcpSessionBody{
		ID: s.ID, Endpoint: e.Name, Client: mcpClientBody{s.Client, s.ClientVersion}, Version: s.Version,
		Principal: s.Principal, Created: timeOf(s.Created), LastActivity: timeOf(s.Used),
		Streams: s.Streams, Running: s.Running, Bytes: s.Bytes,
		Links: mcpSessionLinks{Self: self, Calls: self + "/calls"},
	}
}

func timeOf(t time.Time) execution.Time { return execution.Time{Time: t.UTC()} }

// listMCPSessions lists the sessions of one endpoint after those of another. A cursor consists of the number of an
// endpoint and a position there.
func (s *Server) listMCPSessions(x *exchange) error {
	limit, cursor, err := x.query.page()
	if err != nil {
		return err
	}
	at, after := 0, ""
	if cursor != "" {
		number, rest, _ := strings.Cut(cursor, ".")
		if at, err = strconv.Atoi(number); err != nil || at < 0 || at >= len(s.opts.MCPSessions) {
			return badRequest("cursor", "it is that of no page")
		}
		after = rest
	}
	shown, next := []mcpSessionBody{}, ""
	if !x.who.MayAll(identity.ScopeRead) {
		at = len(s.opts.MCPSessions) // they do not belong to a session of executions
	}
	for ; at < len(s.opts.MCPSessions) && len(shown) < limit; at, after = at+1, "" {
		e := &s.opts.MCPSessions[at]
		page, err := e.Handler.Sessions(x.r.Context(), x.who.Tenant, limit-len(shown), after)
		if err != nil {
			return err
		}
		for i := range page.Sessions {
			shown = append(shown, e.show(&page.Sessions[i]))
		}
		if page.Next != "" {
			next = strconv.Itoa(at) + "." + page.Next
			break
		}
		if at+1 < len(s.opts.MCPSessions) && len(shown) == limit {
			next = strconv.Itoa(at+1) + "."
		}
	}
	return s.answer(x, http.StatusOK, struct {
		Sessions   []mcpSessionBody `json:"sessions"`
		NextCursor string           `json:"next_cursor"`
	}{shown, next})
}

func (s *Server) showMCPSession(x *exchange) error {
	if !x.who.MayAll(identity.ScopeRead) {
		return reprise.ErrNotFound
	}
	for i := range s.opts.MCPSessions {
		e := &s.opts.MCPSessions[i]
		info, err := e.Handler.SessionInfo(x.r.Context(), x.who.Tenant, x.r.PathValue("id"))
		if err == nil {
			return s.answer(x, http.StatusOK, e.show(&info))
		}
		if !errors.Is(err, reprise.ErrNotFound) {
			return err
		}
	}
	return reprise.ErrNotFound
}

// listMCPCalls lists the kept calls of a session.
func (s *Server) listMCPCalls(x *exchange) error {
	limit, cursor, err := x.query.page()
	if err != nil {
		return err
	}
	if !x.who.MayAll(identity.ScopeRead) {
		return reprise.ErrNotFound
	}
	for i := range s.opts.MCPSessions {
		page, err := s.opts.MCPSessions[i].Handler.Calls(
			x.r.Context(), x.who.Tenant, x.r.PathValue("id"), limit, cursor)
		if errors.Is(err, reprise.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		shown := make([]mcpCallBody, len(page.Calls))
		for i := range page.Calls {
			shown[i] = showMCPCall(&page.Calls[i])
		}
		return s.answer(x, http.StatusOK, struct {
			Calls      []mcpCallBody `json:"calls"`
			NextCursor string        `json:"next_cursor"`
		}{shown, page.Next})
	}
	return reprise.ErrNotFound
}

func (s *Server) endMCPSession(x *exchange) error {
	if !x.who.MayAll(identity.ScopeControl) {
		return x.done() // as for one that does not exist
	}
	for i := range s.opts.MCPSessions {
		err := s.opts.MCPSessions[i].Handler.EndSession(x.r.Context(), x.who.Tenant, x.r.PathValue("id"))
		if err == nil {
			return x.done()
		}
		if !errors.Is(err, reprise.ErrNotFound) {
			return err
		}
	}
	return x.done() // it has ended, as requested
}
