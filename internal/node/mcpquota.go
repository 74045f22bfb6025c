package node

import (
	"context"
	"net/http"

	"reprise/internal/audit"
	"reprise/internal/gateway/wire"
	"reprise/internal/identity"
	"reprise/internal/problem"
	"reprise/internal/quota"
	"reprise/mcp/mcphttp"
)

// Requests of MCP clients that a quota refuses are answered with a JSON-RPC error and status 200, because clients take
// another status for a broken connection and some of them then end the session.

// countRequests returns the number of requests among messages, and the number of those that are calls: of a tool, for a
// prompt, or for the content of a resource.
func countRequests(messages []mcphttp.Message) (requests, calls int) {
	for i := range messages {
		if messages[i].ID == "" || messages[i].Method == "" {
			continue
		}
		requests++
		switch messages[i].Method {
		case wire.MethodCall, "prompts/get", "resources/read":
			calls++
		}
	}
	return requests, calls
}

// admitCalls takes the calls of an exchange from their quota. release may be called more than once.
func (q *quotas) admitCalls(x *mcphttp.Exchange) (release func(), err error) {
	_, calls := countRequests(x.Messages)
	who := q.holder(x.Tenant, x.Principal)
	var taken []func()
	release = func() {
		for _, one := range taken {
			one()
		}
	}
	for range calls {
		one, err := q.Take(&who, quota.Calls)
		if err != nil {
			release()
			return nil, err
		}
		taken = append(taken, one)
	}
	return release, nil
}

// admitRequests takes the requests of an exchange from their quota, and then its calls.
func (q *quotas) admitRequests(x *mcphttp.Exchange) (release func(), err error) {
	requests, _ := countRequests(x.Messages)
	who := q.holder(x.Tenant, x.Principal)
	if err := q.Spend(&who, quota.Requests, int64(requests)); err != nil {
		return nil, err
	}
	return q.admitCalls(x)
}

// limitedBackend is a Backend whose clients have quotas of requests and calls.
type limitedBackend struct {
	mcphttp.Backend
	quotas *quotas
}

// Serve implements mcphttp.Backend.
func (b limitedBackend) Serve(ctx context.Context, x *mcphttp.Exchange) error {
	release, err := b.quotas.admitRequests(x)
	if err != nil {
		why := wire.Refusal(err).JSON()
		for _, m := range x.Messages {
			if m.ID != "" {
				_ = x.Respond(m.ID, wire.Response(m.ID, nil, why)) // the client has gone if it fails
			}
		}
		return nil
	}
	defer release()
	return b.Backend.Serve(ctx, x)
}

// verdict is the result of the quota of requests for an HTTP request to a gateway. It is found before the request is
// recorded, and answered by the backend.
type verdict struct{ refused error }

type verdictKey struct{}

// withVerdict returns a context with room for a verdict.
func withVerdict(ctx context.Context) context.Context {
	return context.WithValue(ctx, verdictKey{}, &verdict{})
}

// allowPassed takes what is asked of an upstream from the quota of requests, and records it before it is asked.
func (n *Node) allowPassed(upstream string) func(*http.Request, []mcphttp.Message) error {
	return func(r *http.Request, messages []mcphttp.Message) error {
		requests, _ := countRequests(messages)
		who := identity.FromContext(r.Context())
		found, _ := r.Context().Value(verdictKey{}).(*verdict)
		if requests > 0 && who != nil && found != nil {
			err := n.quotas.Spend(who.Holder(), quota.Requests, int64(requests))
			if err != nil {
				found.refused = err
				e := audit.Entry{
					Principal: who.Name, Tenant: who.Tenant, Remote: remoteOf(r), Act: "MCP " + messages[0].Method,
					Object: upstream, Result: string(problem.From(err).Code),
				}
				return n.recordMCP(r.Context(), e, false)
			}
		}
		return n.recordPassed(r, messages, upstream)
	}
}

// admitPassed refuses exchanges that the quotas have no room for.
func (n *Node) admitPassed(x *mcphttp.Exchange) (release func(), err error) {
	if found, ok := x.Request.Context().Value(verdictKey{}).(*verdict); ok && found.refused != nil {
		return nil, found.refused
	}
	return n.quotas.admitCalls(x)
}
