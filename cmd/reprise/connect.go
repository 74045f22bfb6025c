package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"reprise/client"
	"reprise/cmd/reprise/internal/printable"
)

// serverFlags is the heading of the flags of connect.
const serverFlags = "Server:"

// connect is how the verbs of the client find the server.
type connect struct {
	URL       string `group:"Server:" placeholder:"URL" help:"The server. Default: http://127.0.0.1:7070."`
	TokenFile string `group:"Server:" placeholder:"FILE" help:"File with the server's token. Default: REPRISE_TOKEN, or the token file of a server on this machine."`
	Context   string `group:"Server:" placeholder:"NAME" help:"A server of \"reprise login\", with its token. Default: the one of \"reprise context use\", if neither a server nor a token is given otherwise."`
}

// environmentConnect finds the server without flags.
func environmentConnect() *connect {
	return &connect{
		URL: os.Getenv("REPRISE_URL"), TokenFile: os.Getenv("REPRISE_TOKEN_FILE"),
		Context: os.Getenv("REPRISE_CONTEXT"),
	}
}

// client returns a client of the server.
func (c *connect) client() (*client.Client, error) { return c.clientWith(client.Options{}) }

// isNamed reports whether a server was named, so that the default one does not apply.
func (c *connect) isNamed() bool {
	saved, err := c.context()
	return saved != nil || err != nil || c.URL != ""
}

// directory returns the working directory to ask for in place of cwd: on the server of this user on this machine, a
// command runs where its caller is. Elsewhere the path is one of the server.
func (c *connect) directory(cwd string) string {
	if filepath.IsAbs(cwd) {
		return cwd
	}
	server, err := c.client()
	if err != nil || !server.OnThisMachine() {
		return cwd
	}
	here, err := os.Getwd()
	if err != nil {
		return cwd
	}
	return filepath.Join(here, cwd)
}

// placeOf says where a server runs a command: paths of another machine are not ours.
func placeOf(started *client.Started, server string) string {
	host := server
	if u, err := url.Parse(server); err == nil && u.Host != "" {
		host = u.Host
	}
	return fmt.Sprintf("in %s on %s", printable.Line(cmp.Or(started.Cwd, "the directory of the server")), host)
}

// clientWith returns a client with options, to which it adds the URL and the token.
func (c *connect) clientWith(options client.Options) (*client.Client, error) {
	opts := &options
	opts.URL, opts.GiveUpFirst = c.URL, cmp.Or(opts.GiveUpFirst, firstPatience)
	saved, err := c.context()
	if err != nil {
		return nil, err
	}
	if saved != nil {
		opts.URL, opts.Token = saved.URL, saved.Token
	} else if c.TokenFile != "" {
		token, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, &exit{code: exitUsage, err: err}
		}
		opts.Token = strings.TrimSpace(string(token))
	}
	server, err := client.New(opts)
	if err != nil {
		return nil, &exit{code: exitUsage, err: err}
	}
	return server, nil
}

// with calls do with a client of the server, until the first signal.
func (c *connect) with(ctx context.Context, asked *stops, do func(context.Context, *client.Client) error) error {
	ctx, release := asked.context(ctx)
	defer release()
	server, err := c.client()
	if err != nil {
		return err
	}
	return do(ctx, server)
}

// each calls do for all names, as many as it can, and returns what has failed.
func each(names []string, do func(name string) error) error {
	errs := make([]error, len(names))
	for i, name := range names {
		errs[i] = do(name)
	}
	return errors.Join(errs...)
}
