package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/datadir"
	"reprise/internal/mcpserver/relay"
	"reprise/internal/node"
	"reprise/internal/serverproof"
)

// mcpCmd is an MCP server on stdin and stdout.
type mcpCmd struct {
	storeKeys      `embed:""`
	isolationFlags `embed:""`

	URL       string `placeholder:"URL" help:"Run the commands on the server at URL, for example http://127.0.0.1:7070. Default: run them in this process, or in the process that has the data directory open."`
	TokenFile string `placeholder:"FILE" help:"File with the token of that server. Default: REPRISE_TOKEN, or the token file in the data directory."`

	Data    string   `default:"${state}" placeholder:"DIR" help:"Data directory: store and keys. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	Store   storeURL `placeholder:"URL" help:"Where events are kept, as for serve; @FILE reads the URL from a file. Default: what is in the data directory, and log: in a new one."`
	Secrets string   `placeholder:"DIR" help:"Directory of the keys that sign cursors. Default: the data directory."`

	MaxRunning int           `placeholder:"N" help:"Maximum number of running executions; others wait. Default: 64."`
	MaxTimeout time.Duration `placeholder:"DURATION" help:"Timeout of executions that ask for none or a longer one. Default: none."`
	PassEnv    []string      `placeholder:"NAME" help:"Variable of our environment that every command gets. May be repeated."`
	RetainAge  time.Duration `placeholder:"DURATION" help:"How long output is kept after the end. Default: 24h."`
	MaxBytes   int           `default:"30000" placeholder:"N" help:"Bytes of output that a call shows by default, 256 to 1048576. Default: ${default}."`
	Drain      time.Duration `default:"0s" help:"How long running commands may continue after the client has disconnected. Default: ${default}."`

	LogFormat string     `enum:"text,json" default:"text" placeholder:"FORMAT" help:"Form of the log on stderr: text or json. Default: ${default}."`
	LogLevel  slog.Level `default:"warn" placeholder:"LEVEL" help:"debug, info, warn or error. Default: ${default}."`
}

// Help is shown below the usage.
func (*mcpCmd) Help() string {
	return `A client of the Model Context Protocol starts this program and talks to it over stdin and stdout. The tools are execute_code, execute_code_async, get_execution_output, search_execution_output, get_execution_status, send_stdin, cancel_execution and list_executions.

Without --url it runs commands itself, and keeps their output in the data directory. Commands that still run when the client disconnects are ended after --drain; their output can be read after the next start.

Any number of processes may use one data directory, also beside "reprise serve": the first one opens it, and the others forward to it through a socket in the directory. When it exits, another one takes its place.

With --url everything is forwarded to the server at URL. Commands then continue when the client disconnects, and lost connections are resumed.`
}

// Run serves until the client goes or we are asked to stop.
func (c *mcpCmd) Run(ctx context.Context, asked *stops) error {
	please, now, release := asked.watch(ctx)
	defer release()
	logger := newLogger(c.LogFormat, c.LogLevel)
	if c.URL != "" {
		return c.pass(please, c.URL, logger)
	}
	dir, err := datadir.Lock(c.Data)
	if errors.Is(err, datadir.ErrInUse) {
		logger.Debug("another process holds the data directory", "error", err)
		return c.join(please, now, logger)
	}
	if err != nil {
		return err
	}
	s, err := c.open(please, dir, logger)
	if err != nil {
		return err
	}
	err = s.Tools().Run(please, &mcp.IOTransport{Reader: os.Stdin, Writer: unclosed{os.Stdout}})
	if errors.Is(err, io.EOF) {
		err = nil // the client has gone
	}
	return errors.Join(err, c.stop(now, s))
}

// stop ends what the client and others have under way.
func (c *mcpCmd) stop(now context.Context, s *node.Node) error {
	drained, cancel := context.WithTimeout(now, c.Drain)
	defer cancel()
	return s.StopTools(drained)
}

// join passes all on to the process that holds the data directory. When that has gone, one of those that have joined
// takes its place, and all go on with it.
func (c *mcpCmd) join(ctx, now context.Context, logger *slog.Logger) error {
	dir, err := filepath.Abs(c.Data)
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	succeeded := make(chan *node.Node, 1)
	go c.succeed(ctx, logger, succeeded)
	err = relay.Run(ctx, os.Stdin, os.Stdout,
		&relay.Options{URL: node.WindowsURL, HTTPClient: node.WindowsClient(dir), Directory: here(), Logger: logger})
	if _, ok := errors.AsType[*askedToStop](err); ok {
		err = nil // as when we hold it ourselves
	}
	leave(context.Canceled)
	select {
	case s := <-succeeded:
		return errors.Join(err, c.stop(now, s))
	default:
		return err
	}
}

// succeedAgain is the pause after a data directory could not be opened.
const succeedAgain = time.Second

// succeed waits for the data directory, and serves from then on. What it waits for ends with the process.
func (c *mcpCmd) succeed(ctx context.Context, logger *slog.Logger, succeeded chan<- *node.Node) {
	for ctx.Err() == nil {
		dir, err := datadir.Await(c.Data)
		if err == nil && ctx.Err() != nil {
			_ = dir.Close() // we are leaving: the next one takes it
			return
		}
		var s *node.Node
		if err == nil {
			s, err = c.open(ctx, dir, logger)
		}
		if err == nil {
			succeeded <- s
			return
		}
		logger.Error("the data directory cannot be taken over", "error", err)
		select {
		case <-time.After(succeedAgain):
		case <-ctx.Done():
		}
	}
}

// pass passes all on to a server.
func (c *mcpCmd) pass(ctx context.Context, url string, logger *slog.Logger) error {
	token, found, err := c.token(url)
	if err != nil {
		return err
	}
	opts := &relay.Options{URL: strings.TrimRight(url, "/") + "/mcp", Token: token, Logger: logger}
	if shared, ok := http.DefaultTransport.(*http.Transport); ok && found && !strings.HasPrefix(url, "https:") {
		opts.HTTPClient = &http.Client{Transport: serverproof.Transport(shared, token), CheckRedirect: noRedirect}
		opts.Directory = here()
	}
	err = relay.Run(ctx, os.Stdin, os.Stdout, opts)
	if _, ok := errors.AsType[*askedToStop](err); ok {
		return nil // as when we run commands ourselves
	}
	return err
}

// here is the directory of this process, or "" if it is gone.
func here() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}

// noRedirect keeps a token with the server that it is for.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// token is what is shown to the server at url, and whether it was found in the file of a server of this machine. Such a
// token goes to no other server.
func (c *mcpCmd) token(url string) (token string, found bool, err error) {
	path := c.TokenFile
	if path == "" {
		if token := os.Getenv("REPRISE_TOKEN"); token != "" {
			return token, false, nil
		}
		if !isLoopbackURL(url) {
			return "", false, nil
		}
		path = filepath.Join(cmp.Or(c.Secrets, c.Data), datadir.TokenFile)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && c.TokenFile == "" {
		return "", false, nil
	}
	token = strings.TrimSpace(string(text))
	return token, c.TokenFile == "" && token != "", err
}

func isLoopbackURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// unclosed is a writer that closing leaves open.
type unclosed struct{ io.Writer }

// Close implements io.Closer.
func (unclosed) Close() error { return nil }

// open opens a server without a listener but for others of the same user, and the tools on top of it. It takes dir.
func (c *mcpCmd) open(ctx context.Context, dir *datadir.Dir, logger *slog.Logger) (*node.Node, error) {
	o, err := c.settings(logger)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return node.Windows(ctx, dir, o)
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}
