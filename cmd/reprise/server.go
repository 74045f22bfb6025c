package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/apikey"
	"reprise/internal/audit"
	"reprise/internal/console"
	"reprise/internal/execution"
	"reprise/internal/files"
	"reprise/internal/identity"
	"reprise/internal/isolation"
	"reprise/internal/logins"
	"reprise/internal/oidc"
	"reprise/internal/park"
	"reprise/internal/reads"
	"reprise/internal/roster"
	"reprise/internal/schedule"
	"reprise/internal/storeurl"
	"reprise/internal/upkeep"
	"reprise/internal/web"
	"reprise/internal/webhook"
	"reprise/replica"
	"reprise/store/storewrap"
)

// server is everything that serve has opened, from the inside out.
type server struct {
	dir       *dataDir
	store     reprise.Store
	log       *reprise.Log
	member    *replica.Member   // nil where there can be no other replicas
	keys      *apikey.Registry  // nil where everybody is let in
	isolation *isolation.Config // how commands are kept from each other
	logins    *logins.Logins    // nil where there is nothing to log out of
	audit     *audit.Trail      // nil where nothing is recorded
	// issuers are the identity providers whose tokens are taken, nil where there are none.
	issuers *oidc.Verifier
	quotas  *quotas
	host    *execution.Host
	mcp     *mcpEndpoint
	roster  *roster.Roster
	// files are the roots of --files, and watches what watches them; nil where there are none.
	files     *files.Roots
	watches   *files.Watches
	telemetry telemetry
	// webhooks are sent by one replica, as one of its duties.
	webhooks *webhook.Hooks
	// schedules too are run by one.
	schedules *schedule.Schedules
	duties    *duties
	front     *front // nil for a server without one
	handover  *handover
	logger    *slog.Logger
}

// open opens all of it, or nothing.
func (c *serveCmd) open(ctx context.Context, logger *slog.Logger) (s *server, err error) {
	s = &server{logger: logger}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	var taken net.Listener
	if s.dir, taken, err = c.take(ctx, c.Data, c.checkAddress); err != nil {
		return s, err
	}
	if taken != nil {
		c.passed = taken
		c.Listen = taken.Addr().String()
		defer func() {
			if s.front == nil {
				err = errors.Join(err, taken.Close())
			}
		}()
	}
	keys, err := c.keys()
	if err != nil {
		return s, err
	}
	var verifier identity.Verifier // nil lets everybody in
	if c.Auth == "token" {
		if verifier, err = c.verifier(); err != nil {
			return s, err
		}
	}
	// The address comes before the store, for it is quickly known to be taken.
	encrypt, err := c.tlsConfig(logger)
	if err != nil {
		return s, err
	}
	opts, err := c.apply(c.options(logger))
	if err != nil {
		return s, err
	}
	if s.front, err = listenFront(ctx, c.passed, c.Listen, encrypt, opts); err != nil {
		return s, err
	}
	if err := s.dir.announce(s.front.scheme, s.front.listener.Addr()); err != nil {
		return s, err
	}
	tokens := &oidc.Options{
		Resource: &oidc.Resource{Paths: map[string]oidc.PathScopes{"/mcp": toolScopes}}, Logger: logger,
	}
	if s.issuers, err = c.issuerFlags.open(s.front.url(), c.Listen, c.Auth, tokens); err != nil {
		return s, err
	}
	s.front.console = console.New()
	if s.front.parking, err = c.parking(logger); err != nil {
		return s, err
	}
	open := func() error { return s.openEngine(ctx, c, keys, verifier) }
	return s, s.awaitStore(ctx, c.Store.url, open, s.closeEngine)
}

