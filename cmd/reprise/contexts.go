package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"

	"reprise/client"
	"reprise/cmd/reprise/internal/contexts"
)

// context returns the context that the flags mean: the one of --context, or the current one if nothing else names a
// server or a token, and nil for none.
func (c *connect) context() (*contexts.Server, error) {
	set := func(value, variable string) bool { return value != "" && value != os.Getenv(variable) }
	switch {
	case c.Context != "" && set(c.URL, "REPRISE_URL"):
		return nil, usage("--context and --url name two servers")
	case c.Context != "" && set(c.TokenFile, "REPRISE_TOKEN_FILE"):
		return nil, usage("--context has a token, and --token-file names another")
	case c.Context == "" && (c.URL != "" || c.TokenFile != "" ||
		os.Getenv("REPRISE_URL") != "" || os.Getenv("REPRISE_TOKEN") != ""):
		return nil, nil
	}
	all, err := contexts.Load()
	if err != nil {
		return nil, &exit{code: exitUsage, err: err}
	}
	name := c.Context
	if name == "" {
		name = all.Current
	}
	saved, ok := all.Saved[name]
	switch {
	case ok:
		return &saved, nil
	case name != "":
		return nil, usage("there is no context %q; \"reprise context list\" lists them", name)
	}
	return nil, nil
}

// loginCmd saves a server and its token.
type loginCmd struct {
	Context string `env:"-" placeholder:"NAME" help:"Name for the server, for --context. Default: its host."`

	URL string `arg:"" optional:"" name:"url" help:"The server. Default: REPRISE_URL, or http://127.0.0.1:7070."`
}

// Help is shown below the usage.
func (*loginCmd) Help() string {
	return `Asks for the token, or an API key, or reads a line from stdin that is no terminal; it is never an argument, which other users see. If the server accepts it, both are kept in contexts.json (mode 0600) in reprise of the user's directory for configuration, and the verbs use that server until "reprise context use" names another. --url, --token-file, REPRISE_URL and REPRISE_TOKEN go before it.`
}

// Run logs in.
func (c *loginCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	token, err := contexts.ReadToken(isTerminalFile(os.Stdin))
	if err != nil {
		return err
	}
	if token == "" {
		return usage("there is no token on stdin")
	}
	server, err := client.New(&client.Options{URL: c.URL, Token: token, GiveUp: firstPatience})
	if err != nil {
		return &exit{code: exitUsage, err: err}
	}
	answer, err := server.Do(ctx, http.MethodGet, "/v1/server", nil)
	if err == nil {
		err = answer.Body.Close()
	}
	if err != nil {
		return err
	}
	at, err := url.Parse(server.URL())
	if err != nil {
		return err
	}
	name := c.Context
	if name == "" {
		name = at.Host
	}
	all, err := contexts.Load()
	if err != nil {
		return err
	}
	all.Saved[name], all.Current = contexts.Server{URL: server.URL(), Token: token}, name
	if err := all.Save(); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "reprise: logged in to %s; this is the context %q\n", server.URL(), name)
	if at.Scheme == "http" && !isLoopbackURL(server.URL()) {
		fmt.Fprintln(os.Stderr, "reprise: the token goes there over the network as it is, without TLS")
	}
	return nil
}

// contextCmd is about the servers that the user has logged in to.
type contextCmd struct {
	List   contextListCmd   `cmd:"" help:"List the servers that were logged in to."`
	Use    contextUseCmd    `cmd:"" help:"Use one of them from now on, or none."`
	Remove contextRemoveCmd `cmd:"" aliases:"rm" help:"Forget servers and their tokens."`
}

// contextListCmd lists contexts.
type contextListCmd struct{}

// Run lists them.
func (c *contextListCmd) Run() error {
	all, err := contexts.Load()
	if err != nil {
		return err
	}
	t := newTable(stdout, "CONTEXT", "URL", "CURRENT")
	for _, name := range slices.Sorted(maps.Keys(all.Saved)) {
		current := "-"
		if name == all.Current {
			current = "current"
		}
		t.row(name, all.Saved[name].URL, current)
	}
	return t.flush()
}

// contextUseCmd chooses a context.
type contextUseCmd struct {
	Context string `arg:"" optional:"" name:"context" help:"Name of the context. Default: none, the server of this machine."`
}

// Run chooses it.
func (c *contextUseCmd) Run() error {
	all, err := contexts.Load()
	if err != nil {
		return err
	}
	if _, ok := all.Saved[c.Context]; !ok && c.Context != "" {
		return usage("there is no context %q; \"reprise login\" makes one", c.Context)
	}
	all.Current = c.Context
	return all.Save()
}

// contextRemoveCmd forgets contexts.
type contextRemoveCmd struct {
	Contexts []string `arg:"" name:"context" help:"Names of contexts. Their tokens stay valid: \"reprise key revoke\" ends keys."`
}

// Run forgets them.
func (c *contextRemoveCmd) Run() error {
	all, err := contexts.Load()
	if err != nil {
		return err
	}
	for _, name := range c.Contexts {
		if _, ok := all.Saved[name]; !ok {
			return usage("there is no context %q", name)
		}
		delete(all.Saved, name)
		if name == all.Current {
			all.Current = ""
		}
	}
	return all.Save()
}
