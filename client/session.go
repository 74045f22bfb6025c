package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Session summarizes the executions of one session.
type Session struct {
	ID string `json:"id"`
	// Created and Updated are when its first and its newest execution was started.
	Created Time `json:"created"`
	Updated Time `json:"updated"`
	// Count is the number of executions in the session. Running and Queued count those that have not ended.
	Count   int `json:"count"`
	Running int `json:"running"`
	Queued  int `json:"queued"`
	// LastSeq is the highest seq in any of their streams.
	LastSeq uint64 `json:"last_seq"`
	// Executions, newest first, is set if a single session was requested.
	Executions []Execution `json:"executions,omitempty"`

	// Raw is the object as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// SessionList is one page of sessions, newest first. NextCursor is "" on the last page.
type SessionList struct {
	Sessions   []Session `json:"sessions"`
	NextCursor string    `json:"next_cursor"`
}

// ListSessions returns one page of sessions. limit is 1 to 1,000, 0 for 100; cursor is
// SessionList.NextCursor of the page before, or "".
func (c *Client) ListSessions(ctx context.Context, limit int, cursor string) (SessionList, error) {
	return answer[SessionList](ctx, c, &request{
		op: "list sessions", method: http.MethodGet, path: "/v1/sessions", query: listQuery(limit, cursor),
	})
}

// ShowSession returns a session with its executions.
func (c *Client) ShowSession(ctx context.Context, id string) (Session, error) {
	op := "show session " + id
	if err := checkName(op, id); err != nil {
		return Session{}, err
	}
	return answer[Session](ctx, c, &request{op: op, method: http.MethodGet, path: sessionPath(id, "")})
}

// RemoveSession removes all executions of a session.
func (c *Client) RemoveSession(ctx context.Context, id string) error {
	return c.remove(ctx, "remove session "+id, id, sessionPath(id, ""))
}

// MCPSession is a session of a client of the Model Context Protocol.
type MCPSession struct {
	ID string `json:"id"`
	// Endpoint is "mcp", or "windows" for a "reprise mcp" on the data directory of the server. At a gateway it is the
	// name of the upstream.
	Endpoint string `json:"endpoint"`
	// Client is the client's description of itself, Version the protocol version.
	Client struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"client"`
	Version      string `json:"version"`
	Principal    string `json:"principal"`
	Created      Time   `json:"created"`
	LastActivity Time   `json:"last_activity"`
	// Streams is the number of kept streams, Running the number of unanswered calls among them, and
	// Bytes the size of the streams.
	Streams int   `json:"streams"`
	Running int   `json:"running"`
	Bytes   int64 `json:"bytes"`

	// Raw is the object as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// MCPSessionList is a page of sessions of MCP clients.
type MCPSessionList struct {
	Sessions []MCPSession `json:"sessions"`
	// NextCursor is "" on the last page.
	NextCursor string `json:"next_cursor"`
}

// ListMCPSessions returns one page of the sessions of MCP clients that have not ended. limit and cursor are as with
// ListSessions.
func (c *Client) ListMCPSessions(ctx context.Context, limit int, cursor string) (MCPSessionList, error) {
	return answer[MCPSessionList](ctx, c, &request{
		op: "list MCP sessions", method: http.MethodGet, path: "/v1/mcp/sessions", query: listQuery(limit, cursor),
	})
}

// ShowMCPSession returns a session of an MCP client.
func (c *Client) ShowMCPSession(ctx context.Context, id string) (MCPSession, error) {
	op := "show MCP session " + id
	if err := checkName(op, id); err != nil {
		return MCPSession{}, err
	}
	return answer[MCPSession](ctx, c, &request{op: op, method: http.MethodGet, path: mcpSessionPath(id)})
}

// EndMCPSession ends a session of an MCP client and cancels its calls. It is not an error if the session has ended.
func (c *Client) EndMCPSession(ctx context.Context, id string) error {
	return c.remove(ctx, "end MCP session "+id, id, mcpSessionPath(id))
}

// MCPCall is a kept call of a session of an MCP client.
type MCPCall struct {
	// ID names the call within its session.
	ID string `json:"id"`
	// Method is the method of the first request, and Name the tool, prompt or resource in it, or "".
	Method string `json:"method"`
	Name   string `json:"name"`
	// Requests is 1 except in version 2025-03-26 of the protocol.
	Requests int `json:"requests"`
	// Status is "running" or "answered".
	Status  string `json:"status"`
	Created Time   `json:"created"`
	Ended   Time   `json:"ended"`
	// Events is the number of kept messages to the client, and Bytes their size.
	Events uint64 `json:"events"`
	Bytes  int64  `json:"bytes"`

	// Raw is the object as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// MCPCallList is a page of calls, newest first.
type MCPCallList struct {
	Calls []MCPCall `json:"calls"`
	// NextCursor is "" on the last page.
	NextCursor string `json:"next_cursor"`
}

// ListMCPCalls returns one page of the kept calls of a session of an MCP client. limit and cursor are as with
// ListSessions.
func (c *Client) ListMCPCalls(ctx context.Context, session string, limit int, cursor string) (MCPCallList, error) {
	op := "list calls of MCP session " + session
	if err := checkName(op, session); err != nil {
		return MCPCallList{}, err
	}
	return answer[MCPCallList](ctx, c, &request{
		op: op, method: http.MethodGet, path: mcpSessionPath(session) + "/calls", query: listQuery(limit, cursor),
	})
}

func mcpSessionPath(id string) string { return "/v1/mcp/sessions/" + url.PathEscape(id) }

// TicketRequest describes a ticket that permits reading one stream and nothing else, for a page that cannot send a
// token. Either Execution or Stream is required.
type TicketRequest struct {
	Execution string `json:"execution,omitempty"`
	Stream    string `json:"stream,omitempty"`
	// TTL is the lifetime; 0 is the server's default.
	TTL Duration `json:"ttl,omitzero"`
}

// Ticket is valid until Expires, as the query parameter "ticket". It is a secret.
type Ticket struct {
	Ticket  string `json:"ticket"`
	Expires Time   `json:"expires"`
	// Events is the path of the stream's events with the ticket in it.
	Events string `json:"events"`
}

// Ticket issues a ticket.
func (c *Client) Ticket(ctx context.Context, t TicketRequest) (Ticket, error) {
	r, err := jsonRequest("issue a ticket", http.MethodPost, "/v1/tickets", t)
	if err != nil {
		return Ticket{}, err
	}
	return answer[Ticket](ctx, c, r)
}
