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

	"reprise/gateway"
	"reprise/sqlitestore"
)

func TestSharedUpstream(t *testing.T) {
	w := newWorld(t, gateway.Upstream{Shared: true, Command: []string{program, "-lacks", "server/discover"}}).start()
	updated := make(chan string, 10)
	clients := map[string]*mcp.ClientSession{}
	for _, name := range []string{"a", "b"} {
		clients[name] = w.connect("2025-11-25", &mcp.ClientOptions{
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
	clients["c"] = w.connect("2026-07-28", nil)
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
	w.want(clients["b"], "touch", args{"text": "test://a"}, "touched")
	if got := <-updated; got != "a test://a" {
		t.Errorf("%s was told", got)
	}
	w.wantError(clients["a"], "roots", nil, "")
	w.wantError(clients["b"], "crash", nil, "the upstream ended")
	for _, s := range clients {
		w.eventually("the session goes on", func() bool { _, err := call(s, "pid", nil); return err == nil })
	}
	w.want(clients["b"], "touch", args{"text": "test://a"}, "touched")
	if got := <-updated; got != "a test://a" {
		t.Errorf("%s was told", got)
	}
	select {
	case got := <-updated:
		t.Errorf("%s was told too", got)
	case <-time.After(50 * time.Millisecond):
	}
}

func TestSessionOutlivesTheGateway(t *testing.T) {
	for _, kind := range []string{"memory", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, gateway.Upstream{})
			if kind == "sqlite" {
				store, err := sqlitestore.Open(context.Background(), t.TempDir()+"/db", nil)
				check(t, err)
				check(t, w.store.Close())
				w.store = store
			}
			w.start()
			resp := w.request("", initialize("2025-11-25"))
			session := resp.Header.Get("Mcp-Session-Id")
			resp.Body.Close()
			if status, body := w.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != 202 {
				t.Fatalf("the answer is %d %s", status, body)
			}
			if _, body := w.post(session, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"test://a"}}`); !strings.Contains(body, `"result":{}`) {
				t.Fatalf("the answer is %s", body)
			}
			w.stop()
			w.start()
			stream := w.listen(session)
			if _, body := w.post(session, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"touch","arguments":{"text":"test://a"}}}`); !strings.Contains(body, "touched") {
				t.Fatalf("the answer is %s", body)
			}
			stream.want("notifications/resources/updated")
		})
	}
}

// reading is a GET of the stream of a session as a whole.
type reading struct {
	*world
	body io.ReadCloser
	text string
}

func (w *world) listen(session string) *reading {
	w.Helper()
	r, err := http.NewRequest(http.MethodGet, w.http.URL, nil)
	check(w, err)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", session)
	resp, err := w.client.Do(r)
	check(w, err)
	if resp.StatusCode != http.StatusOK {
		w.Fatal(resp.Status)
	}
	w.Cleanup(func() { resp.Body.Close() })
	return &reading{world: w, body: resp.Body}
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

// TestQuestionSurvivesAReconnect: the client loses the connection on which it was asked, comes back, and answers.
func TestQuestionSurvivesAReconnect(t *testing.T) {
	w := newWorld(t, gateway.Upstream{}).start()
	resp := w.request("", strings.Replace(initialize("2025-11-25"), `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	session := resp.Header.Get("Mcp-Session-Id")
	resp.Body.Close()
	w.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	resp = w.request(session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask","arguments":{"text":"who"}}}`)
	first := make([]byte, 4096)
	n, err := resp.Body.Read(first)
	check(t, err)
	resp.Body.Close()
	_, after, _ := strings.Cut(string(first[:n]), "id: ")
	id, _, _ := strings.Cut(after, "\n")
	again := w.resume(session, id)
	again.want("elicitation/create")
	_, after, _ = strings.Cut(again.text, `"id":"`)
	asked, _, _ := strings.Cut(after, `"`)
	status, body := w.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"name":"me"}}}`, asked))
	if status != http.StatusAccepted {
		t.Fatalf("the answer is %d %s", status, body)
	}
	again.want("accept me")
}

func (w *world) resume(session, id string) *reading {
	w.Helper()
	r, err := http.NewRequest(http.MethodGet, w.http.URL, nil)
	check(w, err)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", session)
	r.Header.Set("Last-Event-ID", id)
	resp, err := w.client.Do(r)
	check(w, err)
	w.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		w.Fatalf("%s %s", resp.Status, text)
	}
	return &reading{world: w, body: resp.Body}
}

func TestListen(t *testing.T) {
	for _, lacks := range []string{"", "server/discover"} {
		t.Run("lacks="+lacks, func(t *testing.T) {
			w := newWorld(t, gateway.Upstream{Command: []string{program, "-lacks", lacks}}).start()
			s := w.connect("2026-07-28", nil)
			w.want(s, "echo", args{"text": "x"}, "x")
			r, err := http.NewRequest(http.MethodPost, w.http.URL, strings.NewReader(`{"jsonrpc":"2.0","id":"mine","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{"listChanged":true}}}}}`))
			check(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", "subscriptions/listen")
			resp, err := w.client.Do(r)
			check(t, err)
			defer resp.Body.Close()
			stream := &reading{world: w, body: resp.Body}
			stream.want(`notifications/subscriptions/acknowledged`)
			stream.want(`"io.modelcontextprotocol/subscriptionId":"mine"`)
		})
	}
}
