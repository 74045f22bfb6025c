package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"reprise/internal/gateway/credential"
	"reprise/internal/gateway/link"
	"reprise/internal/gateway/merge"
	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// refusedGreeting is the error of an upstream that has answered initialize with an error.
type refusedGreeting struct{ response mcphttp.Message }

func (e *refusedGreeting) Error() string {
	return "the upstream refuses to be initialized: " + string(e.response.Err)
}

// openConnection opens a connection that is not initialized. There are at most Upstream.MaxConnections.
func (g *Gateway) openConnection(u user) (*connection, error) {
	g.makeRoom()
	if err := g.countLink(); err != nil {
		return nil, err
	}
	c := &connection{
		g: g, key: u.key, credential: u.credential, opened: time.Now(), ended: make(chan struct{}),
		calls: callTable{calls: map[int64]*call{}}, sessions: map[*mcphttp.Session]bool{},
	}
	c.subscription.conn = c
	var err error
	if c.link, err = g.openLink(u.credential); err != nil {
		g.uncountLink()
		return nil, wire.Internal(wire.ReasonUnavailable, "the upstream cannot be started: "+err.Error())
	}
	c.link.Start(c)
	g.connected(g.up.Name)
	go func() {
		<-c.link.Done()
		g.disconnected(g.up.Name, c.link.Lost())
		g.uncountLink()
		close(c.ended)
	}()
	return c, nil
}

// connected calls Hooks.Connected.
func (g *Gateway) connected(upstream string) {
	if hook := g.opts.Hooks.Connected; hook != nil {
		hook(upstream)
	}
}

// disconnected calls Hooks.Disconnected.
func (g *Gateway) disconnected(upstream string, lost bool) {
	if hook := g.opts.Hooks.Disconnected; hook != nil {
		hook(upstream, lost)
	}
}

// openLink opens a link to the upstream with the credential in filled.
func (g *Gateway) openLink(filled *credential.Filled) (link.Link, error) {
	logger := g.opts.Logger.With("upstream", g.up.Name)
	if len(g.up.Merge) == 0 {
		return g.openTransport(&g.up, filled.Values[0], logger)
	}
	members := make([]merge.Member, 0, len(g.up.Merge))
	for i := range g.up.Merge {
		m := &g.up.Merge[i]
		member := merge.Member{Name: m.Name, Open: func() (link.Link, error) {
			return g.openTransport(m, filled.Values[i], logger.With("member", m.Name))
		}}
		if lacks := filled.Missing[i]; lacks != nil {
			member.Refused = missing(m.Name, lacks)
		}
		members = append(members, member)
	}
	return merge.Open(members, merge.Options{
		Name: clientInfo["name"], StartTimeout: g.up.StartTimeout, Logger: logger,
		Up:   func(member string) { g.connected(g.up.Name + "/" + member) },
		Down: func(member string, lost bool) { g.disconnected(g.up.Name+"/"+member, lost) },
	}), nil
}

// openTransport opens a link to one server.
func (g *Gateway) openTransport(u *Upstream, v *credential.Values, logger *slog.Logger) (link.Link, error) {
	if u.URL != "" {
		return link.OpenHTTP(link.Endpoint{URL: u.URL, Header: v.Header}, logger), nil
	}
	return link.StartProcess(g.spawn, u.command(v.Env, g.opts.Mark+"/"+rand.Text()), logger)
}

// command is the program of an upstream that is one.
func (u *Upstream) command(env map[string]string, mark string) *link.Command {
	return &link.Command{Args: u.Command, Dir: u.Dir, Env: env, PassEnv: u.PassEnv, Mark: mark}
}

// checkCommands returns an error if a program of the upstream does not exist.
func (u *Upstream) checkCommands() error {
	for i := range u.Merge {
		if err := u.Merge[i].checkCommands(); err != nil {
			return fmt.Errorf("%s: member %w", u.Name, err)
		}
	}
	if len(u.Command) == 0 {
		return nil
	}
	if err := u.command(u.Env, "").Check(); err != nil {
		return fmt.Errorf("%s: %w", u.Name, err)
	}
	return nil
}

