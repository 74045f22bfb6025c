package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"reprise/internal/datadir"
	"reprise/internal/gateway"
	"reprise/internal/node"
	"reprise/internal/storeurl"
)

// gatewayCmd puts our MCP transport in front of other MCP servers.
type gatewayCmd struct {
	Upstream []string `arg:"" optional:"" placeholder:"URL | -- CMD ARG..." help:"The MCP server: a URL of Streamable HTTP, or a command that speaks over stdin and stdout."`

	Config string   `placeholder:"FILE" help:"YAML file with several upstreams, each at its own path, instead of one upstream on the command line."`
	Listen string   `default:"127.0.0.1:7071" placeholder:"HOST:PORT" help:"Address to listen on; port 0 takes a free one. Default: ${default}."`
	Data   string   `default:"${gatewayState}" placeholder:"DIR" help:"Data directory: store, token and keys. Default: reprise/gateway in $$XDG_STATE_HOME or ~/.local/state."`
	Store  storeURL `placeholder:"URL" help:"Where sessions and streams are kept, as with serve; @FILE reads the URL from a file. Default: what is in the data directory, and log: in a new one."`

	upstreamFlags     `embed:"" group:"Upstream:"`
	keptFlags         `embed:"" group:"Sessions and answers:"`
	replicaFlags      `embed:"" group:"Replicas:"`
	callerFlags       `embed:"" group:"Access:"`
	gatewayQuotaFlags `embed:"" group:"Access:"`
	tlsFlags          `embed:"" group:"Connections:"`
	proxyFlags        `embed:"" group:"Connections:"`
	connectionFlags   `embed:"" group:"Connections:"`
	mcpFlags          `embed:"" group:"Model Context Protocol:"`
	Drain             time.Duration `group:"Connections:" default:"10s" help:"How long running calls may continue after the first INT or TERM. Default: ${default}."`
	logFlags          `embed:"" group:"Logs:"`
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
	logger := newLogger(c.LogFormat, c.LogLevel)
	return pass(ctx, asked, c.Drain, node.Gateway, func() (*node.Options, error) { return c.settings(logger) }, c.hello)
}

// pass opens a server that passes requests on, says where it is, and lets it answer until it is asked to stop. Requests
// that are under way then have until drain is over.
func pass(ctx context.Context, asked *stops, drain time.Duration,
	open func(context.Context, *node.Options) (*node.Node, error), settings func() (*node.Options, error),
	hello func(*node.Node, *node.Options),
) error {
	please, now, release := asked.watch(ctx)
	defer release()
	please, release = orHangup(please)
	defer release()
	o, err := settings()
	if err != nil {
		return err
	}
	s, err := open(please, o)
	if stoppedEarly(err) {
		return nil
	}
	if err != nil {
		return err
	}
	hello(s, o)
	return errors.Join(s.Pass(please, now, drain), s.Close())
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
		for i := range routes {
			routes[i].Tools, routes[i].MaxToolsBytes = c.Tools, int64(c.MaxToolsBytes)
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
		Tools: c.Tools, MaxToolsBytes: int64(c.MaxToolsBytes),
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

// hello says where the gateway is. Its first line, which begin writes, is for programs too.
func (c *gatewayCmd) hello(s *node.Node, o *node.Options) {
	s.Begin()
	for i := range o.Upstreams.Routes {
		route := &o.Upstreams.Routes[i]
		fmt.Fprintf(stdout, "%s at %s%s\n", route.Name, s.URL(), route.Path)
	}
	if c.Auth == "none" {
		fmt.Fprintln(stdout, "everybody on this machine may use it (--auth none)")
	} else {
		fmt.Fprintln(stdout, "token in", o.Secrets+"/"+datadir.TokenFile)
	}
	fmt.Fprintln(stdout, "sessions and streams in", storeurl.Text(s.Dir(), o.Store))
}
