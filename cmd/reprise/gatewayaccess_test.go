package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise/internal/datadir"
	"reprise/internal/testserver"
)

// serveUserNames is an upstream with sessions whose tools answer with the header X-User.
func serveUserNames() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "s")
		result := fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, r.Header.Get("X-User"))
		switch {
		case strings.Contains(string(body), `"initialize"`):
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"u","version":"1"}}`
		case !strings.Contains(string(body), `"id"`):
			w.WriteHeader(http.StatusAccepted)
			return
		}
		id := "1"
		if _, rest, ok := strings.Cut(string(body), `"id":`); ok {
			id = rest[:strings.IndexAny(rest, ",}")]
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
	}))
}

// TestUsersOfTheGateway: an upstream is called with the claims of the token that a request has shown, and not at all
// for who has none.
func TestUsersOfTheGateway(t *testing.T) {
	upstream := serveUserNames()
	defer upstream.Close()
	i, dir := newIssuer(t), testserver.TempDir(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := func(name, header string) mcpCaller {
		d, err := startProgram(&daemonSpec{
			path: program, dir: dir, log: filepath.Join(dir, name+".log"), env: append(os.Environ(), "HOME="+dir),
			args: []string{
				"reprise", "gateway", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, name),
				"--store", "memory:", "--oidc-issuer", i.url, "--oidc-audience", "all",
				"--header", "X-User=" + header, upstream.URL,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.kill() })
		return mcpCaller{T: t, url: "http://" + d.addr + "/mcp"}
	}
	c := start("known", "{{tenant}}/{{claims.sub}}")
	for _, who := range []string{"alice", "bob"} {
		token := i.token(who, "run", "all", time.Hour)
		session := c.send(token, "", beginSession).session
		c.want("the user "+who, c.send(token, session, legacyCall), 200, "", "default/"+who)
	}
	token, err := os.ReadFile(filepath.Join(dir, "known", datadir.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	got := c.send(strings.TrimSpace(string(token)), "", beginSession)
	c.want("who has no claims", got, 200, "", `the claim \"sub\"`)
	c.want("who has no claims", got, 200, "", "credential_missing")
	c = start("unknown", "{{claims.email}}")
	got = c.send(i.token("alice", "run", "all", time.Hour), "", beginSession)
	c.want("a token without the claim", got, 200, "", "credential_missing")
}
