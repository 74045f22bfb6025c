package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/oidc"
	"reprise/internal/quota"
	"reprise/internal/reads"
	"reprise/internal/relay"
	"reprise/internal/web"
)

// Relay opens a proxy that records the streaming answers of a backend, or nothing. Whoever reaches it reaches the
// backend.
func Relay(ctx context.Context, o *Options) (*Node, error) {
	return open(ctx, o, oidc.Options{Resource: &oidc.Resource{}, Logger: o.Logger}, []Part{
		openProfiles, openStore, openQuotas, openLog, openBackend,
	})
}

// errSharedRelay refuses a store that other relays may use.
var errSharedRelay = errors.New("--store: the answers of a relay are those of one process, and this store is shared; " +
	"take sqlite:, log: or memory")

// openBackend opens the relay of [Relay].
func openBackend(ctx context.Context, n *Node) error {
	r, err := n.openRelay(ctx, n.RelayTo)
	if err != nil {
		return err
	}
	n.relays = []*relay.Relay{r}
	n.metrics.WatchLog(n.log)
	n.front.serve(n.logged(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch { // and no ServeMux, which would answer a path such as /a//b with a redirection
		case req.URL.Path == relay.Prefix+"healthz":
			w.WriteHeader(http.StatusNoContent)
		case !httpserver.HostAllowed(req, n.AllowHosts): // the backend sees its own name, and cannot refuse it
			refuseProblem(w, errOtherName)
		default:
			httpserver.Authenticated(req) // the backend knows its clients
			r.ServeHTTP(w, req)
		}
	})))
	return nil
}

var errOtherName = fmt.Errorf("%w: the relay does not go by the name in the header Host; name it with --allow-host",
	identity.ErrForbidden)

func (n *Node) openRelay(ctx context.Context, opts relay.Options) (*relay.Relay, error) {
	if n.log.Shared() {
		return nil, usage("%w", errSharedRelay)
	}
	opts.Secret = []byte(n.cursors.Sign("reprise relay 1 " + opts.Mount))
	opts.Logger, opts.Heartbeat = n.Logger, n.Heartbeat
	r, err := relay.Open(ctx, n.log, &opts)
	if err != nil {
		return nil, usage("%w", err)
	}
	n.onClose(func() error { r.Close(); return nil })
	return r, nil
}

// openRelays opens the relays of a server that does other things too, each below a path.
func openRelays(ctx context.Context, n *Node) error {
	n.relays = nil
	for _, at := range n.Relays {
		at.Sender = func(r *http.Request) quota.Account { return sender(r.Context()) }
		if at.Mount == "/" || !path.IsAbs(at.Mount) || path.Clean(at.Mount) != at.Mount ||
			strings.ContainsAny(at.Mount, "{} ") || strings.HasPrefix(at.Mount+"/", "/v1/") {
			return usage("--relay %s: a path such as /chat is taken, outside /v1", at.Mount)
		}
		r, err := n.openRelay(ctx, at)
		if err != nil {
			return err
		}
		n.relays = append(n.relays, r)
		n.routes = append(n.routes, relayPart{r, n.reads, at.Mount})
	}
	return nil
}

// relayPart is a relay below a path, for senders who may run.
type relayPart struct {
	relay *relay.Relay
	reads *reads.Service
	mount string
}

// Routes implements web.Part.
func (p relayPart) Routes(m *web.Mux) {
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		for _, at := range []string{p.mount, p.mount + "/{rest...}"} {
			m.Handle(method, at, identity.ScopeRun, nil, p.pass, web.AnyQuery)
		}
	}
}

// ours are the headers that are for this server alone.
var ours = []string{"Authorization", "Cookie", identity.LoginHeader}

func (p relayPart) pass(x *web.Exchange) error {
	if err := p.reads.Enter(x); err != nil {
		return err
	}
	x.EndWithServer()
	r := x.R.Clone(context.WithValue(x.R.Context(), senderKey{}, x.Who.Holder().Account))
	for _, name := range ours {
		r.Header.Del(name)
	}
	var err error
	rest := strings.TrimPrefix(r.URL.EscapedPath(), p.mount)
	if r.URL, err = url.Parse("/" + strings.TrimPrefix(rest, "/")); err != nil {
		return web.BadRequest("", "the path cannot be read")
	}
	r.URL.RawQuery = x.R.URL.RawQuery
	h := x.W.Header()
	for _, name := range slices.Collect(maps.Keys(h)) { // the headers of our own answers
		if name != httpserver.RequestIDHeader && !strings.HasPrefix(name, "Access-Control-") {
			delete(h, name)
		}
	}
	p.relay.ServeHTTP(x.W, r)
	return nil
}

type senderKey struct{}

func sender(ctx context.Context) quota.Account {
	account, _ := ctx.Value(senderKey{}).(quota.Account)
	return account
}
