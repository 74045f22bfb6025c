package mcphttp

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// wideConn is the connection of the SDK for what concerns a session as a whole: subscriptions, and what the
// server says of itself.
type wideConn struct {
	*inbox
	s       *Session
	session *mcp.ServerSession

	mu    sync.Mutex
	calls map[jsonrpc.ID]chan jsonrpc.Message // what was asked of the SDK here
}

func newWideConn(s *Session) *wideConn {
	return &wideConn{inbox: newInbox(), s: s, calls: map[jsonrpc.ID]chan jsonrpc.Message{}}
}

// Connect implements mcp.Transport.
func (w *wideConn) Connect(context.Context) (mcp.Connection, error) { return w, nil }

// SessionID implements mcp.Connection.
func (w *wideConn) SessionID() string { return w.s.ID }

// close ends the connection.
func (w *wideConn) close() {
	w.shut()
	_ = w.session.Close() // what it says is how the connection has ended
}

// call has the SDK answer a request, under an id of our own, since ids are the client's.
func (w *wideConn) call(ctx context.Context, m Message) ([]byte, error) {
	id := stringID("whole." + randomText(exchangeName))
	decoded, err := jsonrpc.DecodeMessage(m.withID(id))
	if err != nil {
		return nil, err
	}
	request, ok := decoded.(*jsonrpc.Request)
	if !ok {
		return nil, io.ErrUnexpectedEOF
	}
	answer := make(chan jsonrpc.Message, 1)
	w.mu.Lock()
	w.calls[request.ID] = answer
	w.mu.Unlock()
	w.feed(request)
	select {
	case response := <-answer:
		data, err := jsonrpc.EncodeMessage(response)
		if err != nil {
			return nil, err
		}
		parsed, err := ParseMessage(data)
		return parsed.withID(m.ID), err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-w.closed:
		return nil, io.ErrClosedPipe
	}
}

// subscribeAgain subscribes to a resource for the client, which has done so on another connection.
func (w *wideConn) subscribeAgain(uri string) {
	method := methodSubscribe
	w.feedRaw(compact(wireMessage{
		JSONRPC: "2.0", ID: []byte(stringID("again." + randomText(exchangeName))), Method: &method,
		Params: compact(map[string]string{"uri": uri}),
	}))
}

// Write implements mcp.Connection.
func (w *wideConn) Write(_ context.Context, message jsonrpc.Message) error {
	switch m := message.(type) {
	case *jsonrpc.Response:
		w.mu.Lock()
		answer := w.calls[m.ID]
		delete(w.calls, m.ID)
		w.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	case *jsonrpc.Request:
		data, err := jsonrpc.EncodeMessage(m)
		switch {
		case err != nil:
			return err
		case m.IsCall():
			return w.s.Ask(rawID(m.ID), data, w.feedRaw)
		}
		return w.s.notify(data)
	}
	return nil
}
