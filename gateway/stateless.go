package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"reprise/mcphttp"
)

// Clients of version 2026-07-28 have no sessions: each request says all of itself. An upstream that speaks this version gets it
// as it is. For one that does not, we make the connection, and say what it answers in the newer form.

// The keys of _meta on version 2026-07-28.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// era is what an upstream speaks.
type era int

const (
	eraUnknown era = iota
	eraSessions
	eraStateless
)

// probeTimeout is how long an upstream may think about server/discover before it is taken for one that has never heard of it.
const probeTimeout = 10 * time.Second

func (g *Gateway) knownEra() era {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.era
}

func (g *Gateway) learn(e era) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.era = e
}

// poolKey says with whom a client without a session shares a connection: with those of the same principal, who can do
// the same.
func (g *Gateway) poolKey(x *mcphttp.Exchange) slotKey {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.poolKeyLocked(x)
}

func (g *Gateway) poolKeyLocked(x *mcphttp.Exchange) slotKey {
	if g.up.Shared && g.era == eraSessions {
		return slotKey{}
	}
	if g.up.Shared {
		return slotKey{pool: "shared"}
	}
	key := string(compact(string(x.Tenant))) + string(compact(x.Principal))
	if g.era != eraStateless { // else each request says what the client can do
		key += string(edit(capabilitiesOf(x), func(map[string]json.RawMessage) {}))
	}
	return slotKey{pool: key}
}

func capabilitiesOf(x *mcphttp.Exchange) json.RawMessage {
	return members(members(x.Messages[0].Params)["_meta"])[metaCapabilities]
}

// pooled is the connection for an exchange without a session.
func (g *Gateway) pooled(ctx context.Context, x *mcphttp.Exchange) (*peer, error) {
	if g.up.Shared && g.knownEra() == eraUnknown {
		// The connection of the sessions must not be made twice: ask first.
		if _, err := g.slot(slotKey{pool: "probe"}).connect(ctx, g.probe); err != nil && g.knownEra() == eraUnknown {
			return nil, err
		}
		g.slot(slotKey{pool: "probe"}).dismiss()
	}
	capabilities := capabilitiesOf(x)
	if g.up.Shared {
		capabilities = json.RawMessage("{}")
	}
	open := func(ctx context.Context) (*peer, error) {
		if g.knownEra() != eraSessions {
			p, err := g.probe(ctx)
			if err == nil || g.knownEra() != eraSessions {
				return p, err
			}
		}
		p, err := g.greetOurselves(ctx, capabilities)
		if err != nil && g.knownEra() == eraSessions {
			g.learn(eraUnknown) // it may have been too slow to say that it can do without
		}
		return p, err
	}
	p, err := g.slot(g.poolKey(x)).connect(ctx, open)
	if err == errSlotClosed { //nolint:errorlint // of our own, never wrapped
		p, err = g.slot(g.poolKey(x)).connect(ctx, open) // it was idle, and is a new one now
	}
	return p, err
}

// errOtherEra: the upstream does not speak version 2026-07-28.
var errOtherEra = &failure{codeInternal, "the upstream does not speak version " + version20260728, "upstream_unavailable"}

// probe makes a connection to an upstream that speaks version 2026-07-28. The error is errOtherEra if it does not.
func (g *Gateway) probe(ctx context.Context) (*peer, error) {
	p := g.newPeer()
	if err := g.open(p); err != nil {
		return nil, err
	}
	p.link.agreed(version20260728)
	asking, cancel := context.WithTimeout(ctx, min(probeTimeout, g.up.StartTimeout/2))
	defer cancel()
	m, err := p.ask(asking, methodDiscover, compact(map[string]any{"_meta": ourMeta()}))
	var result struct {
		Versions []string `json:"supportedVersions"`
	}
	if err == nil && m.Result != nil && json.Unmarshal(m.Result, &result) == nil && slices.Contains(result.Versions, version20260728) {
		g.learn(eraStateless)
		p.greeting, p.version = m.Result, version20260728
		p.stateless.Store(true)
		return p, nil
	}
	p.link.close()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if isFailure(err) {
		return nil, err
	}
	g.learn(eraSessions)
	return nil, errOtherEra
}

// ourMeta is what a request of our own says of itself.
func ourMeta() map[string]any {
	return map[string]any{metaVersion: version20260728, metaClientInfo: clientInfo, metaCapabilities: map[string]any{}}
}

// serveStateless serves an exchange of version 2026-07-28.
func (g *Gateway) serveStateless(ctx context.Context, x *mcphttp.Exchange) error {
	m := &x.Messages[0]
	if m.ID == "" {
		return nil // there is none that says anything
	}
	f := g.newFlight(x)
	f.open = 1
	c := &call{f: f, id: m.ID, method: m.Method, began: time.Now()}
	f.only = c
	if p := g.unpark(x, m); p != nil {
		return p.resume(ctx, f, m)
	}
	p, err := g.pooled(ctx, x)
	if err != nil {
		f.fail(c, Refused, failureOf(err))
		return f.run(ctx, []*call{c})
	}
	if !p.stateless.Load() && stringMember(m.Params, "requestState") != "" {
		// It was ours, and is forgotten. To call the upstream would be to call it again.
		f.fail(c, Refused, &failure{codeInvalidParams, "the requestState is not known, or not any more", "upstream_lost"})
		return f.run(ctx, []*call{c})
	}
	if g.tasked.takes(x, p) {
		return g.tasked.backend.Serve(ctx, x)
	}
	if m.Method == methodListen && p.canListen(m.Params) {
		p.listen(c, m.Params)
		return f.run(ctx, []*call{c})
	}
	if p.version == version20260728 {
		f.prepare = g.asOurs
		params, header := f.paramsFor(p, m)
		g.start(ctx, p, c, params, header)
		return f.run(ctx, []*call{c})
	}
	f.prepare = func(c *call, m *mcphttp.Message) { inNewForm(p, c, m) }
	switch m.Method {
	case methodDiscover:
		f.succeed(c, g.discovered(p.greeting))
	case methodInitialize, methodPing, methodSetLevel, methodSubscribe, methodUnsubscribe:
		f.fail(c, Refused, &failure{codeMethodNotFound, "version " + version20260728 + " has no " + m.Method, ""})
	default:
		p.wantLogs(ctx, f, m.Params)
		params, header := f.paramsFor(p, m)
		g.start(ctx, p, c, params, header)
	}
	return f.run(ctx, []*call{c})
}

