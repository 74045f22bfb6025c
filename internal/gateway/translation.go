package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"reprise/internal/gateway/wire"
)

// translation is how the requests of a client go to an upstream and their results come back. There is one type for
// each pair of kinds of versions.
type translation interface {
	// answerHere answers a request that is not for the upstream. It reports false for all others.
	answerHere(ctx context.Context, r *clientRequest) bool
	// params returns the params of a request for the upstream, and headers if the upstream has a URL.
	params(r *clientRequest) (json.RawMessage, http.Header)
	// result returns a result of the upstream for the client.
	result(r *clientRequest, result json.RawMessage) json.RawMessage
}

// translationTo returns the translation between the client of d and a connection.
func (d *delivery) translationTo(c *connection) translation {
	switch stateless := d.x.Stateless(); {
	case stateless && c.stateless():
		return statelessToStateless{c}
	case stateless:
		return statelessToSession{c}
	case c.stateless():
		return sessionToStateless{c}
	}
	return sessionToSession{c}
}

// sessionToSession passes all messages unchanged.
type sessionToSession struct{ c *connection }

// answerHere answers what one session of several that share a connection may not tell the upstream.
func (t sessionToSession) answerHere(_ context.Context, r *clientRequest) bool {
	if !t.c.g.up.Shared {
		return false
	}
	switch r.method {
	case wire.MethodUnsubscribe:
		t.c.unsubscribe(r.x.Session, wire.Text(r.params, "uri"))
	case wire.MethodSetLevel:
	default:
		return false
	}
	r.succeed(json.RawMessage("{}"))
	return true
}

func (sessionToSession) params(r *clientRequest) (json.RawMessage, http.Header) { return r.params, nil }

func (sessionToSession) result(_ *clientRequest, result json.RawMessage) json.RawMessage {
	return result
}

// statelessToStateless passes requests unchanged except subscriptions, and results unchanged except the additions of
// the gateway.
type statelessToStateless struct{ c *connection }

func (t statelessToStateless) answerHere(_ context.Context, r *clientRequest) bool {
	if r.method != wire.MethodListen || !isFilter(r.params) {
		return false
	}
	t.c.listen(r)
	return true
}

// params returns the headers of the client that mirror arguments.
func (statelessToStateless) params(r *clientRequest) (json.RawMessage, http.Header) {
	return r.params, argumentHeaders(r.x.Header)
}

// result puts the client's id into the end of a subscription, and adds tasks to what the upstream declares.
func (t statelessToStateless) result(r *clientRequest, result json.RawMessage) json.RawMessage {
	switch {
	case r.method == wire.MethodListen:
		return wire.WithSubscription(result, r.id)
	case r.method == wire.MethodDiscover && t.c.g.tasks != nil && !t.c.hasTasks():
		return withTasks(result)
	}
	return result
}
