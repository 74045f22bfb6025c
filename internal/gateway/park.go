package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// An older upstream asks its client in the middle of a call. A client of version 2026-07-28 cannot be asked: its
// request is answered with the questions, and the client sends it again with the answers. Until then the call is
// parked; the upstream is not called again.

// parkTimeout limits how long the client may take for its answers.
const parkTimeout = 5 * time.Minute

// parking is a request whose call is parked.
type parking struct {
	key       slotKey
	request   *clientRequest
	form      translation
	name      string // of the called tool, prompt or resource
	timer     *time.Timer
	conn      *connection
	questions map[string]mcphttp.Message // by the keys that the client knows
}

// parkings are the parked requests by their requestState. Its methods are safe for concurrent use.
type parkings struct {
	mu      sync.Mutex
	byState map[string]*parking
}

func (ps *parkings) add(state string, p *parking) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.byState == nil {
		ps.byState = map[string]*parking{}
	}
	ps.byState[state] = p
}

// take removes and returns the parking of a state if match returns true for it. Otherwise it returns nil.
func (ps *parkings) take(state string, match func(*parking) bool) *parking {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byState[state]
	if p == nil || !match(p) {
		return nil
	}
	delete(ps.byState, state)
	return p
}

// parkable are the requests that may be answered with a question, askable the questions.
var (
	parkable = []string{wire.MethodCall, "prompts/get", "resources/read"}
	askable  = []string{"sampling/createMessage", "elicitation/create", "roots/list"}
)

// park answers the request of d with a question of the upstream and with the questions behind it.
func (d *delivery) park(a arrival) error {
	r := d.requests[0]
	if !slices.Contains(parkable, r.method) || !slices.Contains(askable, a.m.Method) {
		refuseQuestion(a)
		return nil
	}
	p := &parking{
		key: a.from.key, request: r, form: d.form, name: calledName(r.params), conn: a.from,
		questions: map[string]mcphttp.Message{"1": a.m},
	}
	for _, more := range d.in.park() {
		if slices.Contains(askable, more.m.Method) {
			p.questions[strconv.Itoa(len(p.questions)+1)] = more.m
		} else {
			refuseQuestion(more)
		}
	}
	d.open--
	state := newParkedState(p.questions)
	p.timer = time.AfterFunc(parkTimeout, func() {
		if d.g.parked.take(state, func(*parking) bool { return true }) != nil {
			p.conn.abandon(r.call, "the client has not answered")
		}
	})
	d.g.parked.add(state, p)
	return d.x.Respond(r.id, wire.Response(r.id, p.result(state), nil))
}

// refuseQuestion answers a question that the client cannot be asked.
func refuseQuestion(a arrival) {
	a.from.refuseNoClient(a.m.ID, "the client cannot be asked for "+a.m.Method+" here")
}

// result returns the result that asks the client.
func (p *parking) result(state string) json.RawMessage {
	requests := map[string]any{}
	for key, m := range p.questions {
		params := m.Params
		if params == nil {
			params = json.RawMessage("{}") // the Go SDK cannot read a question without params
		}
		requests[key] = map[string]any{"method": m.Method, "params": params}
	}
	return wire.Compact(map[string]any{
		"resultType": "input_required", "inputRequests": requests, "requestState": state,
	})
}

// calledName returns the tool, prompt or resource that params name.
func calledName(params json.RawMessage) string {
	if name := wire.Text(params, "name"); name != "" {
		return name
	}
	return wire.Text(params, "uri")
}

// takeParked returns the parking that an exchange continues, or nil.
func (g *Gateway) takeParked(x *mcphttp.Exchange) *parking {
	m := &x.Messages[0]
	state := wire.Text(m.Params, "requestState")
	if state == "" {
		return nil
	}
	u, err := g.poolUser(x)
	if err != nil {
		return nil // poolConnection says why
	}
	p := g.parked.take(state, func(p *parking) bool {
		return p.key == u.key && p.request.method == m.Method && p.name == calledName(m.Params)
	})
	if p != nil {
		p.timer.Stop()
	}
	return p
}

// resume continues the parked call in another delivery, whose request contains the answers.
func (p *parking) resume(ctx context.Context, d *delivery) error {
	r, before := d.requests[0], p.request.call
	d.form, r.began, r.wantsLogs = p.form, p.request.began, p.request.wantsLogs
	r.call = &call{
		id: before.id, method: r.method, conn: p.conn, request: r, token: wire.ProgressToken(r.params),
	}
	p.conn.calls.replace(before, r.call)
	p.request.in.forward(r)
	answers := wire.Members(wire.Members(r.params)["inputResponses"])
	for key, question := range p.questions {
		if answer := answers[key]; answer != nil {
			p.conn.reply(wire.Response(question.ID, answer, nil))
			continue
		}
		message := fmt.Sprintf("the client has not answered %s", question.Method)
		p.conn.refuse(question.ID, wire.CodeInternal, wire.ReasonNoAnswer, message)
	}
	return d.run(ctx)
}
