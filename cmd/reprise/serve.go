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
	"time"

	"reprise"
	"reprise/internal/datadir"
	"reprise/internal/drain"
	"reprise/internal/identity"
	"reprise/internal/node"
	"reprise/internal/storeurl"
)

// serveCmd runs the server. Most of its flags are in serveflags.go, by the headings of its help.
type serveCmd struct {
	Config string   `placeholder:"FILE" help:"YAML file with settings: flags without their dashes, such as max-running: 8. Flags and the environment override it. Default: none."`
	Listen string   `default:"127.0.0.1:7070" placeholder:"HOST:PORT" help:"Address to listen on; port 0 takes a free one. Default: ${default}."`
	Data   string   `default:"${state}" placeholder:"DIR" help:"Data directory: store, token and keys. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	Store  storeURL `placeholder:"URL" help:"Where events are kept: log: (a directory in the data directory), log:DIR, sqlite: (a file in it), sqlite:PATH, memory:, or a server that replicas share: redis://, rediss://, postgres:// or nats://; with compress+, encrypt+, retry+, cache+ or prefix(NAME)+ in front. @FILE reads the URL from a file that only its owner may read. Default: sqlite: if the data directory has its file, which earlier versions began with, and otherwise log:."`

	storageFlags    `embed:"" group:"Storage:"`
	replicaFlags    `embed:"" group:"Replicas:"`
	takeOverFlag    `embed:"" group:"Replicas:"`
	accessFlags     `embed:"" group:"Access:"`
	quotaFlags      `embed:"" group:"Access:"`
	tlsFlags        `embed:"" group:"Connections:"`
	proxyFlags      `embed:"" group:"Connections:"`
	connectionFlags `embed:"" group:"Connections:"`
	readerFlags     `embed:"" group:"Connections:"`
	commandFlags    `embed:"" group:"Commands:"`
	relayFlags      `embed:"" group:"Other systems:"`
	mcpFlags        `embed:"" group:"Model Context Protocol:"`
	CallGrace       time.Duration `name:"call-grace" group:"Model Context Protocol:" placeholder:"DURATION" help:"How long a run goes on whose call was cut off on version 2026-07-28, on which a cut means a cancellation. The next call of the same client reports the run, which then stays. Default: it is cancelled at once."`
	dutyFlags       `embed:"" group:"Webhooks:"`
	logFlags        `embed:"" group:"Logs, metrics and traces:"`
	telemetryFlags  `embed:"" group:"Logs, metrics and traces:"`

	passed net.Listener // passed by the service manager or the previous server, in place of Listen; may be nil
}

// Help is shown below the usage.
func (*serveCmd) Help() string {
	return `The first start writes a random token to DIR/token, and the keys that sign cursors to DIR/keys, both readable by their owner only. The server answers requests once it has printed the line "listening on URL" to stdout. If the store is on another server that cannot be reached, the server waits for it: /healthz succeeds, and all other requests, including /readyz, fail with store_unavailable.

At INT, TERM or HUP the server answers running requests, asks readers to reconnect, and exits. Running commands continue under their supervisors, and the next server with the same data directory takes them over. This also works after the server was killed. A second INT or TERM within a second, or --stop-executions, ends the commands. With the store memory: commands always end with the server, because their output is lost with it.

If this machine supports the isolation level limits, commands cannot become another user, signal or inspect other processes, or reach the data directory; "reprise doctor" says whether it does. Start a command that needs sudo with --isolation none.

A unit of systemd needs KillMode=process and Delegate=yes. A socket that systemd passes (LISTEN_FDS) replaces --listen: clients that connect during a restart wait until the server answers. If WATCHDOG_USEC is set, the server notifies systemd as long as /healthz succeeds.`
}

// Run serves until it is asked to stop.
func (c *serveCmd) Run(ctx context.Context, asked *stops) (err error) {
	if c.passed, err = node.PassedSocket(); err != nil {
		return err
	}
	if c.passed != nil {
		if c.takesOver() {
			return usage("--take-over: the service manager has passed a socket already")
		}
		c.Listen = c.passed.Addr().String()
	}
	watchdog, err := node.WatchdogPeriod()
	if err != nil {
		return err
	}
	if err := c.checkAddress(c.Listen); err != nil {
		return err
	}
	if c.MaxIdle < 0 {
		return usage("--max-idle %v: it must be positive", c.MaxIdle)
	}
	if c.DrainFor < 0 || c.DrainFor > drain.Longest {
		return usage("--drain %v: it is positive and at most %v", c.DrainFor, drain.Longest)
	}
	if c.Heartbeat <= 0 {
		return usage("--heartbeat %v: it must be longer than nothing", c.Heartbeat)
	}
	please, now, release := asked.watch(ctx)
	defer release()
	please, release = orHangup(please)
	defer release()
	logger := newLogger(c.LogFormat, c.LogLevel)
	o, err := c.settings(please, logger)
	if err != nil {
		return err
	}
	s, err := node.Serve(please, o)
	if stoppedEarly(err) {
		return nil
	}
	if err != nil {
		return err
	}
	please = s.Offer(please)
	c.hello(s)
	node.NotifySystemd(logger, "READY=1")
	if watchdog > 0 {
		defer node.FeedWatchdog(logger, watchdog, s.Healthy)()
	}
	return errors.Join(s.Serve(please, now, c.StopExecutions), s.Close())
}

// checkAddress refuses an address that would expose the server contrary to the flags.
func (c *serveCmd) checkAddress(address string) error {
	if c.Auth == "none" {
		if err := checkOpenAddress(address); err != nil {
			return err
		}
	}
	return c.proxyFlags.check(address, &c.tlsFlags)
}

func (c *serveCmd) retention() reprise.Retention {
	return reprise.Retention{MaxEvents: c.RetainEvents, MaxBytes: int64(c.RetainBytes), MaxAge: c.RetainAge}
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
func (c *serveCmd) consoleURL(base string) string {
	address := base + "/"
	if c.Auth != "token" || !isTerminal(stdout) {
		return address
	}
	token, err := identity.LoadToken(filepath.Join(c.secrets(), datadir.TokenFile))
	if err != nil {
		return address
	}
	return address + "#token=" + url.QueryEscape(token)
}

// hello says where the server is and what to try next. Its first line, which begin
// writes, is for programs too.
func (c *serveCmd) hello(s *node.Node) {
	s.Begin()
	base := s.URL()
	token := filepath.Join(c.secrets(), datadir.TokenFile)
	switch {
	case c.Auth == "none":
		fmt.Fprintln(stdout, "everybody on this machine may run commands (--auth none)")
	default:
		fmt.Fprintln(stdout, "token in", token)
	}
	fmt.Fprintln(stdout, "events in", storeurl.Text(s.Dir(), c.Store.url))
	if name := s.Replica(); name != "" {
		fmt.Fprintln(stdout, "one of the replicas of that store, by the name of", name)
	}
	fmt.Fprintln(stdout, "console at", c.consoleURL(base))
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

// stoppedEarly reports whether err means that the server was stopped before it was open.
func stoppedEarly(err error) bool {
	_, ok := errors.AsType[*askedToStop](err)
	return ok
}
