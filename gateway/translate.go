package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"reprise/mcphttp"
)

// An upstream may speak version 2026-07-28 alone. A client with a session is then answered by us where it begins, and where it
// sets what each request says now; what the upstream wants to know is asked on the stream of the call.

// greetStateless makes a connection to an upstream without sessions, for a client that has one. refused is how it has answered
// initialize.
func (g *Gateway) greetStateless(ctx context.Context, s *mcphttp.Session, refused error) (*peer, error) {
	p, err := g.probe(ctx)
	if err != nil {
		return nil, refused
	}
	g.mu.Lock()
	g.refuses = true
	g.mu.Unlock()
	p.session, p.translates = s, true
	p.told.Store(true)
	return p, nil
}

// translatedGreeting makes the result of initialize of that of server/discover.
func translatedGreeting(discovered json.RawMessage, wanted string) json.RawMessage {
	said := members(discovered)
	info := members(said["_meta"])[metaServerInfo]
	if info == nil {
		info = compact(map[string]string{"name": "unknown", "version": "unknown"})
	}
	r := map[string]json.RawMessage{
		"serverInfo":   info,
		"capabilities": edit(said["capabilities"], func(c map[string]json.RawMessage) { delete(c, "extensions") }),
	}
	if said["instructions"] != nil {
		r["instructions"] = said["instructions"]
	}
	return sharedGreeting(compact(r), wanted)
}

// paramsFor are the params of a client's message as the upstream takes them, and what goes into its headers.
func (f *flight) paramsFor(p *peer, m *mcphttp.Message) (json.RawMessage, http.Header) {
	switch {
	case p.translates:
		return withSession(f.x.Session, m.Params), nil
	case !f.x.Stateless():
		return m.Params, nil
	case p.stateless.Load():
		return m.Params, paramHeaders(f.x.Header)
	}
	return withoutMeta(m.Params), nil
}

// withSession puts into params what the session has agreed on.
func withSession(s *mcphttp.Session, params json.RawMessage) json.RawMessage {
	said := members(s.Initialize())
	return editMeta(params, func(meta map[string]json.RawMessage) {
		meta[metaVersion] = compact(version20260728)
		meta[metaCapabilities] = json.RawMessage("{}")
		for key, value := range map[string]json.RawMessage{metaCapabilities: said["capabilities"], metaClientInfo: said["clientInfo"]} {
			if value != nil {
				meta[key] = value
			}
		}
		if level := s.LogLevel(); level != "" {
			meta[metaLogLevel] = compact(level)
		}
	})
}

// answerTranslated answers what an upstream without sessions does not know. It reports whether it has.
func (p *peer) answerTranslated(c *call, m *mcphttp.Message) bool {
	switch m.Method {
	case methodPing, methodSetLevel, methodUnsubscribe:
	case methodSubscribe:
		p.hear(filter{URIs: []string{stringMember(m.Params, "uri")}})
	default:
		return false
	}
	c.f.succeed(c, json.RawMessage("{}"))
	return true
}

// everything is what a client with a session is told without asking.
var everything = filter{Tools: true, Prompts: true, Resources: true}

// heard tells the sessions of the connection what has changed.
func (p *peer) heard(m mcphttp.Message) {
	if !concernsAll(m.Method) {
		return
	}
	m.Params = editMeta(m.Params, func(meta map[string]json.RawMessage) { delete(meta, metaSubscription) })
	m.Raw = request("", m.Method, m.Params)
	switch {
	case !p.translates:
		p.tellListeners(m)
	case p.session == nil:
		p.broadcast(m)
	case m.Method != noteUpdated || hasString(p.session.Subscriptions(), stringMember(m.Params, "uri")):
		_ = p.session.Notify(m.Raw) // a session that has ended misses nothing
	}
}

// inOldForm makes the result of an upstream of version 2026-07-28 an older one.
func inOldForm(m *mcphttp.Message) {
	m.Result = edit(m.Result, func(r map[string]json.RawMessage) {
		for _, key := range []string{"resultType", "ttlMs", "cacheScope"} {
			delete(r, key)
		}
	})
}

// round is what an upstream wants to know before it goes on with a call.
type round struct {
	mu      sync.Mutex
	open    int
	answers map[string]json.RawMessage
}

// askRound asks the client what the result of a call asks, and has the call sent again with the answers. It reports
// false for another result.
func (f *flight) askRound(a arrival) bool {
	var wants struct {
		ResultType string
		Requests   map[string]struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		} `json:"inputRequests"`
		State json.RawMessage `json:"requestState"`
	}
	if a.m.Result == nil || json.Unmarshal(a.m.Result, &wants) != nil || wants.ResultType != "input_required" {
		return false
	}
	r := &round{open: len(wants.Requests), answers: map[string]json.RawMessage{}}
	again := func() {
		params := edit(f.original(a.call), func(p map[string]json.RawMessage) {
			p["inputResponses"] = compact(r.answers)
			if wants.State != nil {
				p["requestState"] = wants.State
			}
		})
		f.push(arrival{call: a.call, retry: params})
	}
	if r.open == 0 {
		again()
		return true
	}
	for key, asked := range wants.Requests {
		id := upstreamID(a.call.up)
		f.asking.Add(1)
		err := f.x.Ask(id, request(id, asked.Method, asked.Params), func(raw []byte) {
			f.answered()
			m, err := mcphttp.ParseMessage(raw)
			if err != nil || m.Result == nil {
				f.fail(a.call, Answered, &failure{codeInternal, "the client has not answered what the upstream asks", "no_answer"})
				return
			}
			r.mu.Lock()
			r.answers[key] = m.Result
			r.open--
			last := r.open == 0
			r.mu.Unlock()
			if last {
				again()
			}
		})
		if err != nil {
			f.asking.Add(-1)
			f.fail(a.call, Answered, &failure{codeInternal, "the client cannot be asked: " + err.Error(), "no_client"})
		}
	}
	return true
}

// original are the params of a call as they go to an upstream without sessions.
func (f *flight) original(c *call) json.RawMessage {
	for i := range f.x.Messages {
		if f.x.Messages[i].ID == c.id {
			return withSession(f.x.Session, f.x.Messages[i].Params)
		}
	}
	return nil
}
