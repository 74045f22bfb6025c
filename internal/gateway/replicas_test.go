package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/gateway"
	"reprise/internal/shared"
	"reprise/replica"
	"reprise/store/memstore"
)

// join starts a replica over a store.
func join(t *testing.T, hub *shared.Hub) *fixture {
	t.Helper()
	f := newFixture(t, gateway.Upstream{})
	check(t, f.store.Close())
	f.store = hub.Store()
	log, err := reprise.Open(context.Background(), hub.Store(), &reprise.Options{Keys: keys, SweepEvery: -1})
	check(t, err)
	member, err := replica.Join(context.Background(), log,
		&replica.Options{Beat: 100 * time.Millisecond, TTL: time.Minute})
	check(t, err)
	f.opts.Replica = member
	t.Cleanup(func() {
		f.stop()
		_ = member.Leave(context.Background())
		_ = log.Close()
	})
	return f.start()
}

// TestSessionGoesOnAtAnotherReplica: a session that was begun on one replica goes on at another, which has a process
// of its own for it, and a question is answered through the one that did not ask.
func TestSessionGoesOnAtAnotherReplica(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	a, b := join(t, hub), join(t, hub)
	resp := a.request("",
		strings.Replace(initialize("2025-11-25"), `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	session := resp.Header.Get("Mcp-Session-Id")
	resp.Body.Close()
	a.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for _, f := range []*fixture{a, b, a, b} {
		status, body := f.post(session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"there"}}}`)
		if status != http.StatusOK || !strings.Contains(body, "there") {
			t.Fatalf("the answer is %d %s", status, body)
		}
	}
	resp = a.request(session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask","arguments":{"text":"who"}}}`)
	t.Cleanup(func() { resp.Body.Close() })
	stream := &reading{fixture: a, body: resp.Body}
	stream.want("elicitation/create")
	_, after, _ := strings.Cut(stream.text, `"id":"`)
	asked, _, _ := strings.Cut(after, `"`)
	if status, body := b.post(
		session, `{"jsonrpc":"2.0","id":"`+asked+`","result":{"action":"accept","content":{"name":"me"}}}`,
	); status != http.StatusAccepted {
		t.Fatalf("the answer is %d %s", status, body)
	}
	stream.want("accept me")
}
