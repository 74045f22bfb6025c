package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"path"
	"path/filepath"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/datadir"
	"reprise/internal/execution"
	"reprise/internal/gateway"
	"reprise/internal/gateway/credential"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/mcpapi"
	"reprise/internal/oidc"
	"reprise/internal/problem"
	"reprise/internal/quota"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
)

// Upstreams are the settings of a gateway.
type Upstreams struct {
	Routes []gateway.Route
	// TaskAfter is how long a tool may take before its call becomes a task. The others are settings of mcphttp. Zero
	// values are the defaults of the packages.
	TaskAfter, RetainAge, SessionIdle, Quick time.Duration
	MaxBody                                  int64
}

// GatewayQuotas are the quotas that a gateway counts.
var GatewayQuotas = []quota.Name{quota.Streams, quota.Bytes, quota.Sessions, quota.Requests, quota.Calls}

// passScopes are the scopes of an endpoint of a gateway, whose tools are not ours.
var passScopes = oidc.PathScopes{First: []identity.Scope{identity.ScopeRun}, All: []identity.Scope{identity.ScopeRun}}

// Gateway opens a server in front of other MCP servers, or nothing.
func Gateway(ctx context.Context, o *Options) (*Node, error) {
	tokens := oidc.Options{Resource: &oidc.Resource{Paths: map[string]oidc.PathScopes{}}, Logger: o.Logger}
	for i := range o.Upstreams.Routes {
		route := &o.Upstreams.Routes[i]
		tokens.Resource.Paths[route.Path] = passScopes
		tokens.Claims = append(tokens.Claims, route.Claims()...)
	}
	return open(ctx, o, tokens, []Part{
		openProfiles, killLeftBehind, openStore, openQuotas, openLog, openMember, openKeys, openAudit, openGate,
		openReads, openUpstreams, manageKeys, manageAudit, openManagement,
	})
}

// killLeftBehind kills the processes of upstreams that a killed gateway has left behind.
func killLeftBehind(_ context.Context, n *Node) error {
	if !gateway.KillMarked(n.mark()) {
		n.Logger.Error("processes that a killed gateway has left behind cannot be killed")
	}
	return nil
}

// mark is by what the processes of a gateway are known, as long as its data directory stays where it is.
func (n *Node) mark() string {
	sum := sha256.Sum256([]byte(n.dir.Path))
	return hex.EncodeToString(sum[:12])
}

// gatewayEndpoint is one upstream, and what answers for it.
type gatewayEndpoint struct {
	route   gateway.Route
	tasks   *mcptask.Tasks
	gateway *gateway.Gateway
	handler *mcphttp.Handler
}

// openUpstreams opens the endpoints of the upstreams.
func openUpstreams(_ context.Context, n *Node) error {
	passed := newGatewayMetrics(n.metrics.Registry())
	secrets := principalSecrets(n.Secrets)
	n.onClose(n.closeUpstreams)
	for _, route := range n.Upstreams.Routes {
		for i := range route.Merge { // so that one that never comes up is shown as 0
			passed.connections.With(route.Name + "/" + route.Merge[i].Name)
		}
		e := &gatewayEndpoint{route: route}
		n.upstreams = append(n.upstreams, e)
		var err error
		e.tasks, err = mcptask.New(n.log,
			&mcptask.Options{
				Name: route.Name, Replica: n.member, Keep: n.Upstreams.RetainAge, Hooks: n.mcp.Tasks(),
				Life: n.lives(), Logger: n.Logger,
			})
		if err != nil {
			return err
		}
		e.gateway, err = gateway.New(&route.Upstream, &gateway.Options{
			Mark: n.mark(), Tasks: e.tasks, TaskAfter: n.Upstreams.TaskAfter, Claims: claimsOf, Secrets: secrets,
			Admit: n.admitPassed, Logger: n.Logger, Hooks: passed.hooks(),
		})
		if err != nil {
			return usage("%w", err)
		}
		e.handler, err = mcphttp.New(n.log, e.gateway, &mcphttp.Options{
			Identify: identifyFor(n.gate, n.issuers), Allow: n.allowPassed(route.Name), Admit: n.quotas.admitMCP,
			Life: n.lives(), Name: route.Name, Versions: n.MCPVersions, ResponseAge: n.ResponseAge,
			Replica: n.member, SessionIdle: n.Upstreams.SessionIdle, Quick: n.Upstreams.Quick,
			MaxBody:      n.Upstreams.MaxBody,
			AllowedHosts: n.AllowHosts, AllowedOrigins: n.AllowOrigins,
			Retention: reprise.Retention{MaxAge: n.Upstreams.RetainAge}, Hooks: n.mcp.HTTP(), Logger: n.Logger,
		})
		if err != nil {
			return err
		}
	}
	watchSessions(n.mcp, n.metrics.Registry(), n.sessions())
	n.routes = append(n.routes, n.sessions(), n.tasks())
	return nil
}

// principalSecrets reads the secrets that are kept for principals below a directory: each in a folder of its tenant and
// of its own.
func principalSecrets(dir string) credential.Secrets {
	return func(p *credential.Principal, secret string) (string, error) {
		folder := path.Join(datadir.Folder(p.Tenant), datadir.Folder(p.Name))
		return execution.ReadSecret(filepath.Join(dir, datadir.PrincipalsDir), reprise.Tenant(folder), secret)
	}
}

