package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/apikey"
	"reprise/internal/audit"
	"reprise/internal/gateway"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/mcpapi"
	"reprise/internal/mcpmetrics"
	"reprise/internal/metrics"
	"reprise/internal/oidc"
	"reprise/internal/problem"
	"reprise/internal/storeurl"
	"reprise/internal/web"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
	"reprise/store/storewrap"
)

// gatewayServer is everything that gateway has opened, from the inside out.
type gatewayServer struct {
	server
	hosts     []string // names by which the gateway may be called
	endpoints []*gatewayEndpoint
}

// gatewayEndpoint is one upstream, and what answers for it.
type gatewayEndpoint struct {
	route   gateway.Route
	tasks   *mcptask.Tasks
	gateway *gateway.Gateway
	handler *mcphttp.Handler
}

// open opens all of it, or nothing.
func (c *gatewayCmd) open(ctx context.Context, routes []gateway.Route,
	logger *slog.Logger,
) (s *gatewayServer, err error) {
	s = &gatewayServer{server: server{logger: logger}, hosts: c.AllowHost}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	base := c.base()
	if s.dir, err = lockDataDir(c.Data); err != nil {
		return s, err
	}
	mark := gatewayMark(s.dir)
	if !gateway.KillMarked(mark) {
		logger.Error("processes that a killed gateway has left behind cannot be killed")
	}
	keys, err := base.keys()
	if err != nil {
		return s, err
	}
	var verifier identity.Verifier // nil lets everybody in
	if c.Auth == "token" {
		if verifier, err = base.verifier(); err != nil {
			return s, err
		}
	}
	encrypt, err := c.tlsConfig(logger)
	if err != nil {
		return s, err
	}
	listening, err := c.apply(c.options(logger))
	if err != nil {
		return s, err
	}
	if s.front, err = listenFront(ctx, nil, c.Listen, encrypt, listening); err != nil {
		return s, err
	}
	if err := s.dir.announce(s.front.scheme, s.front.listener.Addr()); err != nil {
		return s, err
	}
	tokens := &oidc.Options{Resource: &oidc.Resource{Paths: map[string]oidc.PathScopes{}}, Logger: logger}
	for _, route := range routes {
		tokens.Resource.Paths[route.Path] = passScopes
		tokens.Claims = append(tokens.Claims, route.Claims()...)
	}
	if s.issuers, err = c.issuerFlags.open(s.front.url(), c.Listen, c.Auth, tokens); err != nil {
		return s, err
	}
	return s, s.awaitStore(ctx, c.Store.url, func() error { return c.openEngine(ctx, s, routes, keys, verifier, mark) },
		s.closeEngine)
}

// openEngine opens the store and all that needs it.
func (c *gatewayCmd) openEngine(
	ctx context.Context, s *gatewayServer, routes []gateway.Route, keys *reprise.Keyset, verifier identity.Verifier,
	mark string,
) (err error) {
	base := c.base()
	opts := &storeurl.Options{Keys: c.file(base.secrets()), MakeKeys: true, Logger: s.logger}
	if s.store, err = openStore(ctx, c.Store.url, s.dir, opts); err != nil {
		return err
	}
	apiMetrics := api.NewMetrics()
	if err = s.openQuotas(base, gatewayQuotas, apiMetrics); err != nil {
		return err
	}
	s.store = storewrap.Observe(s.store, apiMetrics.StoreCalled)
	logOptions := base.logOptions(keys, apiMetrics, s.logger)
	logOptions.Quota = s.quotas.kept
	if s.log, err = reprise.Open(ctx, s.store, logOptions); err != nil {
		return err
	}
	if err = s.join(ctx, base, keys); err != nil {
		return err
	}
	if verifier, err = s.openAPIKeys(ctx, verifier); err != nil {
		return err
	}
	if err = s.openAudit(ctx, base, keys); err != nil {
		return err
	}
	var access identity.Options
	if s.keys != nil {
		access.Certificates = s.keys
	}
	gate := identity.NewGate(keys, s.knowIssuers(verifier), &access)
	s.quotas.gate.Store(gate)
	if err = c.openEndpoints(s, routes, gate, apiMetrics.Registry(), mark); err != nil {
		return err
	}
	apiMetrics.WatchLog(s.log)
	management, err := s.manage(c, gate, apiMetrics)
	if err != nil {
		return err
	}
	s.front.http.RegisterOnShutdown(management.Drain)
	s.front.serve(s.newHandler(gate, apiMetrics.Registry(), management))
	return nil
}

