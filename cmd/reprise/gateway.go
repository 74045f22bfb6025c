package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"reprise/internal/gateway"
)

// gatewayCmd puts our MCP transport in front of other MCP servers.
type gatewayCmd struct {
	storeKeys         `embed:""`
	connectionFlags   `embed:""`
	tlsFlags          `embed:""`
	proxyFlags        `embed:""`
	issuerFlags       `embed:""`
	gatewayQuotaFlags `embed:""`

	Upstream []string `arg:"" optional:"" placeholder:"URL | -- CMD ARG..." help:"The MCP server: a URL of Streamable HTTP, or a command that speaks over stdin and stdout."`

	Config string `placeholder:"FILE" help:"YAML file with several upstreams, each at its own path, instead of one upstream on the command line."`
	Path   string `default:"/mcp" placeholder:"PATH" help:"Path of the upstream on the command line. Default: ${default}"`

	Shared         bool              `help:"Use one connection to the upstream for all sessions, instead of one per session."`
	KeepsState     bool              `help:"Refuse a session whose upstream has ended, instead of starting another upstream for it."`
	Dir            string            `placeholder:"DIR" help:"Directory of the command. Default: the current one."`
	Env            map[string]string `placeholder:"NAME=VALUE" mapsep:"none" help:"Variable for the command. May be repeated. In the value, {{name}}, {{tenant}}, {{claims.CLAIM}} and {{secrets.NAME}} are replaced by values of the caller."`
	PassEnv        []string          `placeholder:"NAME" sep:"none" help:"Variable of the gateway's environment that the command gets. May be repeated."`
	Header         map[string]string `placeholder:"NAME=VALUE" mapsep:"none" help:"Header of each request to the URL. May be repeated. The value may refer to the caller, as with --env."`
	CallTimeout    time.Duration     `placeholder:"DURATION" help:"How long the upstream may be silent about a request. Default: no limit."`
	StartTimeout   time.Duration     `placeholder:"DURATION" help:"How long a new connection may take to be initialized. Default: 30s."`
	TaskAfter      time.Duration     `placeholder:"DURATION" help:"How long a tool may take before its call becomes a task, for clients of version 2026-07-28 with tasks. Default: 5s."`
	MaxConnections int               `placeholder:"N" help:"Maximum number of connections to the upstream. Default: 100."`
	MaxCalls       int               `placeholder:"N" help:"Maximum number of unanswered requests of one connection. Default: 1000."`

	Listen      string        `default:"127.0.0.1:7071" placeholder:"HOST:PORT" help:"Address to listen on; port 0 takes a free one. Default: ${default}."`
	Data        string        `default:"${gatewayState}" placeholder:"DIR" help:"Data directory: store, token and keys. Default: reprise/gateway in $$XDG_STATE_HOME or ~/.local/state."`
	Store       storeURL      `default:"sqlite:" placeholder:"URL" help:"Where sessions and streams are kept, as with serve; @FILE reads the URL from a file. Default: ${default}"`
	Secrets     string        `placeholder:"DIR" help:"Directory of the token and of the keys. The replicas of a store need the same. Default: the data directory."`
	Replica     string        `placeholder:"NAME" help:"Prefix of this server's name among the replicas of its store. Default: the name of the machine."`
	Auth        string        `enum:"token,none" default:"token" placeholder:"KIND" help:"Who may use the gateway: token (anyone with the token, or an API key with a scope), or none (everybody; only on loopback). Default: ${default}."`
	Audit       bool          `help:"Record who calls what in the stream audit of the tenant reprise.audit; \"reprise audit\" reads it."`
	AllowOrigin []string      `placeholder:"ORIGIN" help:"Origin whose pages may use the gateway, for example https://example.org. May be repeated."`
	AllowHost   []string      `placeholder:"NAME" help:"Host name by which the gateway may be called; others are then refused. May be repeated."`
	Drain       time.Duration `default:"10s" help:"How long running calls may continue after the first INT or TERM. Default: ${default}."`

	SessionIdle time.Duration `placeholder:"DURATION" help:"How long an unused session is kept. Default: 1h."`
	Quick       time.Duration `placeholder:"DURATION" help:"An answer within this time is sent as JSON and not kept; a later one becomes a stream. With a negative time each answer is a stream. Default: 50ms."`
	MaxBody     byteCount     `placeholder:"SIZE" help:"Largest message of a client. Default: 4MiB."`
	RetainAge   time.Duration `placeholder:"DURATION" help:"How long the answer to a call is kept. Default: 1h."`

	MaxTotalBytes byteCount  `placeholder:"SIZE" help:"Maximum number of bytes that all streams keep. Default: 16GiB."`
	LogFormat     string     `enum:"text,json" default:"text" placeholder:"FORMAT" help:"Form of the log on stderr: text or json. Default: ${default}."`
	LogLevel      slog.Level `default:"info" placeholder:"LEVEL" help:"debug, info (one line per request), warn or error. Default: ${default}."`
}

