package node

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/apikey"
	"reprise/internal/audit"
	"reprise/internal/datadir"
	"reprise/internal/drain"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/files"
	"reprise/internal/identity"
	"reprise/internal/oidc"
	"reprise/internal/roster"
	"reprise/internal/storeurl"
	"reprise/internal/upkeep"
)

// toolScopes are the scopes of the endpoint /mcp: what a client begins with, and what it may come back for.
var toolScopes = oidc.PathScopes{
	First: []identity.Scope{identity.ScopeRead, identity.ScopeRun},
	All:   []identity.Scope{identity.ScopeRead, identity.ScopeRun, identity.ScopeControl},
}

// Serve opens a server that runs commands, or nothing.
func Serve(ctx context.Context, o *Options) (*Node, error) {
	tokens := oidc.Options{
		Resource: &oidc.Resource{Paths: map[string]oidc.PathScopes{"/mcp": toolScopes}}, Logger: o.Logger,
	}
	return open(ctx, o, tokens, serveParts())
}

// serveParts are the parts of a server that runs commands. To add a capability, add its part before openAPI.
func serveParts() []Part {
	return []Part{
		withConsole, openTracer, openStore, openQuotas, openLog, openMember, openKeys, openAudit, openLogins, openGate,
		openProfiles, openHost, separateTenants, openDrain, openReads, openUpkeep, openFiles, openFaces, openRelays,
		openTools, openWindows, openWebhooks, openSchedules, openRoster, manageKeys, manageAudit, openDuties, openMeter,
		openAPI,
	}
}

// openHost opens what runs commands.
func openHost(ctx context.Context, n *Node) (err error) {
	opts := n.Executions
	if n.isolation, err = n.Isolation(); err != nil {
		return err
	}
	opts.Isolation = n.isolation
	if _, base := storeurl.Split(n.Store); base != "memory:" { // else no server could read what outlives this one
		opts.RunsDir = filepath.Join(n.dir.Path, datadir.RunsDir)
	}
	opts.Secrets = filepath.Join(n.Secrets, datadir.NamedDir)
	opts.StateDir, opts.Secret = n.dir.Path, []byte(n.cursors.Sign("reprise executions 1"))
	opts.Replica, opts.Quotas, opts.Drive = n.member, n.quotas.Book, interpreter.Drive
	opts.Logger, opts.Hooks = n.Logger, n.metrics.ExecutionHooks()
	if n.host, err = execution.Open(ctx, n.log, &opts); err != nil {
		return err
	}
	n.onClose(func() error {
		left, err := n.host.Leave()
		n.left = left
		return err
	})
	return nil
}

// openDrain lets a server finish its work before it stops.
func openDrain(_ context.Context, n *Node) error {
	n.drain = drain.New(n.host, n.metrics.OutputReaders, n.Logger)
	n.onClose(func() error { n.drain.Close(); return nil })
	n.routes = append(n.routes, drain.API{Drain: n.drain})
	return nil
}

// separateTenants checks that commands of different tenants are kept from each other, now and when a key is made.
func separateTenants(_ context.Context, n *Node) error {
	if n.keys == nil {
		return nil
	}
	var named []string
	for i := range n.Issuers {
		named = append(named, tenantsOf(&n.Issuers[i])...)
	}
	err := n.keys.Separate(func(tenants []string) error { return n.isolation.Separate(append(tenants, named...)) })
	if err != nil {
		return usage("%w", err)
	}
	if n.isolation.SharedUser {
		n.Logger.Warn("commands of all tenants run as one user and can reach each other where the isolation lets them",
			"flag", "--shared-user", "advice", "--run-as TENANT=USER or --run-as-range FIRST:COUNT")
	}
	return nil
}

// tenantsOf are the tenants that tokens of an issuer can name. If it can name any, "any" stands for two of them.
func tenantsOf(issuer *oidc.Issuer) (tenants []string) {
	switch {
	case issuer.TenantClaim == "":
		return []string{string(cmp.Or(issuer.Tenant, reprise.DefaultTenant))}
	case len(issuer.Tenants) == 0:
		return []string{"any of " + issuer.TenantClaim, "another of " + issuer.TenantClaim}
	}
	for _, tenant := range issuer.Tenants {
		tenants = append(tenants, string(tenant))
	}
	return tenants
}

// openReads opens what answers with the events of streams.
func openReads(_ context.Context, n *Node) error {
	n.reads = api.NewReads(n.log, n.apiOptions())
	return nil
}

// openUpkeep lets the store be swept, checked and backed up.
func openUpkeep(_ context.Context, n *Node) error {
	n.routes = append(n.routes, upkeep.API{Log: n.log, Store: n.store, Temp: n.dir.Path, Heartbeat: n.Heartbeat})
	return nil
}

// openFiles opens the directories of clients and their watches, if there are any.
func openFiles(_ context.Context, n *Node) error {
	if n.Files == nil {
		return nil
	}
	named, err := n.Files()
	if err != nil || len(named) == 0 {
		return err
	}
	roots, err := files.Open(named, nil)
	if err != nil {
		return usage("--files: %w", err)
	}
	n.onClose(roots.Close)
	watches, err := files.OpenWatches(n.log, roots, filepath.Join(n.dir.Path, datadir.WatchesDir),
		&files.WatchOptions{Logger: n.Logger})
	if err != nil {
		return err
	}
	n.onClose(watches.Close)
	n.files = files.API{Roots: roots, Watches: watches, Reads: n.reads, Quotas: n.quotas.Book}
	n.routes = append(n.routes, n.files)
	return nil
}

