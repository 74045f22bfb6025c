package mcphttp

//lint:file-ignore SA1019 the versions before 2026-07-28 have roots and logging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/mcpguard"
)

// Server returns a Backend for servers of the Go SDK. choose selects the server for a request; if it returns nil, the
// request is answered with an error. All requests of a session should get the same server.
//
// Each POST has its own *mcp.ServerSession, which ends with the POST; all of a session have the same ID. Subscriptions
// are stored with the session, and served by another *mcp.ServerSession while the session is in use in this process.
//
// A handler may call RequestExtra.CloseSSEStream, which is Exchange.CloseConnection. A handler that panics fails only
// its request, because Server adds middleware for that.
func Server(choose func(*http.Request) *mcp.Server) Backend {
	return &sdkBackend{
		choose: choose, wide: map[*Session]*askConn{}, running: map[*Exchange]*callConn{},
		schemas: schemas{of: map[*mcp.Server]*toolSchemas{}},
	}
}

type sdkBackend struct {
	choose func(*http.Request) *mcp.Server

	mu      sync.Mutex
	running map[*Exchange]*callConn
	wide    map[*Session]*askConn
	schemas schemas
	guarded mcpguard.Guarded
}

var errNoServer = errors.New("no server answers here")

// Serve implements Backend.
func (b *sdkBackend) Serve(ctx context.Context, x *Exchange) error {
	server := b.choose(x.Request)
	if server == nil {
		return errNoServer
	}
	b.guarded.Add(server, x.h.opts.Logger)
	messages, err := b.divert(ctx, server, x)
	if err != nil || len(messages) == 0 {
		return err
	}
	c := newCallConn(x, messages)
	state, err := sdkState(x)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.running[x] = c
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.running, x)
		b.mu.Unlock()
	}()
	session, err := server.Connect(context.WithoutCancel(ctx), c, &mcp.ServerSessionOptions{State: state})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	close(c.connected)
	select {
	case <-c.answered:
	case <-ctx.Done():
		c.shut() // which cancels what is being handled
	}
	_ = session.Close() // waits for the handlers; what it says is how the connection has ended
	return nil
}

// divert handles the messages that concern the session as a whole, and returns the others.
func (b *sdkBackend) divert(ctx context.Context, server *mcp.Server, x *Exchange) (rest []Message, err error) {
	if x.Stateless() {
		return x.Messages, nil
	}
	for _, m := range x.Messages {
		if m.Method != methodSubscribe && m.Method != methodUnsubscribe {
			rest = append(rest, m)
			continue
		}
		w, err := b.wideOf(server, x.Session)
		if err != nil {
			return nil, err
		}
		response, err := w.call(ctx, m.Method, m.Params)
		if err != nil {
			return nil, err
		}
		if err := x.answer(m.ID, response); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// Cancel implements Backend.
func (b *sdkBackend) Cancel(x *Exchange, notification Message) {
	b.mu.Lock()
	c := b.running[x]
	b.mu.Unlock()
	if c == nil {
		return
	}
	if m, err := jsonrpc.DecodeMessage(notification.Raw); err == nil {
		c.feed(m)
	}
}

// Attach implements Backend.
func (b *sdkBackend) Attach(_ context.Context, s *Session, r *http.Request) error {
	server := b.choose(r)
	if server == nil {
		return errNoServer
	}
	b.guarded.Add(server, s.h.opts.Logger)
	_, err := b.wideOf(server, s)
	return err
}

// Detach implements Backend.
func (b *sdkBackend) Detach(s *Session) {
	b.mu.Lock()
	w := b.wide[s]
	delete(b.wide, s)
	b.mu.Unlock()
	if w != nil {
		w.end()
	}
}

// wideOf returns the connection for the session as a whole. A new connection repeats the subscriptions of the client,
// including those made on other replicas.
func (b *sdkBackend) wideOf(server *mcp.Server, s *Session) (*askConn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.wide[s]; w != nil {
		return w, nil
	}
	state, err := sessionStateOf(s)
	if err != nil {
		return nil, err
	}
	w := newWideConn(s)
	if err := w.open(server, state); err != nil {
		return nil, err
	}
	for _, uri := range s.Subscriptions() {
		params := compact(map[string]string{"uri": uri})
		s.h.begin(func() { _, _ = w.call(s.life, methodSubscribe, params) }) // a resource that has gone has no news
	}
	b.wide[s] = w
	go func() {
		_ = w.session.Wait() // it also ends when the client answers no ping of the server
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.wide[s] == w {
			delete(b.wide, s)
		}
	}()
	return w, nil
}

// sdkState returns the initial state of a connection of the SDK, or nil if the exchange is self-contained.
func sdkState(x *Exchange) (*mcp.ServerSessionState, error) {
	if x.Stateless() || x.Messages[0].Method == methodInitialize {
		return nil, nil
	}
	state, err := sessionStateOf(x.Session)
	if err == nil && slices.ContainsFunc(x.Messages, func(m Message) bool { return m.Method == noteInitialized }) {
		state.InitializedParams = nil // the SDK is about to be notified
	}
	return state, err
}

func sessionStateOf(s *Session) (*mcp.ServerSessionState, error) {
	state := s.now()
	init := &mcp.InitializeParams{}
	if err := json.Unmarshal(state.Initialize, init); err != nil {
		return nil, fmt.Errorf("the client's description of itself: %w", err)
	}
	init.ProtocolVersion = state.Version // which the SDK takes for the one that the session has
	if init.Capabilities != nil {
		if err := setRoots(init.Capabilities, state.Initialize); err != nil {
			return nil, err
		}
	}
	sdk := &mcp.ServerSessionState{
		InitializeParams:          init,
		NegotiatedProtocolVersion: state.Version,
		LogLevel:                  mcp.LoggingLevel(state.LogLevel),
	}
	if state.Initialized {
		sdk.InitializedParams = &mcp.InitializedParams{}
	}
	return sdk, nil
}

// setRoots sets the capability that the SDK keeps separate from its wire form.
func setRoots(c *mcp.ClientCapabilities, initialize json.RawMessage) error {
	var params struct {
		Capabilities struct {
			Roots *mcp.RootCapabilities `json:"roots"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(initialize, &params); err != nil {
		return fmt.Errorf("the client's description of itself: %w", err)
	}
	c.RootsV2 = params.Capabilities.Roots
	return nil
}

// extra returns the properties of the HTTP request that the SDK passes to handlers.
func extra(x *Exchange) *mcp.RequestExtra {
	return &mcp.RequestExtra{
		TokenInfo:      auth.TokenInfoFromContext(x.Request.Context()),
		Header:         x.Header,
		CloseSSEStream: func(args mcp.CloseSSEStreamArgs) { x.CloseConnection(args.RetryAfter) },
	}
}
