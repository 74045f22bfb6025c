package mcphttp

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
)

// askConn is a connection of the SDK for requests of our own: those that concern a session as a whole, and those about
// the server itself.
type askConn struct {
	*inbox
	id      string                       // of the session, or ""
	request func(*jsonrpc.Request) error // handles requests of the server
	session *mcp.ServerSession

	mu    sync.Mutex
	calls map[jsonrpc.ID]chan *jsonrpc.Response // our unanswered requests
}

func newAskConn(id string, request func(*jsonrpc.Request) error) *askConn {
	return &askConn{inbox: newInbox(), id: id, request: request, calls: map[jsonrpc.ID]chan *jsonrpc.Response{}}
}

// open connects to a server.
func (c *askConn) open(server *mcp.Server, state *mcp.ServerSessionState) (err error) {
	c.session, err = server.Connect(context.Background(), c, &mcp.ServerSessionOptions{State: state})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return nil
}

// Connect implements mcp.Transport.
func (c *askConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection.
func (c *askConn) SessionID() string { return c.id }

// end closes the connection.
func (c *askConn) end() {
	c.shut()
	_ = c.session.Close() // what it says is how the connection has ended
}

// call has the server answer a request, under an id of our own.
func (c *askConn) call(ctx context.Context, method string, params []byte) (*jsonrpc.Response, error) {
	id, err := jsonrpc.MakeID("reprise." + randomText(exchangeName))
	if err != nil {
		return nil, err
	}
	answer := make(chan *jsonrpc.Response, 1)
	c.mu.Lock()
	c.calls[id] = answer
	c.mu.Unlock()
	c.feed(&jsonrpc.Request{ID: id, Method: method, Params: params})
	select {
	case response := <-answer:
		return response, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.closed:
		return nil, io.ErrClosedPipe
	}
}

// Write implements mcp.Connection.
func (c *askConn) Write(_ context.Context, message jsonrpc.Message) error {
	switch m := message.(type) {
	case *jsonrpc.Response:
		c.mu.Lock()
		answer := c.calls[m.ID]
		delete(c.calls, m.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	case *jsonrpc.Request:
		return c.request(m)
	}
	return nil
}

// newWideConn returns the connection for a session as a whole: subscriptions and notifications of the server.
func newWideConn(s *Session) *askConn {
	var c *askConn
	c = newAskConn(s.ID, func(m *jsonrpc.Request) error {
		data, err := jsonrpc.EncodeMessage(m)
		switch {
		case err != nil:
			return err
		case m.IsCall():
			return s.Ask(rawID(m.ID), data, c.feedRaw)
		}
		return s.notify(data)
	})
	return c
}

// nothingElse rejects requests on a connection without a listener.
func nothingElse(m *jsonrpc.Request) error {
	if m.IsCall() {
		return reprise.ErrInvalid
	}
	return nil
}
