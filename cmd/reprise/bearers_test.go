package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise/internal/testserver"
)

// TestLimitsOfTokensApplyToWhatIsKept: the limits that an issuer gives to its principals also apply where no token is
// at hand: to streams, and to MCP sessions and calls.
func TestLimitsOfTokensApplyToWhatIsKept(t *testing.T) {
	i, dir := newIssuer(t), testserver.TempDir(t)
	config := filepath.Join(dir, "issuers.yaml")
	const rule = "issuers:\n- issuer: %s\n  audiences: [all]\n  limits: {streams: 2, sessions: 1, calls: 0}\n"
	text := fmt.Sprintf(rule, i.url)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := startDaemon(append(os.Environ(), "HOME="+dir), dir, filepath.Join(dir, "log"), "--listen", "127.0.0.1:0",
		"--data", filepath.Join(dir, "data"), "--store", "memory:", "--oidc-config", config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.kill() }()
	alice, bob := i.token("alice", "publish run read", "all", time.Hour), i.token("bob", "publish", "all", time.Hour)
	create := func(token, name string) int {
		t.Helper()
		url := "http://" + d.addr + "/v1/streams/" + name
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	for n, want := range []int{201, 201, 429} {
		if got := create(alice, fmt.Sprint("of-alice-", n)); got != want {
			t.Errorf("stream %d of alice: %d, want %d", n, got, want)
		}
	}
	if got := create(bob, "of-bob"); got != 201 {
		t.Errorf("a stream of bob: %d", got)
	}
	c := mcpCaller{T: t, url: "http://" + d.addr + "/mcp"}
	session := c.send(alice, "", beginSession).session
	c.want("a second session", c.send(alice, "", beginSession), 429, "", `"quota":"sessions","quota_of":"principal"`)
	c.want("a call", c.send(alice, session, legacyCall), 200, "", `"quota":"calls","quota_of":"principal"`)
	c.want("a ping", c.send(alice, session, pingServer), 200, "", `"result":{}`)
}
