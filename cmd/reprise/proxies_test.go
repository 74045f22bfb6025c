package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"reprise/internal/testserver"

	"github.com/alecthomas/kong"
)

// proxied sends a request as a proxy of a client does, and returns the status and the head of the answer.
func proxied(t *testing.T, method, url, client, proto string, header ...string) (int, http.Header) {
	t.Helper()
	res, _ := proxiedText(t, method, url, client, proto, header...)
	return res.StatusCode, res.Header
}

// proxiedText is proxied with the body of the response.
func proxiedText(t *testing.T, method, url, client, proto string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", client)
	req.Header.Set("X-Forwarded-Proto", proto)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res, text
}

// TestServeBehindTrustedProxies: guesses are counted, and acts are recorded, by the address of the client, and the
// cookie is one for TLS where the client uses that. Off loopback the proxies stand for --insecure.
func TestServeBehindTrustedProxies(t *testing.T) {
	dir := testserver.TempDir(t)
	env := append(os.Environ(), "HOME="+dir)
	d, err := startDaemon(env, dir, dir+"/log",
		"--listen", "0.0.0.0:0", "--data", dir+"/data", "--audit", "--trusted-proxies", "127.0.0.1,10.0.0.0/8",
		"--trusted-proxies", "::1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.kill() }()
	text, err := os.ReadFile(dir + "/data/token")
	if err != nil {
		t.Fatal(err)
	}
	url, right := "http://"+d.addr, "Authorization: Bearer "+strings.TrimSpace(string(text))
	const wrong = "Authorization: Bearer guess-guess-guess-guess"
	limited := false
	for range 100 { // 20 at once are let through, and one a second
		status, _ := proxied(t, "GET", url+"/v1/streams", "198.51.100.9, 203.0.113.1, 10.0.0.7", "http", wrong)
		if limited = status == http.StatusTooManyRequests; limited {
			break
		}
	}
	if !limited {
		t.Error("one client may guess without end")
	}
	if status, _ := proxied(
		t, "GET", url+"/v1/streams", "198.51.100.9, 203.0.113.2", "http", wrong,
	); status != http.StatusUnauthorized {
		t.Errorf("the first wrong credential of another client: %d", status)
	}
	if status, _ := proxied(t, "GET", url+"/v1/streams", "203.0.113.1", "http", right); status != http.StatusOK {
		t.Errorf("a right credential of the first: %d", status)
	}
	_, plain := proxied(t, "POST", url+"/v1/login", "203.0.113.3", "http", right)
	secure, text := proxiedText(t, "POST", url+"/v1/login", "203.0.113.4", "https", right)
	var login struct{ Secret string }
	if err := json.Unmarshal(text, &login); err != nil {
		t.Fatal(err)
	}
	if cookie := plain.Get("Set-Cookie"); strings.Contains(cookie, "Secure") ||
		!strings.HasPrefix(cookie, "reprise_login=") {
		t.Errorf("without TLS the cookie is %q", cookie)
	}
	cookie, _, _ := strings.Cut(secure.Header.Get("Set-Cookie"), ";")
	if !strings.HasPrefix(cookie, "__Host-reprise_login=") ||
		!strings.Contains(secure.Header.Get("Set-Cookie"), "; Secure") {
		t.Errorf("behind TLS the cookie is %q", secure.Header.Get("Set-Cookie"))
	}
	if status, _ := proxied(
		t, "GET", url+"/v1/streams", "203.0.113.4", "https", "Cookie: "+cookie, "Login-Secret: "+login.Secret,
	); status != http.StatusOK {
		t.Errorf("with the cookie: %d", status)
	}
	if !eventually(func() bool {
		return audited(t, env, url, dir, `"remote":"203.0.113.4"`, `"remote":"203.0.113.3"`)
	}) {
		t.Error("the audit log has other addresses")
	}
}

// audited reports whether the audit log has all of the texts.
func audited(t *testing.T, env []string, url, dir string, texts ...string) bool {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Args = []string{"reprise", "audit", "--json", "--url", url, "--token-file", dir + "/data/token"}
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range texts {
		if !bytes.Contains(out, []byte(want)) {
			return false
		}
	}
	return true
}

// TestImageMayListen: with the settings of the image a server starts, and without REPRISE_INSECURE it does not.
func TestImageMayListen(t *testing.T) {
	settings := regexp.MustCompile(`(?m)^ENV (.*)$`).FindStringSubmatch(deployed(t, "Dockerfile"))
	if settings == nil {
		t.Fatal("the image has no settings")
	}
	dir := testserver.TempDir(t)
	env := append(os.Environ(), strings.Fields(settings[1])...)
	start := func(env []string) error {
		d, err := startDaemon(append(env, "HOME="+dir, "REPRISE_LISTEN=0.0.0.0:0",
			"REPRISE_DATA="+dir+"/data"), dir, dir+"/log")
		if err == nil {
			err = d.kill()
		}
		return err
	}
	if err := start(env); err != nil {
		t.Error(err)
	}
	if start(append(env, "REPRISE_INSECURE=false")) == nil {
		t.Error("a server speaks plain HTTP to everybody, and was not asked to")
	}
}

// TestDocumentedListenersAreNotRefused: each command line in the documents that listens says what it needs for that.
func TestDocumentedListenersAreNotRefused(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^ *reprise (?:serve|gateway) .*--listen .*$`)
	found := 0
	for _, name := range append(documents, "../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines.FindAllString(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			line, _, _ = strings.Cut(line, " #")
			commands := new(cli)
			parser := kong.Must(commands, kong.Vars{"state": "x", "gatewayState": "x", "parking": "true"})
			if _, err := parser.Parse(strings.Fields(strings.TrimSuffix(line, "&"))[1:]); err != nil {
				t.Errorf("%s: %s: %v", name, line, err)
				continue
			}
			found++
			serve, gateway := &commands.Serve, &commands.Gateway
			if strings.Contains(line, "reprise serve") {
				err = serve.proxyFlags.check(serve.Listen, &serve.tlsFlags)
			} else {
				err = gateway.proxyFlags.check(gateway.Listen, &gateway.tlsFlags)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", name, line, err)
			}
		}
	}
	if found < 2 {
		t.Errorf("%d lines were found", found)
	}
}
