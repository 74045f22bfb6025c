package mcpserver_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/mcpserver"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
)

// post sends a request of the newest version to a handler, until ctx ends.
func post(ctx context.Context, handler http.Handler, method, tool string, params args) *httptest.ResponseRecorder {
	params["_meta"] = args{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         args{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": args{},
	}
	body, err := json.Marshal(args{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		panic(err)
	}
	req := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/", strings.NewReader(string(body)))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": tool,
	} {
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, req)
	return w
}

// TestToolsEndWithTheirClients: each tool whose client has gone ends within a second, with every goroutine that works
// for it. The run that they ask for is another replica's and writes nothing; those that start one are in
// TestCancelledCall.
func TestToolsEndWithTheirClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := goneHandler(t)
		answer := post(t.Context(), handler, "tools/list", "", args{})
		var list struct {
			Result struct {
				Tools []struct {
					Name        string
					InputSchema struct{ Properties map[string]any }
				}
			}
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil || len(list.Result.Tools) < 7 {
			t.Fatalf("%v, tools %s", err, answer.Body)
		}
		waited := 0
		for _, tool := range list.Result.Tools {
			if strings.HasPrefix(tool.Name, "execute_code") { // a process is nothing for a bubble
				continue
			}
			for _, more := range []args{
				{"until": "end"},
				{"until": "output"},
				{"until": "match", "pattern": "x"},
				{"match": "x"},
				{"events": true},
			} {
				given := args{"execution_id": "here", "wait": 50}
				maps.Copy(given, more)
				for name := range given {
					if tool.InputSchema.Properties[name] == nil {
						delete(given, name)
					}
				}
				if goes(t, handler, tool.Name, given) {
					waited++
				}
			}
		}
		if t.Logf("%d calls waited", waited); waited < 4 {
			t.Error("too few calls waited")
		}
	})
}

// goes calls a tool for a client that goes when nothing happens any more, and reports whether the call has waited until
// then.
func goes(t *testing.T, handler http.Handler, tool string, given args) (waited bool) {
	t.Helper()
	ctx, gone := context.WithCancel(t.Context())
	defer gone()
	before := ours()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		post(ctx, handler, "tools/call", tool, args{"name": tool, "arguments": given})
	}()
	synctest.Wait()
	select {
	case <-ended:
	default:
		waited = true
	}
	gone()
	time.Sleep(time.Second) // of the bubble
	synctest.Wait()
	if after := ours(); after != before {
		t.Errorf("%s %v: a second after the client has gone, these are left:\n%s", tool, given, after)
	}
	return waited
}

// ours are the stacks of goroutines in the code of the tools.
func ours() string {
	all := make([]byte, 1<<20)
	var found []string
	for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		if strings.Contains(stack, "reprise/internal/mcpserver.") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// goneHandler serves the tools over a store in memory with the open run "here".
func goneHandler(t *testing.T) http.Handler {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log, err := reprise.Open(ctx, memstore.New(nil), nil)
	must(err)
	host, err := execution.Open(ctx, log, &execution.Options{DisableCgroups: true})
	must(err)
	server, err := mcpserver.New(log, host, nil)
	must(err)
	handler, err := mcphttp.New(log, server.Backend(), nil)
	must(err)
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "execution:here"}
	s, _, err := log.Create(ctx, key, reprise.StreamConfig{})
	must(err)
	_, err = s.Append(ctx, reprise.Event{Type: "started", Data: []byte(`{"argv":["true"]}`)})
	must(err)
	t.Cleanup(func() {
		server.Close()
		must(handler.Close())
		must(host.Close())
		must(log.Close())
	})
	return handler
}
