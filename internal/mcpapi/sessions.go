package mcpapi

import (
	"errors"
	"net/http"
	"net/url"

	"reprise"
	"reprise/client"
	"reprise/internal/identity"
	"reprise/internal/web"
	"reprise/internal/wire"
	"reprise/mcp/mcphttp"
)

// sessionsPath is where the sessions of MCP clients are listed.
const sessionsPath = "/v1/mcp/sessions"

// Sessions shows and ends the sessions of endpoints over HTTP.
type Sessions []Endpoint

// Routes implements web.Part.
func (s Sessions) Routes(m *web.Mux) {
	const one = sessionsPath + "/{id}"
	page := []string{"limit", "cursor"}
	m.Handle("GET", sessionsPath, identity.ScopeRead, page, s.list)
	m.Handle("GET", one, identity.ScopeRead, nil, s.show)
	m.Handle("DELETE", one, identity.ScopeControl, nil, s.end)
	m.Handle("GET", one+"/calls", identity.ScopeRead, page, s.calls)
}

// sessionBody is how a session of MCP is shown.
type sessionBody struct {
	client.MCPSession
	Links sessionLinks `json:"links"`
}

type sessionLinks struct {
	Self  string `json:"self"`
	Calls string `json:"calls"`
}

func showCall(c *mcphttp.CallInfo) client.MCPCall {
	b := client.MCPCall{
		ID: c.ID, Method: c.Method, Name: c.Name, Requests: c.Requests, Status: "running",
		Created: wire.At(c.Created), Ended: wire.At(c.Ended), Events: c.Events, Bytes: c.Bytes,
	}
	if !b.Ended.IsZero() {
		b.Status = "answered"
	}
	return b
}

// Endpoint is an endpoint whose sessions can be seen.
type Endpoint struct {
	// Name is the name that users know the endpoint by.
	Name    string
	Handler *mcphttp.Handler
}

func (e *Endpoint) show(s *mcphttp.SessionInfo) sessionBody {
	self := sessionsPath + "/" + url.PathEscape(s.ID)
	body := sessionBody{client.MCPSession{
		ID: s.ID, Endpoint: e.Name, Version: s.Version, Principal: s.Principal,
		Created: wire.At(s.Created), LastActivity: wire.At(s.Used),
		Streams: s.Streams, Running: s.Running, Bytes: s.Bytes,
	}, sessionLinks{Self: self, Calls: self + "/calls"}}
	body.Client.Name, body.Client.Version = s.Client, s.ClientVersion
	return body
}

// visible returns the endpoints whose sessions a scope permits. Sessions of MCP do not belong to a session of
// executions, so a scope with a prefix permits none.
func (s Sessions) visible(x *web.Exchange, scope identity.Scope) []Endpoint {
	if !x.Who.MayAll(scope) {
		return nil
	}
	return s
}

func (s Sessions) list(x *web.Exchange) error {
	list := func(e *Endpoint, limit int, after string) (shown []sessionBody, next string, err error) {
		page, err := e.Handler.Sessions(x.R.Context(), x.Who.Tenant, limit, after)
		for i := range page.Sessions {
			shown = append(shown, e.show(&page.Sessions[i]))
		}
		return shown, page.Next, err
	}
	shown, next, err := listEach(x, s.visible(x, identity.ScopeRead), list)
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, struct {
		Sessions   []sessionBody `json:"sessions"`
		NextCursor string        `json:"next_cursor"`
	}{shown, next})
}

func (s Sessions) show(x *web.Exchange) error {
	return findIn(s.visible(x, identity.ScopeRead), func(e *Endpoint) error {
		info, err := e.Handler.SessionInfo(x.R.Context(), x.Who.Tenant, x.R.PathValue("id"))
		if err != nil {
			return err
		}
		return x.Answer(http.StatusOK, e.show(&info))
	})
}

// calls lists the kept calls of a session.
func (s Sessions) calls(x *web.Exchange) error {
	limit, cursor, err := x.Query.Page()
	if err != nil {
		return err
	}
	return findIn(s.visible(x, identity.ScopeRead), func(e *Endpoint) error {
		page, err := e.Handler.Calls(x.R.Context(), x.Who.Tenant, x.R.PathValue("id"), limit, cursor)
		if err != nil {
			return x.Query.ListError(err)
		}
		shown := make([]client.MCPCall, len(page.Calls))
		for i := range page.Calls {
			shown[i] = showCall(&page.Calls[i])
		}
		return x.Answer(http.StatusOK, struct {
			Calls      []client.MCPCall `json:"calls"`
			NextCursor string           `json:"next_cursor"`
		}{shown, page.Next})
	})
}

// end ends a session. One that has ended, does not exist or may not be ended is answered alike.
func (s Sessions) end(x *web.Exchange) error {
	err := findIn(s.visible(x, identity.ScopeControl), func(e *Endpoint) error {
		return e.Handler.EndSession(x.R.Context(), x.Who.Tenant, x.R.PathValue("id"))
	})
	if err != nil && !errors.Is(err, reprise.ErrNotFound) {
		return err
	}
	return x.Done()
}