// Help is shown below the usage.
func (*gatewayCmd) Help() string {
	return `Clients get sessions and streams that outlive broken connections and restarts, on all protocol versions. The MCP server needs no change. If it ends with unanswered requests, the gateway answers them with an error and never sends them again.

The gateway answers requests once it has printed the line "listening on URL" to stdout. docs/gateway.md describes the configuration file, and the state that is lost when an upstream ends.`
}

// Run serves until it is asked to stop.
func (c *gatewayCmd) Run(ctx context.Context, asked *stops) error {
	if c.Auth == "none" {
		if err := checkOpenAddress(c.Listen); err != nil {
			return err
		}
	}
	if err := c.proxyFlags.check(c.Listen, &c.tlsFlags); err != nil {
		return err
	}
	routes, err := c.routes()
	if err != nil {
		return err
	}
	please, now, release := asked.watch(ctx)
	defer release()
	s, err := c.open(please, routes, newLogger(c.LogFormat, c.LogLevel))
	if stoppedEarly(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s.hello(c)
	return errors.Join(s.serve(please, now, c.Drain), s.close())
}

// routes are the upstreams that were named.
func (c *gatewayCmd) routes() ([]gateway.Route, error) {
	switch {
	case c.Config != "" && len(c.Upstream) > 0:
		return nil, usage("--config names the upstreams: name none here")
	case c.Config != "":
		file, err := os.Open(c.Config)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		routes, err := gateway.ReadConfig(file)
		if err != nil {
			return nil, usage("%s: %w", c.Config, err)
		}
		return routes, nil
	case len(c.Upstream) == 0:
		return nil, usage(`name an upstream: "reprise gateway -- CMD ARG...", "reprise gateway URL", or --config FILE`)
	}
	if !strings.HasPrefix(c.Path, "/") {
		return nil, usage("--path %q does not begin with a slash", c.Path)
	}
	up := gateway.Upstream{
		Name: "upstream", Dir: c.Dir, Env: c.Env, PassEnv: c.PassEnv, Header: c.Header, Shared: c.Shared,
		KeepsState: c.KeepsState,
		Timeout:    c.CallTimeout, StartTimeout: c.StartTimeout, MaxConnections: c.MaxConnections, MaxCalls: c.MaxCalls,
	}
	if first := c.Upstream[0]; strings.HasPrefix(first, "http://") || strings.HasPrefix(first, "https://") {
		if len(c.Upstream) > 1 {
			return nil, usage("%s is a URL, after which there is nothing", first)
		}
		up.URL = first
	} else {
		up.Command = c.Upstream
	}
	return []gateway.Route{{Path: c.Path, Upstream: up}}, nil
}

// base is the part of serve that is the gateway's too.
func (c *gatewayCmd) base() *serveCmd {
	return &serveCmd{
		storeKeys: c.storeKeys, Listen: c.Listen, Data: c.Data, Store: c.Store, Secrets: c.Secrets, Replica: c.Replica,
		Auth: c.Auth, Audit: c.Audit, quotaFlags: quotaFlags(c.gatewayQuotaFlags),
		MaxTotalBytes: c.MaxTotalBytes,
	}
}

// hello says where the gateway is. Its first line, which begin writes, is for programs too.
func (s *gatewayServer) hello(c *gatewayCmd) {
	s.front.begin()
	url := s.front.url()
	for _, e := range s.endpoints {
		fmt.Fprintf(stdout, "%s at %s%s\n", e.route.Name, url, e.route.Path)
	}
	if c.Auth == "none" {
		fmt.Fprintln(stdout, "everybody on this machine may use it (--auth none)")
	} else {
		fmt.Fprintln(stdout, "token in", c.base().secrets()+"/"+tokenFile)
	}
	fmt.Fprintln(stdout, "sessions and streams in", storeText(c.Store.url, s.dir))
}
