package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"reprise/mcphttp"
)

// errRefusedGreeting carries what an upstream has answered to initialize.
type errRefusedGreeting struct{ m mcphttp.Message }

func (e *errRefusedGreeting) Error() string {
	return "the upstream refuses to be initialized: " + string(e.m.Err)
}

// initialize answers the first request of a session.
func (g *Gateway) initialize(ctx context.Context, f *flight) error {
	m := f.x.Messages[0]
	c := &call{f: f, id: m.ID, method: m.Method, began: time.Now()}
	f.open = 1
	slot := g.slot(g.keyOf(f.x.Session))
	p, err := slot.connect(ctx, func(ctx context.Context) (*peer, error) {
		return g.greetEither(ctx, f.x.Session, func() (*peer, error) { return g.greet(ctx, f.x.Session, m.Params) })
	})
	var refused *errRefusedGreeting
	switch {
	case err == nil:
		greeting := p.greeting
		if p.translates {
			greeting = translatedGreeting(greeting, stringMember(m.Params, "protocolVersion"))
		} else if g.up.Shared {
			greeting = sharedGreeting(greeting, stringMember(m.Params, "protocolVersion"))
		}
		if g.up.Shared {
			p.join(f.x.Session)
		}
		f.succeed(c, greeting)
	case asRefused(err, &refused):
		f.push(arrival{call: c, m: mcphttp.Message{ID: c.id, Err: refused.m.Err}, result: Answered})
	default:
		f.fail(c, Refused, failureOf(err))
	}
	return f.run(ctx, []*call{c})
}

// greetEither makes the connection of a session, or of all: with greet, or without a session where the upstream has none.
func (g *Gateway) greetEither(ctx context.Context, s *mcphttp.Session, greet func() (*peer, error)) (*peer, error) {
	if g.up.Shared {
		s, greet = nil, func() (*peer, error) { return g.greetShared(ctx) }
	}
	g.mu.Lock()
	refuses := g.refuses
	g.mu.Unlock()
	if !refuses {
		p, err := greet()
		var refused *errRefusedGreeting
		if err == nil || !asRefused(err, &refused) {
			return p, err
		}
		return g.greetStateless(ctx, s, err)
	}
	return g.greetStateless(ctx, s, errOtherEra)
}

func asRefused(err error, to **errRefusedGreeting) bool {
	e, ok := err.(*errRefusedGreeting) //nolint:errorlint // of our own, never wrapped
	*to = e
	return ok
}

// greet makes a connection and has it initialized with what a client has said of itself.
func (g *Gateway) greet(ctx context.Context, s *mcphttp.Session, params json.RawMessage) (*peer, error) {
	p := g.newPeer()
	p.session = s
	if err := g.open(p); err != nil {
		return nil, err
	}
	m, err := p.ask(ctx, methodInitialize, params)
	if err != nil {
		p.link.close()
		return nil, startFailure(err)
	}
	if m.Err != nil {
		p.link.close()
		return nil, &errRefusedGreeting{m}
	}
	p.greeting, p.version = m.Result, stringMember(m.Result, "protocolVersion")
	p.link.agreed(p.version)
	return p, nil
}

// startFailure is why a new connection has come to nothing.
func startFailure(err error) error {
	if isFailure(err) {
		return err
	}
	return &failure{codeInternal, fmt.Sprintf("the upstream did not come up: %v", err), "upstream_unavailable"}
}

// greetShared makes the connection that all sessions use. The upstream is told that its client can do nothing.
func (g *Gateway) greetShared(ctx context.Context) (*peer, error) {
	return g.greetOurselves(ctx, json.RawMessage("{}"))
}

// greetOurselves makes a connection in our own name, to a client with the given capabilities.
func (g *Gateway) greetOurselves(ctx context.Context, capabilities json.RawMessage) (*peer, error) {
	p, err := g.greet(ctx, nil, compact(map[string]any{
		"protocolVersion": version20251125, "capabilities": capabilities, "clientInfo": clientInfo,
	}))
	if err != nil {
		return nil, err
	}
	p.told.Store(true)
	if err := p.note(ctx, noteInitialized, nil); err != nil {
		p.link.close()
		return nil, startFailure(err)
	}
	return p, nil
}

// clientInfo is what upstreams are told of us where they are not told of a client.
var clientInfo = map[string]string{"name": "reprise-gateway", "version": "1"}