// openEngine opens the store and all that needs it.
func (s *server) openEngine(ctx context.Context, c *serveCmd, keys *reprise.Keyset,
	verifier identity.Verifier,
) (err error) {
	if s.store, err = openStore(ctx, c.Store.url, s.dir, &storeurl.Options{
		Keys: c.file(c.secrets()), MakeKeys: true, Inner: c.archived(ctx, s.logger), Logger: s.logger,
	}); err != nil {
		return err
	}
	metrics := api.NewMetrics()
	if err = s.openQuotas(c, nil, metrics); err != nil {
		return err
	}
	if s.telemetry, err = c.openTelemetry(metrics.Registry(), s.logger); err != nil {
		return err
	}
	s.store = storewrap.Observe(s.store, metrics.StoreCalled)
	logOptions := c.logOptions(keys, metrics, s.logger)
	logOptions.Quota = s.quotas.kept
	if s.log, err = reprise.Open(ctx, s.store, logOptions); err != nil {
		return err
	}
	if err = s.join(ctx, c, keys); err != nil {
		return err
	}
	if err = s.openHost(ctx, c, keys, metrics); err != nil {
		return err
	}
	if verifier, err = s.openAPIKeys(ctx, verifier); err != nil {
		return err
	}
	if err = s.separate(c, s.isolation); err != nil {
		return err
	}
	if err = s.openAudit(ctx, c, keys); err != nil {
		return err
	}
	if err = s.openFiles(c); err != nil {
		return err
	}
	var access identity.Options
	if s.keys != nil {
		access.Certificates = s.keys
		if err = s.openLogins(ctx); err != nil {
			return err
		}
		access.Logins = s.logins
	}
	gate := identity.NewGate(keys, s.knowIssuers(verifier), &access)
	s.quotas.gate.Store(gate)
	if err = s.openMCP(c, gate, metrics.Registry()); err != nil {
		return err
	}
	if err = s.openWebhooks(ctx, c, gate, metrics); err != nil {
		return err
	}
	if err = s.openSchedules(ctx, gate, metrics); err != nil {
		return err
	}
	s.openRoster(c)
	opts := &api.Options{
		Version: buildVersion(),
		Hosts:   c.AllowHost, Origins: c.AllowOrigin, MCP: s.mcp.handler, Console: s.front.console,
		Metrics: metrics, Logger: s.logger, Heartbeat: c.Heartbeat, Audit: s.audit,
		Parking: s.front.parking, Issuers: s.issuers, Quotas: s.quotas.Book,
		NoCompression: !c.Compress, Tracer: s.telemetry.tracer, Token: s.proofToken(c),
	}
	opts.Reads = api.NewReads(s.log, opts)
	opts.Parts = s.parts(c, opts.Reads)
	handler, err := api.New(s.log, s.host, gate, opts)
	if err != nil {
		return err
	}
	if err := s.openDuties(); err != nil {
		return err
	}
	s.front.http.RegisterOnShutdown(handler.Drain)
	s.front.serve(handler)
	return nil
}

// parts are the capabilities that bring their own paths.
func (s *server) parts(c *serveCmd, reading *reads.Service) []web.Part {
	parts := []web.Part{
		upkeep.API{Log: s.log, Store: s.store, Temp: s.dir.path, Heartbeat: c.Heartbeat},
		webhook.API{Hooks: s.webhooks},
		schedule.API{Schedules: s.schedules},
		s.mcp.endpoints(), s.mcp.tasks(),
	}
	if s.files != nil {
		parts = append(parts,
			files.API{Roots: s.files, Watches: s.watches, Reads: reading, Quotas: s.quotas.Book})
	}
	if s.audit != nil {
		parts = append(parts, audit.API{Trail: s.audit, Log: s.log, Reads: reading})
	}
	if s.roster != nil {
		parts = append(parts, roster.API{Roster: s.roster})
	}
	if s.keys != nil {
		parts = append(parts, apikey.API{Keys: s.keys})
	}
	return parts
}

// serve answers requests until please is done, and then stops: readers are told to come back, and running commands
// are left to their supervisors, unless they are to be ended or now is done.
func (s *server) serve(please, now context.Context, endExecutions bool) error {
	s.front.begin()
	select {
	case err := <-s.front.failed: // the listener is broken
		return errors.Join(err, s.stop(now, false, false))
	case <-please.Done():
	}
	notifySystemd(s.logger, "STOPPING=1")
	s.logger.Info("stopping", "reason", context.Cause(please), "running", s.host.Counts().Running,
		"ends_executions", endExecutions)
	takenOver := isTakenOver(please)
	return s.stop(now, endExecutions && !takenOver, takenOver)
}

// secondThought is how long a server that leaves commands running waits for a second signal, which ends them.
const secondThought = time.Second

func (s *server) stop(now context.Context, endExecutions, takenOver bool) error {
	if !endExecutions && !takenOver && s.host.Counts().Running > 0 {
		select { // answering all the while
		case <-now.Done():
		case <-time.After(secondThought):
		}
	}
	mcpErr := s.mcp.close()
	closed := make(chan error, 1)
	go func() { closed <- s.shutdown(now) }()
	if !endExecutions && now.Err() == nil {
		mcpErr = errors.Join(mcpErr, <-closed)
		closed <- nil
	}
	end := func() error {
		_, err := s.host.Leave()
		return err
	}
	if endExecutions || now.Err() != nil {
		end = s.host.Close
	}
	return errors.Join(mcpErr, end(), <-closed)
}

// answerTimeout is how long a request that is under way may take to be answered
// once the server stops. Readers are let go at once.
const answerTimeout = 5 * time.Second

// shutdown closes the listener and waits for requests to be answered. Those who
// do not let go are cut off.
func (s *server) shutdown(now context.Context) error {
	ctx, cancel := context.WithTimeout(now, answerTimeout)
	defer cancel()
	return s.front.shutdown(ctx)
}

// close closes what was opened, from the outside in.
func (s *server) close() error {
	var errs []error
	if s.front != nil {
		errs = append(errs, s.front.close())
	}
	errs = append(errs, s.handover.close(), s.closeEngine())
	s.issuers.Close()
	if s.dir != nil {
		errs = append(errs, s.dir.close())
	}
	return errors.Join(errs...)
}

func (c *serveCmd) logOptions(keys *reprise.Keyset, metrics *api.Metrics, logger *slog.Logger) *reprise.Options {
	return &reprise.Options{
		Keys:           keys,
		Retention:      c.retention(),
		MaxIdle:        c.MaxIdle,
		MaxTenantBytes: int64(c.MaxTenantBytes), MaxTotalBytes: int64(c.MaxTotalBytes),
		MaxReaders: c.MaxReaders, SweepEvery: c.SweepEvery,
		Logger: logger, Hooks: metrics.LogHooks(),
	}
}