// openManagement answers requests from now on: those to the upstreams, and those for sessions, keys and quotas.
func openManagement(_ context.Context, n *Node) error {
	n.metrics.WatchLog(n.log)
	opts := n.apiOptions()
	opts.Issuers = nil // newHandler answers for them
	management, err := api.NewManagement(n.log, n.gate, opts)
	if err != nil {
		return err
	}
	n.front.http.RegisterOnShutdown(management.Drain)
	n.front.serve(n.newHandler(management))
	return nil
}

// sessions are the endpoints whose sessions are shown.
func (n *Node) sessions() mcpapi.Sessions {
	shown := make(mcpapi.Sessions, len(n.upstreams))
	for i, e := range n.upstreams {
		shown[i] = mcpapi.Endpoint{Name: e.route.Name, Handler: e.handler}
	}
	return shown
}

// tasks are the endpoints whose tasks are shown.
func (n *Node) tasks() mcpapi.Tasks {
	shown := make(mcpapi.Tasks, len(n.upstreams))
	for i, e := range n.upstreams {
		shown[i] = mcpapi.TaskEndpoint{Name: e.route.Name, Tasks: e.tasks}
	}
	return shown
}

func (n *Node) newHandler(management http.Handler) http.Handler {
	gate, registry := n.gate, n.metrics.Registry()
	mux := http.NewServeMux()
	for _, e := range n.upstreams {
		mux.HandleFunc(e.route.Path, func(w http.ResponseWriter, r *http.Request) {
			if who, err := gate.Known(r); err == nil { // whom the endpoint identifies by itself
				ctx, release := identity.WhileGood(identity.NewContext(withVerdict(r.Context()), &who), &who)
				defer release()
				defer httpserver.EndBody(ctx, r)()
				r = r.WithContext(ctx)
			}
			e.handler.ServeHTTP(w, r)
		})
	}
	if n.issuers != nil {
		mux.HandleFunc("GET "+oidc.MetadataPath, serveMetadata(n.issuers))
		mux.HandleFunc("GET "+oidc.MetadataPath+"/", serveMetadata(n.issuers))
	}
	fine := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	mux.HandleFunc("GET /healthz", fine)
	mux.HandleFunc("GET /readyz", fine)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if err := n.mayReadMetrics(gate, r); err != nil {
			refuseProblem(w, err)
			return
		}
		registry.ServeHTTP(w, r)
	})
	all := http.NewServeMux()
	all.Handle("/v1/", management) // which logs its requests itself
	all.Handle("/", n.logged(mux))
	return all
}

// mayReadMetrics refuses requests that a page of another origin, or under a name of another server, has sent with the
// credentials of somebody who may, and all who may not.
func (n *Node) mayReadMetrics(gate *identity.Gate, r *http.Request) error {
	origin := r.Header.Get("Origin")
	if !httpserver.HostAllowed(r, n.AllowHosts) || origin != "" && !httpserver.SameOrigin(origin, r.Host) {
		return identity.ErrForbidden
	}
	p, err := gate.Identify(r)
	if err != nil {
		return err
	}
	httpserver.Authenticated(r)
	if !p.May(identity.ScopeAdmin) {
		return identity.ErrForbidden
	}
	return nil
}

func refuseProblem(w http.ResponseWriter, err error) {
	p := problem.From(err)
	http.Error(w, p.Title, p.Status)
}

// logged logs a line for each request, and refuses repeated headers.
func (n *Node) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, r, done := httpserver.GuardBody(w, r, bodyTimeout)
		defer done()
		rec := httpserver.NewRecord(w, r)
		defer rec.Log(n.Logger, n.LogRequests, r)
		if name := httpserver.RepeatedHeader(r); name != "" {
			_ = problem.Write(rec, problem.Invalid(http.StatusBadRequest, name, httpserver.RepeatedDetail))
			return
		}
		next.ServeHTTP(rec, r)
	})
}

// Pass answers requests until please is done. Then calls that are under way have until drain is over, or now is done.
func (n *Node) Pass(please, now context.Context, drain time.Duration) error {
	n.front.begin()
	select {
	case err := <-n.front.failed: // the listener is broken
		return err
	case <-please.Done():
	}
	n.Logger.Info("stopping", "reason", context.Cause(please), "calls", n.calls(), "drain", drain)
	ctx, cancel := context.WithTimeout(now, drain)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- n.shutdown(now) }()
	for n.calls() > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	err := n.closeUpstreams()
	return errors.Join(err, <-closed)
}

// calls is how many requests wait for an upstream or a backend.
func (n *Node) calls() (count int) {
	for _, e := range n.upstreams {
		if e.gateway != nil {
			count += e.gateway.Calls()
		}
	}
	for _, r := range n.relays {
		count += len(r.Running())
	}
	return count
}

func (n *Node) closeUpstreams() error {
	var errs []error
	for _, r := range n.relays {
		r.Close()
	}
	for _, e := range n.upstreams {
		if e.handler != nil {
			errs = append(errs, e.handler.Close())
		}
	}
	for _, e := range n.upstreams {
		if e.tasks != nil {
			errs = append(errs, e.tasks.Close())
		}
		if e.gateway != nil {
			errs = append(errs, e.gateway.Close())
		}
	}
	return errors.Join(errs...)
}
