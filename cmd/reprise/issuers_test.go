package main

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"reprise/internal/oidc"
	"reprise/internal/testserver"
)

// issuer is an identity provider with one key.
type issuer struct {
	*testing.T
	url    string
	signer jose.Signer
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k"}}})
			return
		}
		url := "http://" + r.Host
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, url, url+"/keys")
	}))
	t.Cleanup(server.Close)
	i := &issuer{T: t, url: server.URL}
	key := jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}
	if i.signer, err = jose.NewSigner(key, nil); err != nil {
		t.Fatal(err)
	}
	return i
}

// leeway is how long a server takes a token after its expiry.
const leeway = 30 * time.Second

// token is one that a server takes for a time.
func (i *issuer) token(who, scope, audience string, good time.Duration) string {
	i.Helper()
	expires := time.Now().Add(good - leeway).UnixMilli()
	claims := map[string]any{
		"iss": i.url, "sub": who, "aud": audience, "scope": scope, "exp": float64(expires) / 1000,
	}
	text, err := json.Marshal(claims)
	if err != nil {
		i.Fatal(err)
	}
	signed, err := i.signer.Sign(text)
	if err != nil {
		i.Fatal(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		i.Fatal(err)
	}
	return compact
}

// mcpCaller sends requests to an endpoint of MCP.
type mcpCaller struct {
	*testing.T
	url  string
	via  http.RoundTripper // nil for that of all
	tool string            // of modern calls, by default execute_code
}

// reply is what a request was answered with.
type reply struct {
	status                   int
	challenge, session, body string
}

// open sends a request whose answer may go on. An empty body asks for what the server says by itself.
func (c mcpCaller) open(token, session, body string) *http.Response {
	c.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(c.Context(), method, c.url, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	if strings.Contains(body, "2026-07-28") {
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/call")
		req.Header.Set("Mcp-Name", cmp.Or(c.tool, "execute_code"))
	}
	via := c.via
	if via == nil {
		via = http.DefaultTransport
	}
	res, err := via.RoundTrip(req)
	if err != nil {
		c.Fatal(err)
	}
	return res
}

func (c mcpCaller) send(token, session, body string) reply {
	c.Helper()
	res := c.open(token, session, body)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.Fatal(err)
	}
	return reply{
		res.StatusCode, res.Header.Get("WWW-Authenticate"), res.Header.Get("Mcp-Session-Id"), string(text),
	}
}

// want checks the status of an answer and what its challenge and body hold.
func (c mcpCaller) want(what string, got reply, status int, challenge, body string) {
	c.Helper()
	challenged := strings.Contains(got.challenge, challenge) && (challenge == "") == (got.challenge == "")
	if got.status != status || !challenged || !strings.Contains(got.body, body) {
		c.Errorf("%s: %d, challenge %q: %s\nwant %d, %q, %q",
			what, got.status, got.challenge, got.body, status, challenge, body)
	}
}

const (
	modernCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code",` +
		`"arguments":{"command":"echo it runs"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	legacyCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code",` +
		`"arguments":{"command":"echo it runs"}}}`
	beginSession = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	pingServer = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
)

// TestTokensOfIssuersOverMCP: what a call may do is in the token that comes with it, on both eras of the protocol, and
// a session is its principal's.
func TestTokensOfIssuersOverMCP(t *testing.T) {
	t.Parallel()
	const public, mcpURL = "http://reprise.example.org", "http://reprise.example.org/mcp"
	i, dir := newIssuer(t), testserver.TempDir(t)
	d, err := startDaemon(append(os.Environ(), "HOME="+dir), dir, filepath.Join(dir, "log"), "--listen", "127.0.0.1:0",
		"--data", filepath.Join(dir, "data"), "--store", "memory:", "--heartbeat", "10m",
		"--oidc-issuer", i.url, "--public-url", public+"/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.kill() }()
	c := mcpCaller{T: t, url: "http://" + d.addr + "/mcp"}
	weak, strong := i.token("alice", "read", mcpURL, time.Hour), i.token("alice", "read run", mcpURL, time.Hour)
	metadata := `resource_metadata="` + public + oidc.MetadataPath + `/mcp"`
	c.want("no token", c.send("", "", modernCall), 401, "Bearer "+metadata+`, scope="read run"`, "unauthenticated")
	c.want("a wrong token", c.send(weak+"x", "", modernCall), 401, `error="invalid_token"`, "unauthenticated")
	c.want("a token for others", c.send(i.token("alice", "read run", "http://else", time.Hour), "", modernCall), 401,
		`error="invalid_token"`, "audience")
	stepUp := `Bearer error="insufficient_scope", ` + metadata + `, scope="read run"`
	for range 2 { // what the stronger token may do is not remembered for the weaker one
		c.want("a weak token", c.send(weak, "", modernCall), 403, stepUp, "forbidden")
		c.want("a strong token", c.send(strong, "", modernCall), 200, "", "it runs")
	}
	session := c.send(strong, "", beginSession).session
	c.want("a weak token in the session", c.send(weak, session, legacyCall), 403, stepUp, "forbidden")
	c.want("a strong token in the session", c.send(strong, session, legacyCall), 200, "", "it runs")
	c.want("a new token in the session",
		c.send(i.token("alice", "run", mcpURL, time.Hour), session, pingServer), 200, "", "")
	c.want("somebody else in the session", c.send(i.token("bob", "read run", mcpURL, time.Hour),
		session, pingServer), 404,
		"", "Session not found")
	c.want("no scope of a tool", c.send(i.token("alice", "publish", mcpURL, time.Hour), "", beginSession), 403,
		`scope="publish run"`, "forbidden")

	for life := 2 * time.Second; ; life *= 4 { // until the token is good for long enough on a busy machine
		expires := time.Now().Add(life)
		token := i.token("alice", "run", mcpURL, life)
		res := c.open(token, session, "")
		if res.StatusCode == 200 {
			impatient := time.AfterFunc(life+patience, func() { res.Body.Close() })
			_, _ = io.ReadAll(res.Body) // which ends with the token: nothing else would end it
			if left := time.Until(expires); left > 10*time.Millisecond || !impatient.Stop() {
				t.Errorf("a stream of the session ended %v before the token", left)
			}
		}
		res.Body.Close()
		if res.StatusCode == 200 || life > time.Minute {
			c.want("an expired token", c.send(token, session, pingServer), 401, `error="invalid_token"`, "expired")
			break
		}
	}
}

// TestTokensOfIssuersAtTheGateway: each of its paths is a resource of its own.
func TestTokensOfIssuersAtTheGateway(t *testing.T) {
	const public = "http://gateway.example.org"
	i, dir := newIssuer(t), testserver.TempDir(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d, err := startProgram(&daemonSpec{
		path: program, dir: dir, log: filepath.Join(dir, "log"), env: append(os.Environ(), "HOME="+dir), args: []string{
			"reprise", "gateway", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--store", "memory:",
			"--oidc-issuer", i.url, "--oidc-audience", "all", "--public-url", public, "--path", "/tools", "--", "cat",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.kill() }()
	c := mcpCaller{T: t, url: "http://" + d.addr + "/tools"}
	metadata := `resource_metadata="` + public + oidc.MetadataPath + `/tools", scope="run"`
	c.want("no token", c.send("", "", pingServer), 401, "Bearer "+metadata, "unauthenticated")
	for audience, status := range map[string]int{
		public + "/tools": 400, public: 400, "all": 400, public + "/else": 401, public + "/mcp": 401, "": 401,
	} { // 400: it is let in, and has no session
		got := c.send(i.token("alice", "run", audience, time.Hour), "", pingServer)
		if got.status != status {
			t.Errorf("the audience %q: %d %s, want %d", audience, got.status, got.body, status)
		}
	}
	c.want("too few scopes", c.send(i.token("alice", "publish", "all", time.Hour), "", pingServer), 403,
		`error="insufficient_scope"`, "forbidden")
	for path, resource := range map[string]string{"/tools": public + "/tools", "": public, "/else": ""} {
		at := mcpCaller{T: t, url: "http://" + d.addr + oidc.MetadataPath + path}
		got := at.send("", "", "")
		at.want("metadata "+path, got, map[bool]int{true: 200, false: 404}[resource != ""], "",
			cmp.Or(resource, "nothing of this name"))
	}
}

// TestFilesOfIssuersThatAreRefused: what could not work is told at the start.
func TestFilesOfIssuersThatAreRefused(t *testing.T) {
	dir := testserver.TempDir(t)
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("issuers: [{issuer: https://a.org, tennant: b}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string]issuerFlags{
		"a file that is not there":    {OIDCConfig: filepath.Join(dir, "none.yaml")},
		"a file with a wrong setting": {OIDCConfig: bad},
	} {
		if _, err := flags.issuers(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