// openRoster lists the replicas of the store.
func openRoster(_ context.Context, n *Node) error {
	host, log := n.host, n.log // a late call must not see the fields of a later try
	about := roster.About{URL: n.front.url(), Version: n.Version, Started: time.Now()}
	replicas := roster.New(roster.Options{
		Replica: n.member, Name: n.Options.Replica, Logger: n.Logger,
		About: func() roster.About {
			now, counts := about, host.Counts()
			now.Running, now.Queued, now.Streams = counts.Running, counts.Queued, log.Memory().Streams
			return now
		},
	})
	n.onClose(func() error { replicas.Close(); return nil })
	n.routes = append(n.routes, roster.API{Roster: replicas})
	return nil
}

// manageKeys lets API keys be made and revoked, where there are any.
func manageKeys(_ context.Context, n *Node) error {
	if n.keys != nil {
		n.routes = append(n.routes, apikey.API{Keys: n.keys})
	}
	return nil
}

// manageAudit lets the audit log be read, where there is one.
func manageAudit(_ context.Context, n *Node) error {
	if n.audit != nil {
		n.routes = append(n.routes, audit.API{Trail: n.audit, Log: n.log, Reads: n.reads})
	}
	return nil
}

func (n *Node) apiOptions() *api.Options {
	return &api.Options{
		Version: n.Version, Hosts: n.AllowHosts, Origins: n.AllowOrigins, Metrics: n.metrics, Logger: n.Logger,
		Heartbeat: n.Heartbeat, Audit: n.audit, Parking: n.front.parking, Issuers: n.issuers, Quotas: n.quotas.Book,
		NoCompression: n.NoCompression, CloseEvent: n.CloseEvent, Tracer: n.tracer, Reads: n.reads, Parts: n.routes,
		LogRequests: n.LogRequests,
	}
}

// openAPI answers requests from now on.
func openAPI(_ context.Context, n *Node) error {
	opts := n.apiOptions()
	opts.MCP, opts.Console, opts.Token = n.tools.handler, n.front.console, n.proofToken()
	handler, err := api.New(n.log, n.host, n.gate, opts)
	if err != nil {
		return err
	}
	n.front.http.RegisterOnShutdown(handler.Drain)
	n.front.serve(handler)
	return nil
}

// Healthy returns nil if the server answers /healthz.
func (n *Node) Healthy(ctx context.Context) error { return n.front.healthy(ctx) }

// Serve answers requests until please is done or the server is drained, and then stops: readers are asked to come back,
// and running commands are left to their supervisors, unless they are to be ended or now is done. With
// Options.DrainFor, it drains before that.
func (n *Node) Serve(please, now context.Context, endExecutions bool) error {
	n.front.begin()
	select {
	case err := <-n.front.failed: // the listener is broken
		return errors.Join(err, n.stop(now, false, false))
	case <-n.drain.Over():
		n.Logger.Info("stopping", "reason", "drained", "running", n.host.Counts().Running)
		return n.stop(now, endExecutions, false)
	case <-please.Done():
	}
	if n.DrainFor > 0 && !isTakenOver(please) {
		if err := n.drain.Begin(n.DrainFor); err != nil {
			n.Logger.Warn("the server does not drain", "error", err)
		} else {
			select {
			case <-n.drain.Over():
			case <-now.Done():
			}
		}
	}
	NotifySystemd(n.Logger, "STOPPING=1")
	n.Logger.Info("stopping", "reason", context.Cause(please), "running", n.host.Counts().Running,
		"ends_executions", endExecutions)
	takenOver := isTakenOver(please)
	return n.stop(now, endExecutions && !takenOver, takenOver)
}

// secondThought is how long a server that leaves commands running waits for a second signal, which ends them.
const secondThought = time.Second

func (n *Node) stop(now context.Context, endExecutions, takenOver bool) error {
	if !endExecutions && !takenOver && n.host.Counts().Running > 0 {
		select { // answering all the while
		case <-now.Done():
		case <-time.After(secondThought):
		}
	}
	mcpErr := n.tools.close()
	closed := make(chan error, 1)
	go func() { closed <- n.shutdown(now) }()
	if !endExecutions && now.Err() == nil {
		mcpErr = errors.Join(mcpErr, <-closed)
		closed <- nil
	}
	end := func() error {
		_, err := n.host.Leave()
		return err
	}
	if endExecutions || now.Err() != nil {
		end = n.host.Close
	}
	return errors.Join(mcpErr, end(), <-closed)
}

// answerTimeout is how long a request that is under way may take to be answered
// once the server stops. Readers are let go at once.
const answerTimeout = 5 * time.Second

// shutdown closes the listener and waits for requests to be answered. Connections that
// do not finish in time are closed.
func (n *Node) shutdown(now context.Context) error {
	ctx, cancel := context.WithTimeout(now, answerTimeout)
	defer cancel()
	return n.front.shutdown(ctx)
}
