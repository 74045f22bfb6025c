package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"reprise"
)

// serveCmd runs the server.
type serveCmd struct {
	storeKeys       `embed:""`
	connectionFlags `embed:""`
	tlsFlags        `embed:""`
	proxyFlags      `embed:""`
	isolationFlags  `embed:""`
	filesFlags      `embed:""`
	dutyFlags       `embed:""`
	issuerFlags     `embed:""`
	quotaFlags      `embed:""`
	telemetryFlags  `embed:""`
	takeOverFlag    `embed:""`

	Config string   `placeholder:"FILE" help:"YAML file with settings: flags without their dashes, such as max-running: 8. Flags and the environment override it. Default: none."`
	Listen string   `default:"127.0.0.1:7070" placeholder:"HOST:PORT" help:"Address to listen on; port 0 takes a free one. Default: ${default}."`
	Data   string   `default:"${state}" placeholder:"DIR" help:"Data directory: store, token and keys. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	Store  storeURL `default:"sqlite:" placeholder:"URL" help:"Where events are kept: sqlite: (a file in the data directory), sqlite:PATH, log: (a directory in it; experimental), log:DIR, memory:, or a server that replicas share: redis://, rediss://, postgres:// or nats://; with compress+, encrypt+, retry+, cache+ or prefix(NAME)+ in front. @FILE reads the URL from a file that only its owner may read. Default: ${default}"`

	Archive string `placeholder:"URL" help:"Where streams are archived before they are swept: file:DIR or s3://BUCKET/PREFIX, from which they can still be read, or kafka://HOST:PORT/TOPIC. Default: nowhere."`

	Secrets string `placeholder:"DIR" help:"Directory of the token and of the keys that sign cursors. The replicas of a store need the same. Default: the data directory."`
	Replica string `placeholder:"NAME" help:"Prefix of this server's name among the replicas of its store. Default: the name of the machine."`

	Auth        string   `enum:"token,none" default:"token" placeholder:"KIND" help:"Who may use the server: token (anyone with the token), or none (everybody; only on loopback). Default: ${default}."`
	Audit       bool     `help:"Record who does what in the stream audit of the tenant reprise.audit; \"reprise audit\" reads it."`
	AllowOrigin []string `placeholder:"ORIGIN" help:"Origin whose pages may use the server, for example https://example.org. May be repeated."`
	AllowHost   []string `placeholder:"NAME" help:"Host name by which the server may be called, in addition to loopback and its address. May be repeated."`

	StopExecutions bool      `help:"End running commands at INT or TERM. Without it they go on, and the next server takes them over."`
	SpoolBytes     byteCount `placeholder:"SIZE" help:"Output of one command that is kept while no server runs; when it is full, the command waits. Default: 256MiB."`

	Heartbeat time.Duration `default:"15s" placeholder:"DURATION" help:"Silence after which a reader is sent a heartbeat, so that proxies do not cut the connection. Default: ${default}."`

	Compress bool `default:"true" negatable:"" help:"Compress events (gzip, zstd) for clients that ask for it. Default: on."`

	Park bool `help:"Park readers that wait, so that they need less memory (Linux, HTTP/1.1 without TLS; experimental)."`

	RetainEvents int64         `placeholder:"N" help:"Maximum number of events that a stream keeps. Default: 10000."`
	RetainBytes  byteCount     `placeholder:"SIZE" help:"Maximum number of bytes that a stream keeps. Default: 64MiB."`
	RetainAge    time.Duration `placeholder:"DURATION" help:"How long a stream is kept after its end. Default: 1h."`
	MaxIdle      time.Duration `placeholder:"DURATION" help:"How long a stream may be open without new events before it is ended, unless it says itself. Executions are not affected. Default: for ever."`
	SweepEvery   time.Duration `placeholder:"DURATION" help:"Time between sweeps for expired streams. Default: 5m."`

	MaxTotalBytes        byteCount     `placeholder:"SIZE" help:"Maximum number of bytes that all streams keep. Default: 16GiB."`
	MaxTenantBytes       byteCount     `placeholder:"SIZE" help:"Maximum number of bytes that the streams of one tenant keep. Default: no limit per tenant."`
	MaxReaders           int           `placeholder:"N" help:"Maximum number of readers of one stream. Default: 10000."`
	MaxRunning           int           `placeholder:"N" help:"Maximum number of running executions; others wait. Default: 64."`
	MaxRunningPerSession int           `placeholder:"N" help:"Maximum number of running executions of one session. Default: no limit per session."`
	MaxQueued            int           `placeholder:"N" help:"Maximum number of waiting executions. Default: 1000."`
	MaxInterpreters      int           `placeholder:"N" help:"Maximum number of running interpreters; they count as executions too. Default: 32."`
	InterpreterIdle      time.Duration `placeholder:"DURATION" help:"End interpreters after this time without code. Default: 1h."`
	MaxTimeout           time.Duration `placeholder:"DURATION" help:"Timeout of executions that ask for none or a longer one. Default: none."`
	PassEnv              []string      `placeholder:"NAME" help:"Variable of the server's environment that every command gets. May be repeated."`

	passed net.Listener // passed by the service manager or the previous server, in place of Listen; may be nil

	LogFormat string     `enum:"text,json" default:"text" placeholder:"FORMAT" help:"Form of the log on stderr: text or json. Default: ${default}."`
	LogLevel  slog.Level `default:"info" placeholder:"LEVEL" help:"debug, info (one line per request), warn or error. Default: ${default}."`
}

// Help is shown below the usage.
func (*serveCmd) Help() string {
	return `The first start writes a random token to DIR/token, and the keys that sign cursors to DIR/keys, both readable by their owner only. The server answers requests once it has printed the line "listening on URL" to stdout. If the store is on another server that cannot be reached, the server waits for it: /healthz succeeds, and all other requests, including /readyz, fail with store_unavailable.

At INT or TERM the server answers running requests, tells readers to reconnect, and exits. Running commands continue under their supervisors, and the next server with the same data directory takes them over. This also works after the server was killed. A second signal within a second, or --stop-executions, ends the commands. With the store memory: commands always end with the server, because their output is lost with it.

If this machine supports the isolation level limits, commands cannot become another user, signal or inspect other processes, or reach the data directory; "reprise doctor" says whether it does. Start a command that needs sudo with --isolation none.

A unit of systemd needs KillMode=process and Delegate=yes. A socket that systemd passes (LISTEN_FDS) replaces --listen: clients that connect during a restart wait until the server answers. If WATCHDOG_USEC is set, the server notifies systemd as long as /healthz succeeds.`
}

// Run serves until it is asked to stop.
func (c *serveCmd) Run(ctx context.Context, asked *stops) (err error) {
	if c.passed, err = passedSocket(); err != nil {
		return err
	}
	if c.passed != nil {
		if c.takesOver() {
			return usage("--take-over: the service manager has passed a socket already")
		}
		c.Listen = c.passed.Addr().String()
	}
	watchdog, err := watchdogPeriod()
	if err != nil {
		return err
	}
	if err := c.checkAddress(c.Listen); err != nil {
		return err
	}
	if c.MaxIdle < 0 {
		return usage("--max-idle %v: it must be positive", c.MaxIdle)
	}
	if c.Heartbeat <= 0 {
		return usage("--heartbeat %v: it must be longer than nothing", c.Heartbeat)
	}
	please, now, release := asked.watch(ctx)
	defer release()
	s, err := c.open(please, newLogger(c.LogFormat, c.LogLevel))
	if stoppedEarly(err) {
		return nil
	}
	if err != nil {
		return err
	}
	please = s.offer(please)
	s.hello(c)
	notifySystemd(s.logger, "READY=1")
	if watchdog > 0 {
		defer feedWatchdog(s.logger, watchdog, s.front.healthy)()
	}
	return errors.Join(s.serve(please, now, c.StopExecutions), s.close())
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
