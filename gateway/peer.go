package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"reprise/mcphttp"
)

// peer is a connection to an upstream, with what was agreed on over it.
type peer struct {
	g    *Gateway
	link link
	// session is whose connection it is, nil where it is for several or for none.
	session *mcphttp.Session
	// greeting is the result of initialize or of server/discover, version what is spoken.
	greeting json.RawMessage
	version  string
	// translates is true for clients with sessions where the upstream has none.
	translates bool
	// told is true when notifications/initialized was sent.
	told      atomic.Bool
	stateless atomic.Bool   // version is the one without sessions
	linked    chan struct{} // closed when link is set
	gone      chan struct{} // closed when the slot is free for another one
	freed     chan struct{} // closed when the link has ended and is not counted any more
	attached  atomic.Bool   // a client listens to the session as a whole, or did
	used      atomic.Int64

	mu       sync.Mutex
	next     int64
	calls    map[int64]*call
	dead     bool
	sessions map[*mcphttp.Session]bool // of a shared one
	level    string                    // that was set for clients without sessions
	hearing  hearing
}

// newPeer makes a peer without a link.
func (g *Gateway) newPeer() *peer {
	return &peer{g: g, linked: make(chan struct{}), gone: make(chan struct{}), freed: make(chan struct{}), calls: map[int64]*call{}, sessions: map[*mcphttp.Session]bool{}}
}

// begin gives a request an id of its own, under which its answer is looked for, and returns its params with that in the place of
// the client's progress token.
func (p *peer) begin(c *call, params json.RawMessage) (json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.dead:
		return nil, errEnded
	case c.f != nil && len(p.calls) >= p.g.up.MaxCalls:
		return nil, &failure{codeInternal, "too many requests to the upstream have no answer yet", "limit"}
	}
	p.next++
	c.up, c.peer = p.next, p
	params, c.token = withToken(params, upstreamID(c.up))
	p.calls[c.up] = c
	p.used.Store(time.Now().UnixNano())
	return params, nil
}

// forget drops a call, and reports whether it had no answer yet.
func (p *peer) forget(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[c.up] != c {
		return false
	}
	delete(p.calls, c.up)
	p.used.Store(time.Now().UnixNano())
	return true
}

// send sends a request that has begun.
func (p *peer) send(ctx context.Context, c *call, params json.RawMessage, header http.Header) error {
	return p.link.send(ctx, outgoing{raw: request(upstreamID(c.up), c.method, params), call: c, method: c.method, params: params, header: header})
}

// ask sends a request of our own and waits for its answer.
func (p *peer) ask(ctx context.Context, method string, params json.RawMessage) (mcphttp.Message, error) {
	c := &call{method: method, answer: make(chan mcphttp.Message, 1), began: time.Now()}
	params, err := p.begin(c, params)
	if err != nil {
		return mcphttp.Message{}, err
	}
	defer p.forget(c)
	if err := p.send(ctx, c, params, nil); err != nil {
		return mcphttp.Message{}, err
	}
	select {
	case m := <-c.answer:
		return m, c.failed()
	case <-p.link.done():
		select {
		case m := <-c.answer: // the last that it said
			return m, c.failed()
		default:
			return mcphttp.Message{}, p.link.why()
		}
	case <-ctx.Done():
		return mcphttp.Message{}, context.Cause(ctx)
	}
}

// note sends a notification.
func (p *peer) note(ctx context.Context, method string, params json.RawMessage) error {
	return p.link.send(ctx, outgoing{raw: request("", method, params), method: method, params: params})
}

// replyTimeout bounds how long an upstream may take to read the answer to its question.
const replyTimeout = 4 * time.Second

// quickly bounds the time for a message that may be left out.
const quickly = time.Second

// later sends what must not hold up who sends it.
func (p *peer) later(raw []byte, method string) {
	p.g.begin(func() {
		ctx, cancel := context.WithTimeout(p.g.life, quickly)
		defer cancel()
		_ = p.link.send(ctx, outgoing{raw: raw, method: method}) // an upstream that takes nothing does without
	})
}

// reply sends a client's response, which has the upstream's id.
func (p *peer) reply(raw []byte) {
	ctx, cancel := context.WithTimeout(p.g.life, replyTimeout)
	defer cancel()
	_ = p.link.send(ctx, outgoing{raw: raw}) // an upstream that has ended, or reads nothing, waits for nothing
}

// refuse answers a request of the upstream.
func (p *peer) refuse(id mcphttp.ID, e *failure) { p.later(response(id, nil, e.json()), "") }

// cancel tells the upstream that an answer is not wanted any more.
func (p *peer) cancel(c *call, reason string) {
	if p.stateless.Load() && p.g.up.URL != "" {
		return // the end of the connection says so
	}
	params := map[string]any{"requestId": c.up}
	if reason != "" {
		params["reason"] = reason
	}
	p.later(request("", noteCancelled, compact(params)), noteCancelled)
}

// abandon cancels a call whose answer nobody takes.
func (p *peer) abandon(c *call, reason string) {
	if !p.forget(c) {
		return
	}
	p.link.drop(c)
	if c.method != methodInitialize && c.listens == nil {
		p.cancel(c, reason)
	}
}

// fail answers a call that has no answer yet.
func (p *peer) fail(c *call, e *failure) {
	if p.forget(c) {
		c.failure = e
		p.answer(c, mcphttp.Message{ID: upstreamID(c.up), Err: e.json()}, Lost)
	}
}

