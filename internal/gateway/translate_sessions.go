package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// statelessToSession serves a client of version 2026-07-28 over a connection that the gateway has initialized.
type statelessToSession struct{ c *connection }

// answerHere answers requests that one of the two versions does not have: the upstream's older version or version
// 2026-07-28. It sets the log level that other requests ask for.
func (t statelessToSession) answerHere(ctx context.Context, r *clientRequest) bool {
	switch r.method {
	case wire.MethodDiscover:
		r.succeed(t.c.discoverResult())
	case wire.MethodListen:
		t.c.listen(r)
	case wire.MethodInitialize, wire.MethodPing, wire.MethodSetLevel, wire.MethodSubscribe, wire.MethodUnsubscribe:
		message := "version " + wire.Version20260728 + " has no " + r.method
		r.fail(Refused, &wire.Failure{Code: wire.CodeMethodNotFound, Message: message})
	default:
		t.c.setLogLevel(ctx, r)
		return false
	}
	return true
}

// params leaves out what older versions do not know.
func (statelessToSession) params(r *clientRequest) (json.RawMessage, http.Header) {
	if len(r.params) == 0 {
		return r.params, nil
	}
	return wire.EditMeta(r.params, func(meta map[string]json.RawMessage) {
		for _, key := range []string{wire.MetaVersion, wire.MetaClientInfo, wire.MetaCapabilities, wire.MetaLogLevel} {
			delete(meta, key)
		}
	}), nil
}

// result adds the members that version 2026-07-28 requires. The result may not be cached, because the upstream has not
// allowed it.
func (t statelessToSession) result(r *clientRequest, result json.RawMessage) json.RawMessage {
	return wire.Edit(result, func(m map[string]json.RawMessage) {
		setDefault(m, "resultType", "complete")
		if isCacheable(r.method) {
			setDefault(m, "ttlMs", 0)
			setDefault(m, "cacheScope", "private")
		}
		if info := wire.Members(t.c.agreement.Load().greeting)["serverInfo"]; info != nil {
			meta := wire.Members(m["_meta"])
			meta[wire.MetaServerInfo] = info
			m["_meta"] = wire.Compact(meta)
		}
	})
}

// setDefault sets a member that is missing.
func setDefault(m map[string]json.RawMessage, name string, value any) {
	if m[name] == nil {
		m[name] = wire.Compact(value)
	}
}

// isCacheable reports whether results of a method state how long they may be cached.
func isCacheable(method string) bool {
	return strings.HasSuffix(method, "/list") || method == "resources/read" || method == wire.MethodDiscover
}

// discoverResult returns the result of server/discover for an upstream that was initialized.
func (c *connection) discoverResult() json.RawMessage {
	greeting := wire.Members(c.agreement.Load().greeting)
	result := map[string]json.RawMessage{
		"supportedVersions": wire.Compact([]string{wire.Version20260728}), "capabilities": greeting["capabilities"],
	}
	setDefault(result, "capabilities", struct{}{})
	if greeting["instructions"] != nil {
		result["instructions"] = greeting["instructions"]
	}
	if c.g.tasks != nil {
		return withTasks(wire.Compact(result))
	}
	return wire.Compact(result)
}

// setLogLevel sets the log level of the upstream to the level in a request.
func (c *connection) setLogLevel(ctx context.Context, r *clientRequest) {
	level := wire.Text(wire.Members(r.params)["_meta"], wire.MetaLogLevel)
	if level == "" || c.g.up.Shared || c.capability("logging") == nil {
		return
	}
	r.wantsLogs = true
	c.mu.Lock()
	same := c.level == level
	c.level = level
	c.mu.Unlock()
	if !same {
		_, _ = c.ask(ctx, wire.MethodSetLevel, wire.Compact(map[string]string{"level": level})) // else the level stays
	}
}

// sessionToStateless serves a client with a session over a connection of version 2026-07-28. What an upstream wants
// to know is in a result there; see askRound.
type sessionToStateless struct{ c *connection }

// answerHere answers what version 2026-07-28 does not have.
func (t sessionToStateless) answerHere(_ context.Context, r *clientRequest) bool {
	switch r.method {
	case wire.MethodPing, wire.MethodSetLevel, wire.MethodUnsubscribe:
	case wire.MethodSubscribe:
		t.c.subscription.add(filter{URIs: []string{wire.Text(r.params, "uri")}})
	default:
		return false
	}
	r.succeed(json.RawMessage("{}"))
	return true
}

// params adds the agreements of the session.
func (sessionToStateless) params(r *clientRequest) (json.RawMessage, http.Header) {
	return withAgreement(r.params, r.x.Session), nil
}

// result leaves out what older versions do not have.
func (sessionToStateless) result(_ *clientRequest, result json.RawMessage) json.RawMessage {
	return wire.Edit(result, func(m map[string]json.RawMessage) {
		for _, key := range []string{"resultType", "ttlMs", "cacheScope"} {
			delete(m, key)
		}
	})
}

// withAgreement returns params with the version, the client, its capabilities and the log level of a session.
func withAgreement(params json.RawMessage, s *mcphttp.Session) json.RawMessage {
	said := wire.Members(s.Initialize())
	return wire.EditMeta(params, func(meta map[string]json.RawMessage) {
		meta[wire.MetaVersion] = wire.Compact(wire.Version20260728)
		meta[wire.MetaCapabilities] = json.RawMessage("{}")
		if said["capabilities"] != nil {
			meta[wire.MetaCapabilities] = said["capabilities"]
		}
		if said["clientInfo"] != nil {
			meta[wire.MetaClientInfo] = said["clientInfo"]
		}
		if level := s.LogLevel(); level != "" {
			meta[wire.MetaLogLevel] = wire.Compact(level)
		}
	})
}

// initializeResult returns the result of initialize for an upstream that was discovered, without a version.
func initializeResult(discovered json.RawMessage) json.RawMessage {
	said := wire.Members(discovered)
	info := wire.Members(said["_meta"])[wire.MetaServerInfo]
	if info == nil {
		info = wire.Compact(map[string]string{"name": "unknown", "version": "unknown"})
	}
	result := map[string]json.RawMessage{
		"serverInfo":   info,
		"capabilities": wire.Edit(said["capabilities"], func(c map[string]json.RawMessage) { delete(c, "extensions") }),
	}
	if said["instructions"] != nil {
		result["instructions"] = said["instructions"]
	}
	return wire.Compact(result)
}

// argumentHeaders returns the headers that mirror arguments.
func argumentHeaders(header http.Header) http.Header {
	mirrored := http.Header{}
	for name, values := range header {
		if strings.HasPrefix(name, "Mcp-Param-") {
			mirrored[name] = values
		}
	}
	return mirrored
}
