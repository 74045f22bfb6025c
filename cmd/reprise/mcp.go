package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/client"
	"reprise/internal/api"
	"reprise/internal/mcpserver"
	"reprise/internal/mcpserver/relay"
	"reprise/internal/storeurl"
)

// mcpCmd is an MCP server on stdin and stdout.
type mcpCmd struct {
	storeKeys      `embed:""`
	isolationFlags `embed:""`

	URL       string `placeholder:"URL" help:"Let the server at URL run the commands, for example http://127.0.0.1:7070. Default: run them here, unless a server uses the data directory."`
	TokenFile string `placeholder:"FILE" help:"File with the token of that server. Default: REPRISE_TOKEN, or what a server of this machine has written to the data directory."`

	Data    string `default:"${state}" placeholder:"DIR" help:"Data directory: store and keys. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	Store   string `default:"sqlite:" placeholder:"URL" help:"Where events are kept, as for serve. Default: ${default}"`
	Secrets string `placeholder:"DIR" help:"Directory of the keys that sign cursors. Default: the data directory."`

	MaxRunning int           `placeholder:"N" help:"Executions that run at a time; others wait. Default: 64."`
	MaxTimeout time.Duration `placeholder:"DURATION" help:"Timeout of executions that ask for none or a longer one. Default: none."`
	PassEnv    []string      `placeholder:"NAME" help:"Variable of our environment that every command gets. May be repeated."`
	RetainAge  time.Duration `placeholder:"DURATION" help:"How long output is kept after the end. Default: 1h."`
	MaxBytes   int           `default:"30000" placeholder:"N" help:"Bytes of output that a call shows where it asks for no bound of its own, 256 to 1048576. Default: ${default}."`
	Drain      time.Duration `default:"0s" help:"How long running commands may go on when the client has gone. Default: ${default}."`

	LogFormat string     `enum:"text,json" default:"text" placeholder:"FORMAT" help:"Form of the log on stderr: text or json. Default: ${default}."`
	LogLevel  slog.Level `default:"warn" placeholder:"LEVEL" help:"debug, info, warn or error. Default: ${default}."`
}

// Help is shown below the usage.
func (*mcpCmd) Help() string {
	return `A program that speaks the Model Context Protocol starts this one and talks to it over stdin and stdout. The tools are execute_code, execute_code_async, get_execution_output, get_execution_status, send_stdin, cancel_execution and list_executions.

Without --url it runs commands itself, and keeps their output in the data directory. What runs when the client goes is ended after --drain, and what was kept can be read after the next start.

With --url, or where a server on this machine uses the data directory, all is passed on to that server. Commands then go on when the client goes, and a connection that breaks is resumed.`
}

// Run serves until the client goes or we are asked to stop.
func (c *mcpCmd) Run(ctx context.Context, asked *stops) error {
	please, now, release := asked.watch(ctx)
	defer release()
	logger := newLogger(c.LogFormat, c.LogLevel)
	if c.URL != "" {
		return c.pass(please, c.URL, logger)
	}
	s, tools, err := c.open(please, logger)
	if errors.Is(err, errInUse) && c.isServed(please) {
		return c.pass(please, localURL, logger)
	}
	if err != nil {
		return err
	}
	err = tools.Run(please, &mcp.IOTransport{Reader: os.Stdin, Writer: unclosed{os.Stdout}})
	if errors.Is(err, io.EOF) {
		err = nil // the client has gone
	}
	drained, cancel := context.WithTimeout(now, c.Drain)
	defer cancel()
	return errors.Join(err, tools.Close(), s.host.Stop(drained), s.close())
}

// localURL is where a server of this machine listens unless it is told otherwise.
const localURL = "http://127.0.0.1:7070"

// pass passes all on to a server.
func (c *mcpCmd) pass(ctx context.Context, url string, logger *slog.Logger) error {
	token, err := c.token(url)
	if err != nil {
		return err
	}
	err = relay.Run(ctx, os.Stdin, os.Stdout,
		&relay.Options{URL: strings.TrimRight(url, "/") + "/mcp", Token: token, Logger: logger})
	if _, ok := errors.AsType[*askedToStop](err); ok {
		return nil // as when we run commands ourselves
	}
	return err
}

// token is what is shown to the server at url. That of this machine's server goes to no other.
func (c *mcpCmd) token(url string) (string, error) {
	path := c.TokenFile
	if path == "" {
		if token := os.Getenv("REPRISE_TOKEN"); token != "" {
			return token, nil
		}
		if !isLoopbackURL(url) {
			return "", nil
		}
		path = filepath.Join(cmp.Or(c.Secrets, c.Data), tokenFile)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && c.TokenFile == "" {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

func isLoopbackURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// isServed reports whether the server that uses the data directory is where servers are, and lets us in.
func (c *mcpCmd) isServed(ctx context.Context) bool {
	token, err := c.token(localURL)
	if err != nil || token == "" {
		return false
	}
	server, err := client.New(&client.Options{URL: localURL, Token: token})
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = server.List(ctx, client.ExecutionQuery{Limit: 1})
	return err == nil
}

// unclosed is a writer that closing leaves open.
type unclosed struct{ io.Writer }

// Close implements io.Closer.
func (unclosed) Close() error { return nil }

// open opens a server without a listener, and the tools on top of it.
func (c *mcpCmd) open(ctx context.Context, logger *slog.Logger) (s *server, tools *mcpserver.Server, err error) {
	serve := &serveCmd{
		storeKeys: c.storeKeys, isolationFlags: c.isolationFlags, Data: c.Data, Store: c.Store, Secrets: c.Secrets,
		MaxRunning: c.MaxRunning, MaxTimeout: c.MaxTimeout, PassEnv: c.PassEnv, RetainAge: c.RetainAge,
	}
	s = &server{logger: logger}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = lockDataDir(c.Data); err != nil {
		return s, nil, err
	}
	keys, err := serve.keys()
	if err != nil {
		return s, nil, err
	}
	if s.store, err = openStore(ctx, c.Store, s.dir,
		&storeurl.Options{Keys: serve.file(serve.secrets()), MakeKeys: true, Logger: logger}); err != nil {
		return s, nil, err
	}
	metrics := api.NewMetrics()
	if s.log, err = reprise.Open(ctx, s.store, serve.logOptions(keys, metrics, logger)); err != nil {
		return s, nil, err
	}
	if err = s.join(ctx, serve, keys); err != nil {
		return s, nil, err
	}
	if err = s.openHost(ctx, serve, keys, metrics); err != nil {
		return s, nil, err
	}
	tools, err = mcpserver.New(s.log, s.host,
		&mcpserver.Options{Replica: s.member, MaxBytes: c.MaxBytes, Version: buildVersion(), Logger: logger})
	return s, tools, err
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}
