package gateway

import (
	"encoding/json"
	"sync"
	"time"

	"reprise/internal/gateway/link"
	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// call is a request to an upstream that has no response yet. It does not change after it was sent. A request that is
// sent again is another call.
type call struct {
	id      int64 // at the upstream
	method  string
	conn    *connection
	request *clientRequest  // nil for a call of the gateway's own
	token   json.RawMessage // the client's progress token, nil if it has none
	listens *filter         // of a subscriptions/listen that the gateway serves; guarded by callTable.mu
	answer  chan ownAnswer  // of a call of the gateway's own
}

// ownAnswer is the result of a call of the gateway itself.
type ownAnswer struct {
	m   mcphttp.Message
	err error // the upstream did not answer
}

// respond hands over the response. lost is why the upstream gives none, else nil.
func (c *call) respond(m mcphttp.Message, lost *wire.Failure) {
	switch {
	case c.request != nil && lost != nil:
		c.request.fail(Lost, lost)
	case c.request != nil:
		c.request.in.push(arrival{request: c.request, m: m, result: Answered})
	case lost != nil:
		c.answer <- ownAnswer{err: lost}
	default:
		c.answer <- ownAnswer{m: m}
	}
}

// callTable holds the calls of a connection that have no response yet. Its methods are safe for concurrent use.
type callTable struct {
	mu    sync.Mutex
	last  int64
	calls map[int64]*call
	ended bool
	used  time.Time // when a call began or ended last
	idle  func()    // called once there is no call of a client; may be nil
}

// add assigns an id to a call. It adds at most limit calls of clients, and any number of calls of the gateway itself.
func (t *callTable) add(c *call, limit int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended:
		return link.ErrEnded
	case c.request != nil && len(t.calls) >= limit:
		return wire.Internal(wire.ReasonLimit, "too many requests to the upstream have no answer yet")
	}
	t.last++
	c.id = t.last
	t.calls[c.id] = c
	t.used = time.Now()
	return nil
}

// remove removes a call. It reports false if the call has been removed before.
func (t *callTable) remove(c *call) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[c.id] != c {
		return false
	}
	delete(t.calls, c.id)
	t.used = time.Now()
	t.tellIdle()
	return true
}

// take removes and returns the call with an id, or returns nil if there is none.
func (t *callTable) take(id int64) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.calls[id]
	if c != nil {
		delete(t.calls, id)
		t.used = time.Now()
		t.tellIdle()
	}
	return c
}

// find returns the call with an id, or nil if there is none.
func (t *callTable) find(id int64) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[id]
}

// findRequest returns the call of a client's request, or nil.
func (t *callTable) findRequest(x *mcphttp.Exchange, id json.RawMessage) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.calls {
		if c.request != nil && c.request.x == x && wire.SameID(c.request.id, id) {
			return c
		}
	}
	return nil
}

// replace puts now in the place of before, which has the same id, unless before was removed.
func (t *callTable) replace(before, now *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[before.id] == before {
		t.calls[before.id] = now
	}
}

// newest returns the request of a client that was sent last, or nil, and whether requests of several exchanges are
// under way.
func (t *callTable) newest() (newest *clientRequest, several bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := int64(0)
	for _, c := range t.calls {
		if c.request == nil {
			continue
		}
		several = several || newest != nil && newest.in != c.request.in
		if c.id > id {
			newest, id = c.request, c.id
		}
	}
	return newest, several
}

// listen marks a call as one that waits for notifications.
func (t *callTable) listen(c *call, f *filter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.listens = f
}

// listeners returns the calls that wait for a notification.
func (t *callTable) listeners(m *mcphttp.Message) (listeners []*call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.calls {
		if c.listens != nil && c.listens.wants(m) {
			listeners = append(listeners, c)
		}
	}
	return listeners
}

// isListening reports whether a call waits for notifications.
func (t *callTable) isListening(c *call) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.listens != nil
}

// waiting returns the number of unanswered requests of clients.
func (t *callTable) waiting() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.calls {
		if c.request != nil && c.listens == nil {
			n++
		}
	}
	return n
}

// idleSince returns since when no client has had a call. ok is false if one has.
func (t *callTable) idleSince() (since time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.calls {
		if c.request != nil {
			return time.Time{}, false
		}
	}
	return t.used, true
}

// whenIdle calls f in its own goroutine when no client has a call.
func (t *callTable) whenIdle(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle = f
	t.tellIdle()
}

// tellIdle calls idle if no client has a call. The caller holds mu.
func (t *callTable) tellIdle() {
	if t.idle == nil {
		return
	}
	for _, c := range t.calls {
		if c.request != nil {
			return
		}
	}
	go t.idle()
	t.idle = nil
}

// end makes add refuse calls. It removes and returns the calls of clients; the gateway's own calls see the end of the
// link.
func (t *callTable) end() (calls []*call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for _, c := range t.calls {
		if c.request != nil {
			calls = append(calls, c)
		}
	}
	clear(t.calls)
	return calls
}
