package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
)

// On version 2026-07-28 a call ends with its connection. If a client has declared the Tasks extension and a call takes
// long, the gateway answers with a task, so that the client still gets the result. The upstream is not involved.

// taskServer is a server with tasks whose tools are the upstream's.
type taskServer struct {
	g       *Gateway
	backend mcphttp.Backend
}

// newTaskServer returns nil without Options.Tasks.
func (g *Gateway) newTaskServer() (*taskServer, error) {
	if g.opts.Tasks == nil {
		return nil, nil
	}
	t := &taskServer{g: g}
	server := mcp.NewServer(&mcp.Implementation{Name: clientInfo["name"], Version: clientInfo["version"]}, nil)
	server.AddReceivingMiddleware(t.middleware)
	g.opts.Tasks.Support("", t.tool())
	if err := g.opts.Tasks.Install(server); err != nil {
		return nil, err
	}
	t.backend = mcptask.Backend(mcphttp.Server(func(*http.Request) *mcp.Server { return server }))
	return t, nil
}

// takes reports whether an exchange is about the gateway's tasks, or a call that may become one.
func (t *taskServer) takes(x *mcphttp.Exchange, c *connection) bool {
	if t == nil || c.hasTasks() {
		return false
	}
	m := &x.Messages[0]
	switch m.Method {
	case "tasks/get", "tasks/update", "tasks/cancel":
		return true
	case wire.MethodListen:
		return wire.Members(wire.Members(m.Params)["notifications"])["taskIds"] != nil
	case wire.MethodCall:
		return t.takesCall(x, c, wire.Text(m.Params, "name"))
	}
	return false
}

// takesCall reports whether a call may become a task: the client knows tasks, and the upstream has listed the tool.
func (t *taskServer) takesCall(x *mcphttp.Exchange, c *connection, tool string) bool {
	extensions := wire.Members(wire.Members(capabilitiesOf(x))["extensions"])
	if extensions[mcptask.Extension] == nil || !t.g.slot(c.key).tools.has(tool) {
		return false
	}
	t.g.opts.Tasks.Support(tool, t.tool())
	return true
}

// tool says how calls of the upstream's tools become tasks. The answers of an upstream at a URL may be resumed; a
// command ends with the gateway.
func (t *taskServer) tool() mcptask.Tool {
	tool := mcptask.Tool{After: t.g.opts.TaskAfter}
	if t.g.up.URL != "" {
		tool.Resume = t.resume
	}
	return tool
}

// hasTasks reports whether the upstream has tasks itself.
func (c *connection) hasTasks() bool {
	return c.stateless() && wire.Members(c.capability("extensions"))[mcptask.Extension] != nil
}

// withTasks adds the Tasks extension to a result of server/discover.
func withTasks(result json.RawMessage) json.RawMessage {
	return wire.Edit(result, func(r map[string]json.RawMessage) {
		r["capabilities"] = wire.Edit(r["capabilities"], func(c map[string]json.RawMessage) {
			c["extensions"] = wire.Edit(c["extensions"], func(e map[string]json.RawMessage) {
				e[mcptask.Extension] = json.RawMessage("{}")
			})
		})
	})
}

// middleware has the upstream handle the calls of the server.
func (t *taskServer) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		x := mcptask.Exchange(ctx)
		if method != wire.MethodCall || x == nil {
			return next(ctx, method, req)
		}
		return t.callTool(ctx, x)
	}
}

// callTool calls the upstream in place of a handler.
func (t *taskServer) callTool(ctx context.Context, x *mcphttp.Exchange) (mcp.Result, error) {
	defer t.g.stay(x)()
	c, err := t.g.poolConnection(ctx, x)
	if err != nil {
		return nil, err
	}
	to := &taskClient{ctx: ctx, x: x, principal: x.Principal}
	d := t.g.newDelivery(x)
	d.to = to
	if t.g.up.URL != "" && !c.stateless() {
		d.requests[0].at, d.requests[0].stays = to.reach, to.stays
	}
	d.start(ctx, c)
	if err := d.run(ctx); err != nil {
		return nil, err
	}
	result, err := to.result()
	if err != nil {
		return nil, err
	}
	return result, nil
}