// parking returns what holds the readers that wait, nil with --no-park.
func (c *serveCmd) parking(logger *slog.Logger) (*park.Lot, error) {
	if !c.Park {
		return nil, nil
	}
	lot, err := park.New(&park.Options{Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("--park: %w", err)
	}
	return lot, nil
}

// openHost opens what runs commands.
func (s *server) openHost(ctx context.Context, c *serveCmd, keys *reprise.Keyset, metrics *api.Metrics) (err error) {
	opts := s.hostOptions(c, keys, metrics)
	if opts.Isolation, err = c.isolate(s.logger, s.secretPaths(c)...); err != nil {
		return err
	}
	if opts.Caps, opts.TenantCaps, err = parseCaps(c.LimitCommand); err != nil {
		return err
	}
	if err = c.openRange(&opts.Isolation, s.dir.path, s.logger); err != nil {
		return err
	}
	s.isolation = &opts.Isolation
	s.host, err = execution.Open(ctx, s.log, opts)
	return err
}

func (s *server) hostOptions(c *serveCmd, keys *reprise.Keyset, metrics *api.Metrics) *execution.Options {
	runs := filepath.Join(s.dir.path, runsDir)
	if strings.HasSuffix(c.Store.url, "memory:") {
		runs = "" // nobody could read the output of a command that outlives this server
	}
	return &execution.Options{
		Secrets: filepath.Join(c.secrets(), namedDir),
		RunsDir: runs, SpoolBytes: int64(c.SpoolBytes),
		MaxRunning: c.MaxRunning, MaxRunningPerSession: c.MaxRunningPerSession, MaxQueued: c.MaxQueued,
		MaxTimeout: c.MaxTimeout, PassEnv: c.PassEnv, Remember: c.Remember, RememberNames: c.RememberNames,
		MaxInterpreters: c.MaxInterpreters, InterpreterIdle: c.InterpreterIdle,
		StateDir: s.dir.path, Secret: []byte(keys.Sign("reprise executions 1")),
		Replica: s.member, Quotas: s.quotas.Book, Logger: s.logger, Hooks: metrics.ExecutionHooks(),
	}
}

// checkOpenAddress refuses to let everybody in from elsewhere.
func checkOpenAddress(address string) error {
	loopback, err := isLoopback(address)
	if err != nil {
		return err
	}
	if !loopback {
		return usage("--auth none lets everybody run commands, and --listen %s is not loopback: "+
			"take --auth token, or listen on 127.0.0.1", address)
	}
	return nil
}

// defaultDataDir is "reprise" in the user's state directory, "" for a user who has none.
func defaultDataDir() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "reprise")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "reprise")
}

// defaultGatewayDir is the same for a gateway.
func defaultGatewayDir() string {
	if dir := defaultDataDir(); dir != "" {
		return filepath.Join(dir, "gateway")
	}
	return ""
}

// newLogger writes what happens to stderr.
func newLogger(format string, level slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts))
}

// consoleURL is the address of the web console. On a terminal it has the token, and the page asks whether to log in by
// it: what is behind the "#" is sent to no server, and the page takes it out of the address. It must not lie in the log
// of whatever reads stdout.
func (s *server) consoleURL(c *serveCmd) string {
	address := s.front.url() + "/"
	if c.Auth != "token" || !isTerminal(stdout) {
		return address
	}
	token, err := identity.LoadToken(filepath.Join(c.secrets(), tokenFile))
	if err != nil {
		return address
	}
	return address + "#token=" + url.QueryEscape(token)
}

// hello says where the server is and what to try next. Its first line, which begin
// writes, is for programs too.
func (s *server) hello(c *serveCmd) {
	s.front.begin()
	base := s.front.url()
	token := filepath.Join(c.secrets(), tokenFile)
	switch {
	case c.Auth == "none":
		fmt.Fprintln(stdout, "everybody on this machine may run commands (--auth none)")
	default:
		fmt.Fprintln(stdout, "token in", token)
	}
	fmt.Fprintln(stdout, "events in", storeText(c.Store.url, s.dir))
	if s.member != nil {
		fmt.Fprintln(stdout, "one of the replicas of that store, by the name of", s.member.Name())
	}
	fmt.Fprintln(stdout, "console at", s.consoleURL(c))
	fmt.Fprintln(stdout, "tools for language models at", base+"/mcp")
	fmt.Fprintln(stdout, "try, in another terminal:")
	if base != "http://127.0.0.1:7070" {
		fmt.Fprintln(stdout, "  export REPRISE_URL="+base)
	}
	if c.Auth == "token" && c.secrets() != defaultDataDir() {
		fmt.Fprintf(stdout, "  export REPRISE_TOKEN=$(cat %s)\n", token)
	}
	fmt.Fprintf(stdout, "  %s run -- sh -c 'for i in 1 2 3; do echo $i; sleep 1; done'\n", self())
}