// sharedGreeting is what a client is told of an upstream that speaks a version to us which need not be the client's.
func sharedGreeting(greeting json.RawMessage, wanted string) json.RawMessage {
	if !slices.Contains(mcphttp.Versions, wanted) || wanted >= version20260728 {
		wanted = version20251125
	}
	return edit(greeting, func(m map[string]json.RawMessage) { m["protocolVersion"] = compact(wanted) })
}

// connected is the connection of a session. A new one is told what the session has agreed on before.
func (g *Gateway) connected(ctx context.Context, s *mcphttp.Session) (*peer, error) {
	slot := g.slot(g.keyOf(s))
	p, err := slot.connect(ctx, func(ctx context.Context) (*peer, error) {
		if g.up.KeepsState && !g.up.Shared {
			return nil, &failure{codeInternal, "the upstream of this session has ended, with what it knew; begin a new session", "upstream_lost"}
		}
		p, err := g.greetEither(ctx, s, func() (*peer, error) { return g.greetAgain(ctx, s) })
		if err == nil && p.translates {
			p.hear(everything)
			p.hear(filter{URIs: s.Subscriptions()})
		}
		if err != nil {
			err = startFailure(err)
		}
		return p, err
	})
	if err == nil && g.up.Shared {
		p.join(s)
	}
	return p, err
}

// greetAgain makes a connection for a session that has had another one.
func (g *Gateway) greetAgain(ctx context.Context, s *mcphttp.Session) (*peer, error) {
	params := edit(s.Initialize(), func(m map[string]json.RawMessage) { m["protocolVersion"] = compact(s.Version()) })
	p, err := g.greet(ctx, s, params)
	if err != nil {
		return nil, err
	}
	if p.version != s.Version() {
		p.link.close()
		return nil, &failure{codeInternal, fmt.Sprintf("the upstream speaks version %s now, and the session %s", p.version, s.Version()), "upstream_lost"}
	}
	p.told.Store(true)
	if err := p.note(ctx, noteInitialized, nil); err != nil {
		p.link.close()
		return nil, startFailure(err)
	}
	if level := s.LogLevel(); level != "" {
		_, err = p.ask(ctx, methodSetLevel, compact(map[string]string{"level": level}))
	}
	for _, uri := range s.Subscriptions() {
		if err == nil { // what is answered with an error is not there any more, and has no news
			_, err = p.ask(ctx, methodSubscribe, compact(map[string]string{"uri": uri}))
		}
	}
	if err != nil {
		p.link.close()
		return nil, startFailure(err)
	}
	return p, nil
}

// join notes that a session uses the connection.
func (p *peer) join(s *mcphttp.Session) {
	p.mu.Lock()
	again := p.sessions[s]
	p.sessions[s] = true
	p.mu.Unlock()
	if !again && p.translates {
		p.hear(filter{URIs: s.Subscriptions()})
	} else if !again {
		for _, uri := range s.Subscriptions() {
			p.tellTopic(methodSubscribe, uri)
		}
	}
}

// leave forgets a session, and what it alone has subscribed to.
func (p *peer) leave(s *mcphttp.Session) {
	p.mu.Lock()
	delete(p.sessions, s)
	p.mu.Unlock()
	if p.translates {
		return // what nobody has subscribed to any more is told to nobody
	}
	for _, uri := range s.Subscriptions() {
		p.unfollow(s, uri)
	}
}

// unfollow gives up what a session has subscribed to, if it is the last one.
func (p *peer) unfollow(s *mcphttp.Session, uri string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for other := range p.sessions {
		if other != s && hasString(other.Subscriptions(), uri) {
			return
		}
	}
	p.tellTopic(methodUnsubscribe, uri)
}

// tellTopic subscribes or not, without waiting: a resource that is not there has no news.
func (p *peer) tellTopic(method, uri string) {
	p.g.begin(func() {
		ctx, cancel := context.WithTimeout(p.g.life, p.g.up.StartTimeout)
		defer cancel()
		_, _ = p.ask(ctx, method, compact(map[string]string{"uri": uri}))
	})
}

// answerHere answers what a shared connection must not be told by one of many. It reports whether it has.
func (p *peer) answerHere(c *call, m *mcphttp.Message) bool {
	switch {
	case c.f.x.Session == nil:
		return false
	case p.translates:
		return p.answerTranslated(c, m)
	case !p.g.up.Shared:
		return false
	}
	switch m.Method {
	case methodUnsubscribe:
		p.unfollow(c.f.x.Session, stringMember(m.Params, "uri"))
	case methodSetLevel:
	default:
		return false
	}
	c.f.succeed(c, json.RawMessage("{}"))
	return true
}