func (p *peer) answer(c *call, m mcphttp.Message, result CallResult) {
	if c.answer != nil {
		c.answer <- m
		return
	}
	c.f.push(arrival{call: c, m: m, result: result})
}

// receive takes a message of the upstream.
func (p *peer) receive(m mcphttp.Message, during *call) {
	<-p.linked
	switch {
	case m.Method == "":
		p.answered(m)
	case m.ID != "":
		p.asked(m, during)
	default:
		p.noted(m, during)
	}
}

func (p *peer) answered(m mcphttp.Message) {
	up := parseUpstreamID([]byte(m.ID))
	p.mu.Lock()
	c := p.calls[up]
	delete(p.calls, up)
	p.mu.Unlock()
	if c != nil { // else it was cancelled
		p.answer(c, m, Answered)
	}
}

// asked takes a request of the upstream to its client.
func (p *peer) asked(m mcphttp.Message, during *call) {
	if m.Method == methodPing {
		p.later(response(m.ID, json.RawMessage("{}"), nil), "")
		return
	}
	if p.g.up.Shared {
		p.refuse(m.ID, &failure{codeMethodNotFound, "this connection has several clients, which cannot be asked", "no_client"})
		return
	}
	f, several := p.flightOf(during)
	switch {
	case f != nil && (!several || p.session == nil || !p.attached.Load()):
		if f.push(arrival{m: m, peer: p}) {
			return
		}
	case p.session != nil:
		if p.session.Ask(m.ID, m.Raw, p.reply) == nil {
			return
		}
	}
	p.refuse(m.ID, &failure{codeMethodNotFound, "there is no client to be asked", "no_client"})
}

// flightOf is the exchange that a message belongs to which came during a call: the newest one, if that is not known.
func (p *peer) flightOf(during *call) (f *flight, several bool) {
	if during != nil && during.f != nil {
		return during.f, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := int64(0)
	for up, c := range p.calls {
		if c.f == nil {
			continue
		}
		if f != nil && c.f != f {
			several = true
		}
		if up > newest {
			f, newest = c.f, up
		}
	}
	return f, several
}

// noted takes a notification of the upstream.
func (p *peer) noted(m mcphttp.Message, during *call) {
	switch {
	case m.Method == noteProgress:
		p.progress(m)
	case m.Method == noteCancelled:
		// It names a request that the client knows under another id; who is asked in vain is told by the end of the call.
	case p.stateless.Load():
		p.subscribed(m, during)
	case during != nil && during.f != nil && !concernsAll(m.Method):
		during.f.push(arrival{m: m})
	case p.g.up.Shared:
		p.broadcast(m)
	case p.session == nil:
		p.tellListeners(m)
	default:
		p.tellSession(m)
	}
}

// concernsAll reports whether a notification is about the server and not about a call.
func concernsAll(method string) bool {
	return strings.HasSuffix(method, "/list_changed") || method == noteUpdated
}

// tellSession sends a notification to the client of the session: with the answer to its only request, or on the stream
// of the session as a whole.
func (p *peer) tellSession(m mcphttp.Message) {
	if f, several := p.flightOf(nil); f != nil && !several && !concernsAll(m.Method) && f.push(arrival{m: m}) {
		return
	}
	if err := p.session.Notify(m.Raw); err != nil {
		p.g.opts.Logger.Debug("a notification of an MCP upstream is not delivered", "upstream", p.g.up.Name, "method", m.Method, "error", err)
	}
}

// broadcast sends what concerns all sessions of a shared connection to those whom it concerns. What else
// there is may be about any of them, and goes to nobody.
func (p *peer) broadcast(m mcphttp.Message) {
	if !concernsAll(m.Method) {
		return
	}
	uri := ""
	if m.Method == noteUpdated {
		uri = stringMember(m.Params, "uri")
	}
	p.mu.Lock()
	sessions := make([]*mcphttp.Session, 0, len(p.sessions))
	for s := range p.sessions {
		sessions = append(sessions, s)
	}
	p.mu.Unlock()
	for _, s := range sessions {
		if uri == "" || hasString(s.Subscriptions(), uri) {
			_ = s.Notify(m.Raw) // a session that has ended misses nothing
		}
	}
	p.tellListeners(m)
}

// progress hands a notification about a request to who has sent that.
func (p *peer) progress(m mcphttp.Message) {
	params := members(m.Params)
	p.mu.Lock()
	c := p.calls[parseUpstreamID(params["progressToken"])]
	p.mu.Unlock()
	if c == nil || c.f == nil || c.token == nil {
		return // it comes too late
	}
	params["progressToken"] = c.token
	c.f.push(arrival{call: nil, m: mcphttp.Message{Raw: request("", m.Method, compact(params)), Method: m.Method}})
}

// end answers all calls when the link has ended.
func (p *peer) end(why error) {
	p.mu.Lock()
	p.dead = true
	calls := p.calls
	p.calls = map[int64]*call{}
	p.mu.Unlock()
	for _, c := range calls {
		if c.f != nil {
			c.f.fail(c, Lost, errLost(why))
		}
	}
}

func hasString(list []string, s string) bool {
	for _, one := range list {
		if one == s {
			return true
		}
	}
	return false
}
