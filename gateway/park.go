package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"reprise/mcphttp"
)

// An older upstream asks its client in the middle of a call. A client of version 2026-07-28 cannot be asked: its request is
// answered with what the upstream wants to know, and the client sends it again with the answers. Meanwhile the call
// is parked: the upstream is not called again.

// parkTimeout is how long the answers may take.
const parkTimeout = 5 * time.Minute

// parking is a call that waits for a client.
type parking struct {
	key   slotKey
	call  *call
	peer  *peer
	from  *flight // to which comes what the upstream says meanwhile
	name  string  // of what was called
	timer *time.Timer
	asked map[string]mcphttp.Message // by the keys that the client has
}

// parkable are the requests that may be answered with a question, askable what may be asked.
var (
	parkable = []string{"tools/call", "prompts/get", "resources/read"}
	askable  = []string{"sampling/createMessage", "elicitation/create", "roots/list"}
)

// park answers the request with what the upstream asks.
func (f *flight) park(a arrival) error {
	c := f.callOf()
	if c == nil || !slices.Contains(parkable, c.method) || !slices.Contains(askable, a.m.Method) {
		a.peer.refuse(a.m.ID, &failure{codeMethodNotFound, "the client cannot be asked for " + a.m.Method + " here", "no_client"})
		return nil
	}
	token := rand.Text()
	p := &parking{
		key: f.g.poolKey(f.x), call: c, peer: a.peer, from: f, name: nameOf(f.x.Messages[0].Params),
		asked: map[string]mcphttp.Message{"1": a.m},
	}
	f.mu.Lock()
	f.parked = true
	for i, more := range slices.Clone(f.queue) { // asked at the same time
		if more.m.Method != "" && more.m.ID != "" && slices.Contains(askable, more.m.Method) {
			p.asked[strconv.Itoa(i+2)] = more.m
		}
	}
	f.queue = slices.DeleteFunc(f.queue, func(a arrival) bool { return a.m.Method != "" && a.m.ID != "" })
	f.mu.Unlock()
	f.open--
	p.timer = time.AfterFunc(parkTimeout, func() {
		if f.g.takeParked(token) == p {
			p.peer.abandon(c, "the client has not answered")
		}
	})
	f.g.mu.Lock()
	f.g.parked[token] = p
	f.g.mu.Unlock()
	return f.x.Respond(c.id, response(c.id, p.question(token), nil))
}

// question is the result that asks the client.
func (p *parking) question(token string) json.RawMessage {
	requests := map[string]any{}
	for key, m := range p.asked {
		params := m.Params
		if params == nil {
			params = json.RawMessage("{}") // without which the Go SDK cannot read it
		}
		requests[key] = map[string]any{"method": m.Method, "params": params}
	}
	return compact(map[string]any{"resultType": "input_required", "inputRequests": requests, "requestState": token})
}

func nameOf(params json.RawMessage) string {
	if name := stringMember(params, "name"); name != "" {
		return name
	}
	return stringMember(params, "uri")
}

// callOf is the only call of an exchange without a session.
func (f *flight) callOf() *call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.only
}

func (g *Gateway) takeParked(token string) *parking {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.parked[token]
	delete(g.parked, token)
	return p
}

// unpark finds the call that a request goes on with, or nil.
func (g *Gateway) unpark(x *mcphttp.Exchange, m *mcphttp.Message) *parking {
	token := stringMember(m.Params, "requestState")
	if token == "" {
		return nil
	}
	key := g.poolKey(x)
	g.mu.Lock()
	p := g.parked[token]
	if p == nil || p.key != key || p.call.method != m.Method || p.name != nameOf(m.Params) {
		g.mu.Unlock()
		return nil
	}
	delete(g.parked, token)
	g.mu.Unlock()
	p.timer.Stop()
	return p
}

// resume goes on with a parked call in another exchange.
func (p *parking) resume(ctx context.Context, f *flight, m *mcphttp.Message) error {
	c := &call{f: f, id: m.ID, method: m.Method, began: p.call.began, peer: p.peer, up: p.call.up, token: progressToken(m.Params)}
	f.only, f.prepare, f.logs = c, p.from.prepare, p.from.logs
	p.peer.mu.Lock()
	if p.peer.calls[c.up] == p.call {
		p.peer.calls[c.up] = c
	}
	p.peer.mu.Unlock()
	p.from.mu.Lock()
	waited := p.from.queue
	p.from.queue, p.from.next = nil, f
	p.from.mu.Unlock()
	for _, a := range waited {
		f.push(a.of(c))
	}
	answers := members(members(m.Params)["inputResponses"])
	for key, asked := range p.asked {
		answer := answers[key]
		if answer == nil {
			p.peer.refuse(asked.ID, &failure{codeInternal, fmt.Sprintf("the client has not answered %s", asked.Method), "no_answer"})
			continue
		}
		p.peer.reply(response(asked.ID, answer, nil))
	}
	return f.run(ctx, []*call{c})
}

// of makes an arrival for a parked call one for its successor.
func (a arrival) of(c *call) arrival {
	if a.call != nil {
		a.call = c
	}
	return a
}

func progressToken(params json.RawMessage) json.RawMessage {
	return members(members(params)["_meta"])["progressToken"]
}
