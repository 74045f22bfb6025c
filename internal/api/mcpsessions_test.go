package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/mcpapi"
	"reprise/mcp/mcphttp"
)

// TestMCPSessions: sessions of all endpoints are listed in pages, shown and ended.
func TestMCPSessions(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	var endpoints mcpapi.Sessions
	w := start(t, setup{mcp: func(log *reprise.Log) mcpapi.Sessions {
		for _, name := range []string{"mcp", "windows"} {
			backend := mcphttp.Server(func(*http.Request) *mcp.Server { return server })
			handler, err := mcphttp.New(log, backend, &mcphttp.Options{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			endpoints = append(endpoints, mcpapi.Endpoint{Name: name, Handler: handler})
		}
		return endpoints
	}})
	defer func() {
		for _, e := range endpoints {
			w.ok(e.Handler.Close())
		}
	}()
	begin := func(e mcpapi.Endpoint, client string) string {
		body := fmt.Sprintf(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},`+
				`"clientInfo":{"name":%q,"version":"2"}}}`, client)
		r := httptest.NewRequestWithContext(
			t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		answer := httptest.NewRecorder()
		e.Handler.ServeHTTP(answer, r)
		return answer.Header().Get("Mcp-Session-Id")
	}
	ids := []string{begin(endpoints[0], "a"), begin(endpoints[0], "b"), begin(endpoints[1], "c")}
	var seen []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		a := w.do("GET", "/v1/mcp/sessions?limit=1&cursor="+cursor, "").is(200)
		seen = append(seen, strings.Fields(names(a, "sessions", "id"))...)
		if cursor = a.text("next_cursor"); pages > 5 {
			t.Fatalf("the pages do not end: %s", a.body)
		}
	}
	if len(seen) != 3 || seen[2] != ids[2] {
		t.Errorf("listed %v of %v", seen, ids)
	}
	if a := w.do("GET", "/v1/mcp/sessions", "").is(200); names(a, "sessions", "endpoint") != "mcp mcp windows" {
		t.Errorf("all: %s", a.body)
	}
	a := w.do("GET", "/v1/mcp/sessions/"+ids[2], "").is(200)
	if !strings.Contains(a.body, `"client":{"name":"c","version":"2"}`) || a.text("version") != "2025-11-25" {
		t.Errorf("shown: %s", a.body)
	}
	calls := w.do("GET", "/v1/mcp/sessions/"+ids[2]+"/calls", "").is(200)
	if calls.body != `{"calls":[],"next_cursor":""}`+"\n" {
		t.Errorf("its calls: %s", calls.body)
	}
	w.do("GET", "/v1/mcp/sessions/"+ids[2]+"/calls?cursor=x", "").refused(400, "invalid")
	w.do("DELETE", "/v1/mcp/sessions/"+ids[2], "").is(204)
	w.do("DELETE", "/v1/mcp/sessions/"+ids[2], "").is(204)
	w.do("GET", "/v1/mcp/sessions/"+ids[2], "").refused(404, "not_found")
	w.do("GET", "/v1/mcp/sessions/"+ids[2]+"/calls", "").refused(404, "not_found")
	for _, cursor := range []string{"x", "9.", "-1.", "0.x"} {
		w.do("GET", "/v1/mcp/sessions?cursor="+cursor, "").refused(400, "invalid")
	}
}
