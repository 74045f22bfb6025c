package mcphttp

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// inbox is the queue of messages that the SDK reads from a connection.
type inbox struct {
	mu      sync.Mutex
	queue   []jsonrpc.Message
	more    chan struct{} // holds one when the queue has grown
	drained func()        // called once, when all messages were read and the SDK waits for more; may be nil
	closed  chan struct{}
	once    sync.Once
}

func newInbox() *inbox { return &inbox{more: make(chan struct{}, 1), closed: make(chan struct{})} }

func (in *inbox) feed(m jsonrpc.Message) {
	in.mu.Lock()
	in.queue = append(in.queue, m)
	in.mu.Unlock()
	select {
	case in.more <- struct{}{}:
	default:
	}
}

func (in *inbox) shut() { in.once.Do(func() { close(in.closed) }) }

// Read implements mcp.Connection.
func (in *inbox) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-in.closed:
			return nil, io.EOF
		default:
		}
		if m, ok := in.next(); ok {
			return m, nil
		}
		select {
		case <-in.more:
		case <-in.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (in *inbox) next() (jsonrpc.Message, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue) == 0 {
		if in.drained != nil {
			in.drained()
			in.drained = nil
		}
		return nil, false
	}
	m := in.queue[0]
	in.queue = in.queue[1:]
	return m, true
}

// Close implements mcp.Connection.
func (in *inbox) Close() error {
	in.shut()
	return nil
}

// callConn is the connection of the SDK for one exchange. Every message that is written to it belongs to that exchange.
type callConn struct {
	*inbox
	x  *Exchange
	id string

	// connected is closed when the SDK has connected. Messages that are read before may be handled with a session that
	// is not complete: server/discover then names versions that we do not serve.
	connected chan struct{}

	answered chan struct{} // closed when each request has its answer or, without requests, when all was read
	waiting  atomic.Int64  // requests without an answer
	ids      map[jsonrpc.ID]ID
}

// newCallConn returns a connection from which the SDK reads the messages.
func newCallConn(x *Exchange, messages []Message) *callConn {
	c := &callConn{
		inbox:     newInbox(),
		x:         x,
		connected: make(chan struct{}),
		answered:  make(chan struct{}),
		ids:       map[jsonrpc.ID]ID{},
	}
	if x.Session != nil {
		c.id = x.Session.ID
	}
	calls := 0
	about := extra(x)
	for i := range messages {
		decoded, err := jsonrpc.DecodeMessage(messages[i].Raw)
		request, ok := decoded.(*jsonrpc.Request)
		if err != nil || !ok {
			if messages[i].ID != "" {
				_ = x.respond(messages[i].ID,
					errorResponse(messages[i].ID, rpcError{Code: codeInvalidRequest, Message: fmt.Sprint(err)}))
			}
			continue
		}
		request.Extra = about
		if request.IsCall() {
			calls++
			c.ids[request.ID] = messages[i].ID
		}
		c.queue = append(c.queue, request)
	}
	if calls == 0 {
		c.drained = func() { close(c.answered) }
		return c
	}
	c.waiting.Store(int64(calls))
	return c
}

// Connect implements mcp.Transport.
func (c *callConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// Read implements mcp.Connection.
func (c *callConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-c.connected:
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return c.inbox.Read(ctx)
}

// SessionID implements mcp.Connection.
func (c *callConn) SessionID() string { return c.id }

// SupportsProtocolVersion implements mcp.ProtocolVersionSupporter.
func (c *callConn) SupportsProtocolVersion(version string) bool { return c.x.h.serves(version) }

// Write implements mcp.Connection.
func (c *callConn) Write(_ context.Context, message jsonrpc.Message) error {
	switch m := message.(type) {
	case *jsonrpc.Response:
		return c.respond(m)
	case *jsonrpc.Request:
		if !m.IsCall() && !c.x.Stateless() && concernsSession(m.Method) {
			return nil // the connection for the session as a whole says so too
		}
		data, err := jsonrpc.EncodeMessage(m)
		if err != nil {
			return err
		}
		if !m.IsCall() {
			return c.x.notify(data)
		}
		return c.x.Ask(rawID(m.ID), data, c.feedRaw)
	}
	return nil
}

func (c *callConn) respond(m *jsonrpc.Response) error {
	id, ok := c.ids[m.ID]
	if !ok {
		return nil
	}
	defer func() {
		if c.waiting.Add(-1) == 0 {
			close(c.answered)
		}
	}()
	return c.x.answer(id, m)
}

// answer responds to the request id with the response of the SDK, whose own id is ignored.
func (x *Exchange) answer(id ID, m *jsonrpc.Response) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err == nil && rawID(m.ID) != id {
		var parsed Message
		parsed, err = ParseMessage(data)
		data = parsed.withID(id)
	}
	if err != nil {
		data = errorResponse(id, rpcError{Code: codeInternal, Message: err.Error()})
	}
	return x.respond(id, data)
}

// feedRaw has the SDK read a response of the client.
func (in *inbox) feedRaw(response []byte) {
	if m, err := jsonrpc.DecodeMessage(response); err == nil {
		in.feed(m)
	}
}

// concernsSession reports whether a notification is about the session as a whole.
func concernsSession(method string) bool {
	return strings.HasSuffix(method, "/list_changed") || method == "notifications/resources/updated"
}

// rawID returns the wire form of an id of the SDK.
func rawID(id jsonrpc.ID) ID { return ID(compact(id.Raw())) }
