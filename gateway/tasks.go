package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"reprise/mcphttp"
	"reprise/mcptask"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// On version 2026-07-28 a call ends with its connection. A client that knows the Tasks extension is told of a task
// where a call takes long, so that it gets the rest of it all the same. The upstream knows nothing of that.

const methodCall = "tools/call"

// tasked is a server with tasks whose tools are those of the upstream.
type tasked struct {
	g       *Gateway
	backend mcphttp.Backend
}

// newTasked makes the server, or nil where there are to be no tasks.
func (g *Gateway) newTasked() (*tasked, error) {
	if g.opts.Tasks == nil {
		return nil, nil
	}
	t := &tasked{g: g}
	server := mcp.NewServer(&mcp.Implementation{Name: clientInfo["name"], Version: clientInfo["version"]}, nil)
	server.AddReceivingMiddleware(t.passing)
	if err := g.opts.Tasks.Install(server); err != nil {
		return nil, err
	}
	t.backend = mcptask.Backend(mcphttp.Server(func(*http.Request) *mcp.Server { return server }))
	return t, nil
}

// extensionsOf are the extensions that capabilities name.
func extensionsOf(capabilities json.RawMessage) map[string]json.RawMessage {
	return members(members(capabilities)["extensions"])
}

// takes reports whether an exchange is about tasks of ours. known are the upstream's tools.
func (t *tasked) takes(x *mcphttp.Exchange, p *peer) bool {
	if t == nil || p.hasTasks() {
		return false
	}
	m := &x.Messages[0]
	switch m.Method {
	case "tasks/get", "tasks/update", "tasks/cancel":
		return true
	case methodListen:
		return members(members(m.Params)["notifications"])["taskIds"] != nil
	case methodCall:
		name := stringMember(m.Params, "name")
		if extensionsOf(capabilitiesOf(x))[mcptask.Extension] == nil || !t.g.hasTool(x, name) {
			return false
		}
		t.g.opts.Tasks.Support(name, mcptask.Tool{After: t.g.opts.TaskAfter})
		return true
	}
	return false
}

// hasTasks reports whether the upstream has tasks itself.
func (p *peer) hasTasks() bool {
	return p.stateless.Load() && extensionsOf(members(p.greeting)["capabilities"])[mcptask.Extension] != nil
}

// hasTool reports whether the upstream has listed a tool.
func (g *Gateway) hasTool(x *mcphttp.Exchange, name string) bool {
	g.mu.Lock()
	s := g.schemas[g.poolKeyLocked(x)]
	g.mu.Unlock()
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.input[name]
	return ok
}

// withTasks says in the result of server/discover that there are tasks.
func withTasks(result json.RawMessage) json.RawMessage {
	return edit(result, func(r map[string]json.RawMessage) {
		r["capabilities"] = edit(r["capabilities"], func(c map[string]json.RawMessage) {
			c["extensions"] = edit(c["extensions"], func(e map[string]json.RawMessage) { e[mcptask.Extension] = json.RawMessage("{}") })
		})
	})
}

// passing is the handler of the calls: it passes them to the upstream.
func (t *tasked) passing(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		x := mcptask.Exchange(ctx)
		if method != methodCall || x == nil {
			return next(ctx, method, req)
		}
		return t.pass(ctx, x)
	}
}

// pass calls the upstream, in the place of a handler.
func (t *tasked) pass(ctx context.Context, x *mcphttp.Exchange) (mcp.Result, error) {
	p, err := t.g.pooled(ctx, x)
	if err != nil {
		return nil, err
	}
	m := &x.Messages[0]
	f := t.g.newFlight(x)
	to := &taskClient{ctx: ctx, x: x}
	f.open, f.to = 1, to
	c := &call{f: f, id: m.ID, method: m.Method, began: time.Now()}
	f.only = c
	params, header := f.paramsFor(p, m)
	if !p.stateless.Load() {
		f.prepare = func(c *call, m *mcphttp.Message) { inNewForm(p, c, m) }
		p.wantLogs(ctx, f, m.Params)
	}
	t.g.start(ctx, p, c, params, header)
	if err := f.run(ctx, []*call{c}); err != nil {
		return nil, err
	}
	return to.outcome()
}

// taskClient is who a call is made for that may become a task.
type taskClient struct {
	ctx    context.Context
	x      *mcphttp.Exchange
	answer mcphttp.Message
	said   time.Time
}

// sayEvery is the time between two messages about a task that are kept, at least.
const sayEvery = time.Second

// Notify sends a notification as long as the call has its connection; then the message of one about progress becomes that of the task.
func (t *taskClient) Notify(message []byte) error {
	task := mcptask.FromContext(t.ctx)
	if task == nil {
		return t.x.Notify(message)
	}
	m, err := mcphttp.ParseMessage(message)
	if err != nil || m.Method != noteProgress || time.Since(t.said) < sayEvery {
		return err
	}
	text := stringMember(m.Params, "message")
	if text == "" {
		return nil
	}
	t.said = time.Now()
	return task.Say(t.ctx, text)
}

// Respond takes the response.
func (t *taskClient) Respond(_ mcphttp.ID, message []byte) (err error) {
	t.answer, err = mcphttp.ParseMessage(message)
	return err
}

// Ask makes a task of the call, which asks.
func (t *taskClient) Ask(id mcphttp.ID, message []byte, answer func([]byte)) error {
	m, err := mcphttp.ParseMessage(message)
	if err != nil {
		return err
	}
	question, err := questionOf(&m)
	if err != nil {
		return err
	}
	task, err := mcptask.Begin(t.ctx)
	if err != nil {
		return err
	}
	if task == nil {
		return errors.New("the call cannot become a task")
	}
	go func() {
		answers, err := task.Ask(t.ctx, mcp.InputRequestMap{"1": question})
		if err != nil {
			answer(response(id, nil, (&failure{codeInternal, err.Error(), "no_answer"}).json()))
			return
		}
		answer(response(id, compact(answers["1"]), nil))
	}()
	return nil
}

// questionOf is a request of the upstream as the SDK has it.
func questionOf(m *mcphttp.Message) (mcp.InputRequest, error) {
	var question mcp.InputRequest
	switch m.Method {
	case "elicitation/create":
		question = &mcp.ElicitParams{}
	case "sampling/createMessage":
		//lint:ignore SA1019 older versions have it
		question = &mcp.CreateMessageParams{}
	case "roots/list":
		//lint:ignore SA1019 older versions have it
		question = &mcp.ListRootsParams{}
	default:
		return nil, fmt.Errorf("nobody is asked for %s", m.Method)
	}
	if m.Params == nil {
		return question, nil
	}
	return question, json.Unmarshal(m.Params, question)
}

// outcome is the answer as a handler returns it.
func (t *taskClient) outcome() (mcp.Result, error) {
	if t.answer.Err != nil {
		e := &jsonrpc.Error{}
		if err := json.Unmarshal(t.answer.Err, e); err != nil {
			return nil, err
		}
		return nil, e
	}
	result := &mcp.CallToolResult{}
	return result, json.Unmarshal(t.answer.Result, result)
}