// manage returns what answers for the sessions, keys and quotas of a gateway.
func (s *gatewayServer) manage(c *gatewayCmd, gate *identity.Gate, counted *api.Metrics) (*api.Server, error) {
	opts := &api.Options{
		Hosts: c.AllowHost, Origins: c.AllowOrigin, Audit: s.audit, Metrics: counted, Logger: s.logger,
		Quotas: s.quotas.Book, Parts: []web.Part{s.sessions(), s.tasks()},
	}
	if s.keys != nil {
		opts.Parts = append(opts.Parts, apikey.API{Keys: s.keys})
	}
	if s.audit != nil {
		opts.Reads = api.NewReads(s.log, opts)
		opts.Parts = append(opts.Parts, audit.API{Trail: s.audit, Log: s.log, Reads: opts.Reads})
	}
	return api.NewManagement(s.log, gate, opts)
}

// gatewayMark is by what the processes of a gateway are known, as long as its data directory stays where it is.
func gatewayMark(dir *dataDir) string {
	sum := sha256.Sum256([]byte(dir.path))
	return hex.EncodeToString(sum[:12])
}

func (c *gatewayCmd) openEndpoints(s *gatewayServer, routes []gateway.Route, gate *identity.Gate,
	registry *metrics.Registry, mark string,
) error {
	counted, passed := mcpmetrics.New(registry), newGatewayMetrics(registry)
	secrets := principalSecrets(c.base().secrets())
	for _, route := range routes {
		e := &gatewayEndpoint{route: route}
		s.endpoints = append(s.endpoints, e)
		var err error
		e.tasks, err = mcptask.New(s.log,
			&mcptask.Options{
				Name: route.Name, Replica: s.member, Keep: c.RetainAge, Hooks: counted.Tasks(),
				Life: s.lives(), Logger: s.logger,
			})
		if err != nil {
			return err
		}
		e.gateway, err = gateway.New(&route.Upstream, &gateway.Options{
			Mark: mark, Tasks: e.tasks, TaskAfter: c.TaskAfter, Claims: claimsOf, Secrets: secrets,
			Admit: s.admitPassed, Logger: s.logger, Hooks: passed.hooks(),
		})
		if err != nil {
			return usage("%w", err)
		}
		e.handler, err = mcphttp.New(s.log, e.gateway, &mcphttp.Options{
			Identify: identifyFor(gate, s.issuers), Allow: s.allowPassed(route.Name), Admit: s.quotas.admitMCP,
			Life: s.lives(), Name: route.Name,
			Replica: s.member, SessionIdle: c.SessionIdle, Quick: c.Quick, MaxBody: int64(c.MaxBody),
			AllowedHosts: c.AllowHost, AllowedOrigins: c.AllowOrigin, Retention: reprise.Retention{MaxAge: c.RetainAge},
			Hooks: counted.HTTP(), Logger: s.logger,
		})
		if err != nil {
			return err
		}
	}
	watchSessions(counted, registry, s.sessions())
	return nil
}

// sessions are the endpoints whose sessions are shown.
func (s *gatewayServer) sessions() mcpapi.Sessions {
	shown := make(mcpapi.Sessions, len(s.endpoints))
	for i, e := range s.endpoints {
		shown[i] = mcpapi.Endpoint{Name: e.route.Name, Handler: e.handler}
	}
	return shown
}