// greet opens a connection and sends initialize with params. The error is a *refusedGreeting if the upstream responds
// with an error.
func (g *Gateway) greet(ctx context.Context, u user, params json.RawMessage) (*connection, error) {
	c, err := g.openConnection(u)
	if err != nil {
		return nil, err
	}
	m, err := c.ask(ctx, wire.MethodInitialize, params)
	switch {
	case err != nil:
		c.link.Close()
		return nil, startFailure(err)
	case m.Err != nil:
		c.link.Close()
		return nil, &refusedGreeting{m}
	}
	c.agree(m.Result, wire.Text(m.Result, "protocolVersion"))
	return c, nil
}

// startFailure returns err as a *wire.Failure: why a connection could not be made.
func startFailure(err error) error {
	if isFailure(err) {
		return err
	}
	return wire.Internal(wire.ReasonUnavailable, fmt.Sprintf("the upstream did not come up: %v", err))
}

// greetAsGateway opens a connection with the given capabilities and the gateway itself as the client.
func (g *Gateway) greetAsGateway(ctx context.Context, u user, capabilities json.RawMessage) (*connection, error) {
	c, err := g.greet(ctx, u, wire.Compact(map[string]any{
		"protocolVersion": wire.Version20251125, "capabilities": capabilities, "clientInfo": clientInfo,
	}))
	if err != nil {
		return nil, err
	}
	return c, c.finishGreeting(ctx, nil)
}

// greetAgain opens a connection that replaces an earlier one of a session, and repeats the agreements of the session to
// the upstream.
func (g *Gateway) greetAgain(ctx context.Context, u user, s *mcphttp.Session) (*connection, error) {
	params := wire.Edit(s.Initialize(), func(m map[string]json.RawMessage) {
		m["protocolVersion"] = wire.Compact(s.Version())
	})
	c, err := g.greet(ctx, u, params)
	if err != nil {
		return nil, err
	}
	if version := c.agreement.Load().version; version != s.Version() {
		c.link.Close()
		message := fmt.Sprintf("the upstream speaks version %s now, and the session %s", version, s.Version())
		return nil, wire.Internal(wire.ReasonLost, message)
	}
	return c, c.finishGreeting(ctx, s)
}

// finishGreeting sends notifications/initialized and, if s is not nil, the log level and the subscriptions of the
// session. It closes the link if that fails.
func (c *connection) finishGreeting(ctx context.Context, s *mcphttp.Session) error {
	c.initialized.Store(true)
	err := c.notify(ctx, wire.NoteInitialized, nil)
	if err == nil && s != nil {
		err = c.restore(ctx, s)
	}
	if err != nil {
		c.link.Close()
		return startFailure(err)
	}
	return nil
}

// restore sends a new upstream the log level and the subscriptions of a session.
func (c *connection) restore(ctx context.Context, s *mcphttp.Session) (err error) {
	if level := s.LogLevel(); level != "" {
		_, err = c.ask(ctx, wire.MethodSetLevel, wire.Compact(map[string]string{"level": level}))
	}
	for _, uri := range s.Subscriptions() {
		if err == nil { // a resource that is not there any more is answered with an error, and has no news
			_, err = c.ask(ctx, wire.MethodSubscribe, wire.Compact(map[string]string{"uri": uri}))
		}
	}
	return err
}

// isFailure reports whether err is an error response for a client.
func isFailure(err error) bool {
	_, ok := errors.AsType[*wire.Failure](err)
	return ok
}

// failureOf returns err as an error response for a client.
func failureOf(err error) *wire.Failure {
	if f, ok := err.(*wire.Failure); ok { //nolint:errorlint // of this package, never wrapped
		return f
	}
	return wire.Internal(wire.ReasonUnavailable, err.Error())
}
