package gateway_test

//lint:file-ignore SA1019 the versions before 2026-07-28 have roots and logging

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/gateway"
	"reprise/store/sqlitestore"
)

func TestSharedUpstreamServesAllSessions(t *testing.T) {
	f := newFixture(t, gateway.Upstream{Shared: true, Command: []string{program, "-lacks", "server/discover"}}).start()
	updated := make(chan string, 10)
	clients := map[string]*mcp.ClientSession{}
	for _, name := range []string{"a", "b"} {
		clients[name] = f.connect("2025-11-25", &mcp.ClientOptions{
			ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
				updated <- name + " " + r.Params.URI
			},
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				if r.Params.Message != name {
					t.Errorf("%s gets the progress of %s", name, r.Params.Message)
				}
			},
		})
	}
	clients["c"] = f.connect("2026-07-28", nil)
	pids := map[string]bool{}
	for _, s := range clients {
		pid, err := call(s, "pid", nil)
		check(t, err)
		pids[pid] = true
	}
	if len(pids) != 1 {
		t.Errorf("there are %d processes", len(pids))
	}
	var both sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		both.Go(func() {
			params := &mcp.CallToolParams{Name: "steps", Arguments: args{"n": 50, "text": name}}
			params.SetProgressToken("same")
			if _, err := clients[name].CallTool(context.Background(), params); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	check(t, clients["a"].Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://a"}))
	f.want(clients["b"], "touch", args{"text": "test://a"}, "touched")
	if got := <-updated; got != "a test://a" {
		t.Errorf("%s was told", got)
	}
	f.wantError(clients["a"], "roots", nil, "")
	f.wantError(clients["b"], "crash", nil, "the upstream ended")
	for _, s := range clients {
		f.eventually("the session goes on", func() bool { _, err := call(s, "pid", nil); return err == nil })
	}
	f.want(clients["b"], "touch", args{"text": "test://a"}, "touched")
	if got := <-updated; got != "a test://a" {
		t.Errorf("%s was told", got)
	}
	select {
	case got := <-updated:
		t.Errorf("%s was told too", got)
	case <-time.After(50 * time.Millisecond):
	}
}

func TestSessionGoesOnAfterGatewayRestart(t *testing.T) {
	for _, kind := range []string{"memory", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			f := newFixture(t, gateway.Upstream{})
			if kind == "sqlite" {
				store, err := sqlitestore.Open(context.Background(), t.TempDir()+"/db", nil)
				check(t, err)
				check(t, f.store.Close())
				f.store = store
			}
			f.start()
			resp := f.request("", initialize("2025-11-25"))
			session := resp.Header.Get("Mcp-Session-Id")
			resp.Body.Close()
			status, body := f.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			if status != 202 {
				t.Fatalf("the answer is %d %s", status, body)
			}
			if _, body := f.post(
				session, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"test://a"}}`,
			); !strings.Contains(body, `"result":{}`) {
				t.Fatalf("the answer is %s", body)
			}
			f.stop()
			f.start()
			stream := f.listen(session)
			if _, body := f.post(
				session,
				`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"touch","arguments":{"text":"test://a"}}}`,
			); !strings.Contains(body, "touched") {
				t.Fatalf("the answer is %s", body)
			}
			stream.want("notifications/resources/updated")
		})
	}
}

// reading is a GET of the stream of a session as a whole.
type reading struct {
	*fixture
	body io.ReadCloser
	text string
}

func (f *fixture) listen(session string) *reading {
	f.Helper()
	r, err := http.NewRequest(http.MethodGet, f.http.URL, nil)
	check(f, err)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", session)
	resp, err := f.client.Do(r)
	check(f, err)
	if resp.StatusCode != http.StatusOK {
		f.Fatal(resp.Status)
	}
	f.Cleanup(func() { resp.Body.Close() })
	return &reading{fixture: f, body: resp.Body}
}

func (r *reading) want(part string) {
	r.Helper()
	timer := time.AfterFunc(patience, func() { r.body.Close() })
	defer timer.Stop()
	buf := make([]byte, 4096)
	for !strings.Contains(r.text, part) {
		n, err := r.body.Read(buf)
		if r.text += string(buf[:n]); err != nil && !strings.Contains(r.text, part) {
			r.Fatalf("%v after %q", err, r.text)
		}
	}
}

// TestQuestionIsAnsweredAfterReconnect: the client loses the connection on which it was asked, comes back, and answers.
func TestQuestionIsAnsweredAfterReconnect(t *testing.T) {
	f := newFixture(t, gateway.Upstream{}).start()
	resp := f.request("",
		strings.Replace(initialize("2025-11-25"), `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	session := resp.Header.Get("Mcp-Session-Id")
	resp.Body.Close()
	f.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	resp = f.request(session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask","arguments":{"text":"who"}}}`)
	first := make([]byte, 4096)
	n, err := resp.Body.Read(first)
	check(t, err)
	resp.Body.Close()
	_, after, _ := strings.Cut(string(first[:n]), "id: ")
	id, _, _ := strings.Cut(after, "\n")
	again := f.resume(session, id)
	again.want("elicitation/create")
	_, after, _ = strings.Cut(again.text, `"id":"`)
	asked, _, _ := strings.Cut(after, `"`)
	status, body := f.post(session,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"name":"me"}}}`, asked))
	if status != http.StatusAccepted {
		t.Fatalf("the answer is %d %s", status, body)
	}
	again.want("accept me")
}

func (f *fixture) resume(session, id string) *reading {
	f.Helper()
	r, err := http.NewRequest(http.MethodGet, f.http.URL, nil)
	check(f, err)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", session)
	r.Header.Set("Last-Event-ID", id)
	resp, err := f.client.Do(r)
	check(f, err)
	f.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		f.Fatalf("%s %s", resp.Status, text)
	}
	return &reading{fixture: f, body: resp.Body}
}

func TestListenIsAcknowledgedWithClientsID(t *testing.T) {
	for _, lacks := range []string{"", "server/discover"} {
		t.Run("lacks="+lacks, func(t *testing.T) {
			f := newFixture(t, gateway.Upstream{Command: []string{program, "-lacks", lacks}}).start()
			s := f.connect("2026-07-28", nil)
			f.want(s, "echo", args{"text": "x"}, "x")
			r, err := http.NewRequest(http.MethodPost, f.http.URL, strings.NewReader(`{"jsonrpc":"2.0","id":"mine","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{"listChanged":true}}}}}`))
			check(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", "subscriptions/listen")
			resp, err := f.client.Do(r)
			check(t, err)
			defer resp.Body.Close()
			stream := &reading{fixture: f, body: resp.Body}
			stream.want(`notifications/subscriptions/acknowledged`)
			stream.want(`"io.modelcontextprotocol/subscriptionId":"mine"`)
		})
	}
}
