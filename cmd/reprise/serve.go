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
	clientCAFlags   `embed:""`
	isolationFlags  `embed:""`
	filesFlags      `embed:""`
	dutyFlags       `embed:""`
	issuerFlags     `embed:""`
	quotaFlags      `embed:""`
	telemetryFlags  `embed:""`
	takeOverFlag    `embed:""`

	Config string `placeholder:"FILE" help:"YAML file with settings: flags without their dashes, such as max-running: 8. Flags and the environment win over it. Default: none."`
	Listen string `default:"127.0.0.1:7070" placeholder:"HOST:PORT" help:"Address to listen on; port 0 takes a free one. Default: ${default}."`
	Data   string `default:"${state}" placeholder:"DIR" help:"Data directory: store, token and keys. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	Store  string `default:"sqlite:" placeholder:"URL" help:"Where events are kept: sqlite: (a file in the data directory), sqlite:PATH, log: (a directory in it; experimental), log:DIR, memory:, or a server that replicas share: redis://, rediss://, postgres:// or nats://; with compress+, encrypt+, retry+, cache+ or prefix(NAME)+ in front. Default: ${default}"`

	Archive string `placeholder:"URL" help:"Where streams are kept for ever before they are swept: file:DIR, s3://BUCKET/PREFIX, from both of which they are still read, or kafka://HOST:PORT/TOPIC. Default: nowhere."`

	Secrets string `placeholder:"DIR" help:"Directory of the token and of the keys that sign cursors. The replicas of a store need the same. Default: the data directory."`
	Replica string `placeholder:"NAME" help:"What the name of this server begins with among the replicas of its store. Default: the name of the machine."`

	Auth        string   `enum:"token,none" default:"token" placeholder:"KIND" help:"Who may use the server: token (who has the token), or none (everybody; only on loopback). Default: ${default}."`
	Audit       bool     `help:"Record who does what in the stream audit of the tenant reprise.audit; \"reprise audit\" reads it."`
	AllowOrigin []string `placeholder:"ORIGIN" help:"Origin whose pages may use the server, for example https://example.org. May be repeated."`
	AllowHost   []string `placeholder:"NAME" help:"Name by which the server may be called, beside loopback and its address. May be repeated."`

	StopExecutions bool      `help:"End running commands at INT or TERM. Without it they go on, and the next server takes them up."`
	SpoolBytes     byteCount `placeholder:"SIZE" help:"Output of one command that is kept for the time when no server is there; then the command waits. Default: 256MiB."`

	Heartbeat time.Duration `default:"15s" placeholder:"DURATION" help:"Silence after which a reader is sent something without a meaning, so that proxies do not cut it. Default: ${default}."`

	Compress bool `default:"true" negatable:"" help:"Compress events (gzip, zstd) for clients that ask for it. Default: on."`

	RetainEvents int64         `placeholder:"N" help:"Events that a stream keeps. Default: 10000."`
	RetainBytes  byteCount     `placeholder:"SIZE" help:"Bytes that a stream keeps. Default: 64MiB."`
	RetainAge    time.Duration `placeholder:"DURATION" help:"How long a stream is kept after its end. Default: 1h."`
	SweepEvery   time.Duration `placeholder:"DURATION" help:"Time between sweeps for streams that are over age. Default: 5m."`

	MaxTotalBytes        byteCount     `placeholder:"SIZE" help:"Bytes that all streams keep. Default: 16GiB."`
	MaxTenantBytes       byteCount     `placeholder:"SIZE" help:"Bytes that the streams of one tenant keep. Default: no bound of their own."`
	MaxReaders           int           `placeholder:"N" help:"Readers of one stream. Default: 10000."`
	MaxRunning           int           `placeholder:"N" help:"Executions that run at a time; others wait. Default: 64."`
	MaxRunningPerSession int           `placeholder:"N" help:"Executions of one session that run at a time. Default: no bound of their own."`
	MaxQueued            int           `placeholder:"N" help:"Executions that wait. Default: 1000."`
	MaxInterpreters      int           `placeholder:"N" help:"Interpreters that run at a time; they count as executions too. Default: 32."`
	InterpreterIdle      time.Duration `placeholder:"DURATION" help:"End interpreters that have had no code for so long. Default: 1h."`
	MaxTimeout           time.Duration `placeholder:"DURATION" help:"Timeout of executions that ask for none or a longer one. Default: none."`
	PassEnv              []string      `placeholder:"NAME" help:"Variable of the server's environment that every command gets. May be repeated."`

	passed net.Listener // in place of one at Listen: by the service manager, or by the server that goes; nil for none

	LogFormat string     `enum:"text,json" default:"text" placeholder:"FORMAT" help:"Form of the log on stderr: text or json. Default: ${default}."`
	LogLevel  slog.Level `default:"info" placeholder:"LEVEL" help:"debug, info (a line a request), warn or error. Default: ${default}."`
}

// Help is shown below the usage.
func (*serveCmd) Help() string {
	return `On the first start a random token is written to DIR/token, and the keys that sign cursors to DIR/keys, both for their owner alone. Once the line "listening on URL" is on stdout, requests are answered. A store that is a server of its own is waited for; until it is there, /healthz is fine, and all else is refused with store_unavailable, /readyz too.

At INT or TERM the server answers what is under way, tells readers to come back, and goes. Commands that run go on under their supervisors, and the next server with the same data directory takes them up, as it does after a server was killed. A second signal within a second, or --stop-executions, ends them. With the store memory: commands end with the server, since nobody could read their output.

Commands cannot become another user, signal or look into other processes, or get at the data directory, where this machine gives the isolation level limits; "reprise doctor" says whether it does. A command that needs sudo is started with --isolation none.

Under systemd this needs KillMode=process and Delegate=yes. A socket that systemd passes (LISTEN_FDS) is taken in place of --listen, so that clients that connect while the server is restarted wait and are answered; WATCHDOG_USEC is served as long as /healthz answers.`
}

// Run serves until it is asked to stop.
func (c *serveCmd) Run(ctx context.Context, asked *stops) (err error) {
	if c.passed, err = passedSocket(); err != nil {
		return err
	}
	if c.passed != nil {
		c.Listen = c.passed.Addr().String()
	}
	watchdog, err := watchdogPeriod()
	if err != nil {
		return err
	}
	if c.Auth == "none" {
		if err := checkOpenAddress(c.Listen); err != nil {
			return err
		}
	}
	if err := c.proxyFlags.check(c.Listen, &c.tlsFlags); err != nil {
		return err
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

func (c *serveCmd) retention() reprise.Retention {
	return reprise.Retention{MaxEvents: c.RetainEvents, MaxBytes: int64(c.RetainBytes), MaxAge: c.RetainAge}
}