// tasks are the endpoints whose tasks are shown.
func (s *gatewayServer) tasks() mcpapi.Tasks {
	shown := make(mcpapi.Tasks, len(s.endpoints))
	for i, e := range s.endpoints {
		shown[i] = mcpapi.TaskEndpoint{Name: e.route.Name, Tasks: e.tasks}
	}
	return shown
}

func (s *gatewayServer) newHandler(gate *identity.Gate, registry *metrics.Registry,
	management http.Handler,
) http.Handler {
	mux := http.NewServeMux()
	for _, e := range s.endpoints {
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
	if s.issuers != nil {
		mux.HandleFunc("GET "+oidc.MetadataPath, serveMetadata(s.issuers))
		mux.HandleFunc("GET "+oidc.MetadataPath+"/", serveMetadata(s.issuers))
	}
	fine := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	mux.HandleFunc("GET /healthz", fine)
	mux.HandleFunc("GET /readyz", fine)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if err := s.mayReadMetrics(gate, r); err != nil {
			refuseProblem(w, err)
			return
		}
		registry.ServeHTTP(w, r)
	})
	all := http.NewServeMux()
	all.Handle("/v1/", management) // which logs its requests itself
	all.Handle("/", s.logged(mux))
	return all
}

// mayReadMetrics refuses requests that a page of another origin, or under a name of another server, has sent with the
// credentials of somebody who may, and all who may not.
func (s *gatewayServer) mayReadMetrics(gate *identity.Gate, r *http.Request) error {
	origin := r.Header.Get("Origin")
	if !httpserver.HostAllowed(r, s.hosts) || origin != "" && !httpserver.SameOrigin(origin, r.Host) {
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
func (s *gatewayServer) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, r, done := httpserver.GuardBody(w, r, bodyTimeout)
		defer done()
		rec := httpserver.NewRecord(w, r)
		defer rec.Log(s.logger, r)
		if name := httpserver.RepeatedHeader(r); name != "" {
			_ = problem.Write(rec, problem.Invalid(http.StatusBadRequest, name, httpserver.RepeatedDetail))
			return
		}
		next.ServeHTTP(rec, r)
	})
}

// serve answers requests until please is done. Then calls that are under way have until drain is over, or now is done.
func (s *gatewayServer) serve(please, now context.Context, drain time.Duration) error {
	s.front.begin()
	select {
	case err := <-s.front.failed: // the listener is broken
		return err
	case <-please.Done():
	}
	s.logger.Info("stopping", "reason", context.Cause(please), "calls", s.calls(), "drain", drain)
	ctx, cancel := context.WithTimeout(now, drain)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.shutdown(now) }()
	for s.calls() > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	err := s.closeEndpoints()
	return errors.Join(err, <-closed)
}

// calls is how many requests wait for an upstream.
func (s *gatewayServer) calls() (n int) {
	for _, e := range s.endpoints {
		if e.gateway != nil {
			n += e.gateway.Calls()
		}
	}
	return n
}

func (s *gatewayServer) closeEndpoints() error {
	var errs []error
	for _, e := range s.endpoints {
		if e.handler != nil {
			errs = append(errs, e.handler.Close())
		}
	}
	for _, e := range s.endpoints {
		if e.tasks != nil {
			errs = append(errs, e.tasks.Close())
		}
		if e.gateway != nil {
			errs = append(errs, e.gateway.Close())
		}
	}
	return errors.Join(errs...)
}

// closeEngine closes what lies behind the front, from the outside in.
func (s *gatewayServer) closeEngine() error {
	err := s.closeEndpoints()
	s.endpoints = nil
	return errors.Join(err, s.server.closeEngine())
}

// close closes what was opened, from the outside in.
func (s *gatewayServer) close() error {
	err := s.closeEngine()
	return errors.Join(err, s.server.close())
}
