package web

import (
	"context"
	"net"
	"net/http"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/problem"
)

// Journal records what senders do.
type Journal interface {
	// Record records a change before it is made. An error refuses the change.
	Record(ctx context.Context, a Act) error
	// Note records soon, and Refuse counts a refusal.
	Note(a Act)
	Refuse(a Act)
}

// Act is what a sender does.
type Act struct {
	Principal string
	Tenant    reprise.Tenant
	// Act is the method and the path of the route, and Object the path of the request, without the query, which may
	// contain a ticket.
	Act, Object     string
	Remote, Request string       // the address of the sender, and the id of the request
	Result          problem.Code // of a refusal
}

// record records an act that is allowed: a change before it is made, which fails with its record, and what reads soon.
func (m *Mux) record(x *Exchange, rt *route) error {
	switch {
	case rt.scope == Public || rt.has(Unrecorded):
		return nil
	case rt.method == http.MethodGet:
		m.opts.Journal.Note(act(x, rt))
		return nil
	}
	return m.opts.Journal.Record(x.R.Context(), act(x, rt))
}

func act(x *Exchange, rt *route) Act { return x.act(&x.Who, rt.method+" "+rt.path, x.R.URL.Path) }

func (x *Exchange) act(who *identity.Principal, what, object string) Act {
	remote, _, err := net.SplitHostPort(x.R.RemoteAddr)
	if err != nil {
		remote = x.R.RemoteAddr
	}
	return Act{
		Principal: who.Name, Tenant: who.Tenant, Act: what, Object: object,
		Remote: remote, Request: x.W.Header().Get(httpserver.RequestIDHeader),
	}
}

// recordRefusal counts a request that was refused because of its sender.
func (m *Mux) recordRefusal(x *Exchange, rt *route) {
	switch code := recordOf(x.W).Code(); code {
	case problem.CodeUnauthenticated, problem.CodeForbidden, problem.CodeRateLimited:
		a := act(x, rt)
		a.Object, a.Result = "", code
		m.opts.Journal.Refuse(a)
	}
}

// RecordAs records that who does something that the route does not say, before it is done.
func (x *Exchange) RecordAs(who *identity.Principal, what string) error {
	if x.mux.opts.Journal == nil {
		return nil
	}
	return x.mux.opts.Journal.Record(x.R.Context(), x.act(who, what, ""))
}

// Made records the object that a request has created, which its record could not name.
func (x *Exchange) Made(path string) {
	if x.mux.opts.Journal != nil {
		x.mux.opts.Journal.Note(x.act(&x.Who, "made", path))
	}
}