// start sends a request, or answers it with why it cannot be sent.
func (g *Gateway) start(ctx context.Context, p *peer, c *call, params json.RawMessage, header http.Header) {
	params, err := p.begin(c, params)
	if err == nil {
		if err = p.send(ctx, c, params, header); err != nil && !p.forget(c) {
			err = nil // it was answered when the link ended
		}
	}
	switch {
	case err == nil || ctx.Err() != nil:
	case err == errEnded && !c.again: //nolint:errorlint // of our own, never wrapped
		c.f.push(arrival{call: c, again: true})
	default:
		c.f.fail(c, Refused, failureOf(err))
	}
}

// paramHeaders are the headers that mirror arguments.
func paramHeaders(header http.Header) http.Header {
	mirrored := http.Header{}
	for name, values := range header {
		if strings.HasPrefix(name, "Mcp-Param-") {
			mirrored[name] = values
		}
	}
	return mirrored
}

// withoutMeta takes out of params what an older upstream does not know.
func withoutMeta(params json.RawMessage) json.RawMessage {
	if len(params) == 0 {
		return params
	}
	return editMeta(params, func(meta map[string]json.RawMessage) {
		for _, key := range []string{metaVersion, metaClientInfo, metaCapabilities, metaLogLevel} {
			delete(meta, key)
		}
	})
}

// inNewForm makes the result of an older upstream one of version 2026-07-28.
func inNewForm(p *peer, c *call, m *mcphttp.Message) {
	m.Result = edit(m.Result, func(r map[string]json.RawMessage) {
		if r["resultType"] == nil {
			r["resultType"] = json.RawMessage(`"complete"`)
		}
		if isCacheable(c.method) {
			cached(r)
		}
		if info := members(p.greeting)["serverInfo"]; info != nil {
			meta := members(r["_meta"])
			meta[metaServerInfo] = info
			r["_meta"] = compact(meta)
		}
	})
}

// isCacheable reports whether the result of a method says how long it may be kept.
func isCacheable(method string) bool {
	return strings.HasSuffix(method, "/list") || method == "resources/templates/list" || method == "resources/read" || method == methodDiscover
}

// cached says that a result is not to be kept: the upstream has not said that it may be.
func cached(r map[string]json.RawMessage) {
	if r["ttlMs"] == nil {
		r["ttlMs"] = json.RawMessage("0")
	}
	if r["cacheScope"] == nil {
		r["cacheScope"] = json.RawMessage(`"private"`)
	}
}

// discovered makes the result of server/discover of that of initialize.
func (g *Gateway) discovered(greeting json.RawMessage) json.RawMessage {
	said := members(greeting)
	r := map[string]json.RawMessage{
		"supportedVersions": compact([]string{version20260728}), "capabilities": said["capabilities"],
	}
	if r["capabilities"] == nil {
		r["capabilities"] = json.RawMessage("{}")
	}
	if said["instructions"] != nil {
		r["instructions"] = said["instructions"]
	}
	if g.tasked != nil {
		return withTasks(compact(r))
	}
	return compact(r)
}

// wantLogs has the upstream log as much as a client wants that has said so.
func (p *peer) wantLogs(ctx context.Context, f *flight, params json.RawMessage) {
	level := stringMember(members(params)["_meta"], metaLogLevel)
	if level == "" || p.g.up.Shared || members(members(p.greeting)["capabilities"])["logging"] == nil {
		return
	}
	f.logs = true
	p.mu.Lock()
	same := p.level == level
	p.level = level
	p.mu.Unlock()
	if !same {
		_, _ = p.ask(ctx, methodSetLevel, compact(map[string]string{"level": level})) // then it says what it says
	}
}

// subscribed takes a notification of an upstream of version 2026-07-28 to who has subscribed to it, or to the request during
// which it came.
func (p *peer) subscribed(m mcphttp.Message, during *call) {
	meta := members(members(m.Params)["_meta"])
	id := meta[metaSubscription]
	if id == nil {
		if f, several := p.flightOf(during); f != nil && !several {
			f.push(arrival{m: m})
		}
		return
	}
	p.mu.Lock()
	c := p.calls[parseUpstreamID(id)]
	p.mu.Unlock()
	if c == nil {
		return
	}
	if c.f == nil {
		p.heard(m)
		return
	}
	params := editMeta(m.Params, func(meta map[string]json.RawMessage) { meta[metaSubscription] = json.RawMessage(c.id) })
	c.f.push(arrival{m: mcphttp.Message{Raw: request("", m.Method, params), Method: m.Method}})
}

// asOurs puts the client's id into the end of a subscription, and our own abilities into what the upstream says of its.
func (g *Gateway) asOurs(c *call, m *mcphttp.Message) {
	switch {
	case c.method == methodListen:
		m.Result = editMeta(m.Result, func(meta map[string]json.RawMessage) { meta[metaSubscription] = json.RawMessage(c.id) })
	case c.method == methodDiscover && g.tasked != nil && !c.peer.hasTasks():
		m.Result = withTasks(m.Result)
	}
}
