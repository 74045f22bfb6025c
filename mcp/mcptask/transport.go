package mcptask

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// metaToken is put into the _meta of a subscriptions/listen, where what the SDK does not read of it is kept under.
const metaToken = "reprise/listening"

// Transport wraps inner for a server with tasks that is not behind mcphttp, such as one on stdio. It lets clients
// that send subscriptions/listen get notifications of tasks. Without it they have to poll.
func (t *Tasks) Transport(inner mcp.Transport) mcp.Transport { return &transport{t, inner} }

type transport struct {
	tasks *Tasks
	inner mcp.Transport
}

// Connect implements mcp.Transport.
func (tr *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := tr.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{Connection: c, tasks: tr.tasks, tokens: map[string]bool{}}, nil
}

// connection marks each subscriptions/listen that it reads.
type connection struct {
	mcp.Connection
	tasks *Tasks

	mu     sync.Mutex
	tokens map[string]bool
}

// heard is a subscriptions/listen that names tasks, until it is handled.
type heard struct {
	conn *connection
	id   json.RawMessage
	ids  []string
}

// Read implements mcp.Connection.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && err == nil && r.Method == methodListen {
		return c.mark(r), nil
	}
	return m, err
}

// mark puts a token into a request that names tasks.
func (c *connection) mark(r *jsonrpc.Request) jsonrpc.Message {
	var ours listenParams
	var params, meta map[string]json.RawMessage
	if json.Unmarshal(r.Params, &ours) != nil || len(ours.Notifications.TaskIDs) == 0 ||
		json.Unmarshal(r.Params, &params) != nil {
		return r
	}
	id, err := json.Marshal(r.ID.Raw())
	if err != nil {
		return r
	}
	if len(params["_meta"]) > 0 && json.Unmarshal(params["_meta"], &meta) != nil {
		return r
	}
	token := rand.Text()
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	meta[metaToken] = json.RawMessage(`"` + token + `"`)
	if params["_meta"], err = json.Marshal(meta); err != nil {
		return r
	}
	marked := *r
	if marked.Params, err = json.Marshal(params); err != nil {
		return r
	}
	c.mu.Lock()
	c.tokens[token] = true
	c.mu.Unlock()
	c.tasks.outlets.Store(token, heard{c, id, ours.Notifications.TaskIDs})
	return &marked
}

// Close implements mcp.Connection.
func (c *connection) Close() error {
	c.mu.Lock()
	for token := range c.tokens {
		c.tasks.outlets.Delete(token)
	}
	clear(c.tokens)
	c.mu.Unlock()
	return c.Connection.Close()
}

func (c *connection) notify(ctx context.Context, message []byte) error {
	m, err := jsonrpc.DecodeMessage(message)
	if err != nil {
		return err
	}
	return c.Write(ctx, m)
}

// heardOn finds what a marked request has named.
func (t *Tasks) heardOn(meta mcp.Meta) (*listening, []string) {
	token, _ := meta[metaToken].(string)
	found, ok := t.outlets.LoadAndDelete(token)
	if !ok {
		return nil, nil
	}
	h := found.(heard)
	h.conn.mu.Lock()
	delete(h.conn.tokens, token)
	h.conn.mu.Unlock()
	return &listening{out: h.conn, id: h.id}, h.ids
}
