package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/audit"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/problem"
	"reprise/mcp/mcphttp"
)

// caller is the sender of a request.
type caller struct {
	tenant reprise.Tenant
	who    identity.Principal
}

// scopesOf are the scopes that each tool needs, all of them. The same table is in docs/security.md.
var scopesOf = map[string][]identity.Scope{
	toolExecute: {identity.ScopeRun, identity.ScopeRead}, // its answer shows output
	toolStart:   {identity.ScopeRun},
	toolOutput:  {identity.ScopeRead},
	toolSearch:  {identity.ScopeRead},
	toolStatus:  {identity.ScopeRead},
	toolList:    {identity.ScopeRead},
	toolStdin:   {identity.ScopeControl},
	toolCancel:  {identity.ScopeControl},

	readResources: {identity.ScopeRead},
}

// Needs are the scopes that a message of a client needs, all of them; none for a message that calls no tool of ours.
func Needs(m *mcphttp.Message) []identity.Scope {
	if m.Method == readResources {
		return scopesOf[readResources]
	}
	if m.Method != callTool {
		return nil
	}
	// Names are compared with their case, as in the code that runs the tool.
	var params map[string]json.RawMessage
	var tool string
	if json.Unmarshal(m.Params, &params) != nil || json.Unmarshal(params["name"], &tool) != nil {
		return nil
	}
	if tool == readResources {
		return nil
	}
	return scopesOf[tool]
}

// callTool is the method that calls a tool.
const callTool = "tools/call"

// readResources is what resources are read by.
const readResources = "resources/read"

// enter identifies the caller of a request, refuses a caller without any scope of the tool, and records the call.
func (s *Server) enter(ctx context.Context, req mcp.Request, tool string) (caller, error) {
	c, err := s.identify(ctx, req, tool)
	if err == nil {
		err = s.record(ctx, &c, tool, "")
	}
	return c, err
}

func (s *Server) identify(ctx context.Context, req mcp.Request, tool string) (caller, error) {
	tenant, name, err := s.opts.Identify(ctx, req)
	if err != nil {
		return caller{}, err
	}
	who, err := s.opts.Principal(ctx, tenant, name)
	if err != nil {
		return caller{}, err
	}
	for _, scope := range scopesOf[tool] {
		if !who.May(scope) {
			e := audit.Entry{Principal: name, Tenant: tenant, Act: "MCP " + tool, Result: string(problem.CodeForbidden)}
			return caller{}, errors.Join(&identity.ScopeError{Scope: scope}, s.opts.Audit(ctx, e, false))
		}
	}
	return caller{tenant, who}, nil
}

// record has a call recorded, to an execution if id is not "".
func (s *Server) record(ctx context.Context, c *caller, tool, id string) error {
	change := !slices.Equal(scopesOf[tool], []identity.Scope{identity.ScopeRead})
	e := audit.Entry{Principal: c.who.Name, Tenant: c.tenant, Act: "MCP " + tool, Object: id}
	return s.opts.Audit(ctx, e, change)
}

// enterFor is enter for an operation on an execution. For a caller that may not know of an execution, it does not
// exist.
func (s *Server) enterFor(ctx context.Context, req mcp.Request, tool, id string) (caller, error) {
	c, err := s.identify(ctx, req, tool)
	if err != nil {
		return c, err
	}
	for _, scope := range scopesOf[tool] {
		if c.who.MayAll(scope) {
			continue
		}
		begun := time.Now()
		session, err := s.host.SessionOf(ctx, c.tenant, id)
		if errors.Is(err, reprise.ErrExpired) || err == nil && !c.who.MayOn(scope, session) {
			err = reprise.ErrNotFound
		}
		if errors.Is(err, reprise.ErrNotFound) {
			identity.EvenOut(ctx, begun)
		}
		if err != nil {
			return c, s.unknown(ctx, c, id, err)
		}
	}
	return c, s.record(ctx, &c, tool, id)
}

// mayStart refuses to start a run in a session that the scopes of the tool do not include.
func (c *caller) mayStart(tool, session string) error {
	for _, scope := range scopesOf[tool] {
		if !c.who.MayOn(scope, session) {
			return &explained{
				error: identity.ErrForbidden, field: "session",
				detail: fmt.Sprintf("session: the scope %q is for sessions that begin with %s",
					scope, c.who.Prefixes(scope)),
			}
		}
	}
	return nil
}

// listFor returns executions that the caller may read.
func (s *Server) listFor(ctx context.Context, c *caller, q execution.ListQuery) (execution.ListPage, error) {
	if !c.who.MayAll(identity.ScopeRead) {
		q.Allowed = func(session string) bool { return c.who.MayOn(identity.ScopeRead, session) }
	}
	return s.host.List(ctx, c.tenant, q)
}
