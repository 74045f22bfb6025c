package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise/internal/testserver"
)

// authority signs the certificates of clients.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, file string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(signed)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

// issue signs a certificate for a client.
func (a *authority) issue(t *testing.T, name, uri string, ends time.Time) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: ends, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if uri != "" {
		parsed, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = []*url.URL{parsed}
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}
}

// certified is a client of a server that shows a certificate, nil for none.
type certified struct {
	*testing.T
	base   string
	client *http.Client
}

func clientWith(t *testing.T, addr, trusted string, shown *tls.Certificate) *certified {
	t.Helper()
	text, err := os.ReadFile(trusted)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(text)
	if shown != nil { // whoever the server says that it trusts
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &certified{t, "https://" + addr, &http.Client{Transport: transport, Timeout: patience}}
}

func (c *certified) send(method, path, token, body string) (*http.Response, error) {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if strings.HasSuffix(path, "/events") {
		req.Header.Set("Accept", "text/event-stream")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return c.client.Do(req)
}

// answer is the status and the body of an answer, 0 where the connection was refused.
func (c *certified) answer(method, path, token, body string) (int, []byte) {
	c.Helper()
	res, err := c.send(method, path, token, body)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil
	}
	return res.StatusCode, text
}

// TestClientCertificates: a certificate stands for the API key that it names, with its scopes and as long as that is
// good; others are nobody's.
func TestClientCertificates(t *testing.T) {
	dir := testserver.TempDir(t)
	cert, key, ca := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	writeCertificate(t, "server", cert, key)
	clients, strangers := newAuthority(t, ca), newAuthority(t, filepath.Join(dir, "other.pem"))
	d, err := startDaemon(append(os.Environ(), "HOME="+dir), dir, filepath.Join(dir, "log"), "--listen", "127.0.0.1:0",
		"--data", dir+"/data", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.kill() }()
	text, err := os.ReadFile(dir + "/data/token")
	if err != nil {
		t.Fatal(err)
	}
	admin, token := clientWith(t, d.addr, cert, nil), strings.TrimSpace(string(text))
	_, made := admin.answer("POST", "/v1/keys", token, `{"name":"agent","scopes":["read"]}`)
	var added struct{ ID, Key string }
	if err := json.Unmarshal(made, &added); err != nil || added.ID == "" {
		t.Fatalf("%s, %v", made, err)
	}
	if status, _ := admin.answer("PUT", "/v1/streams/s", token, "{}"); status != http.StatusCreated {
		t.Fatalf("the stream: %d", status)
	}
	soon := time.Now().Add(time.Hour)
	for _, tt := range []struct {
		what                string
		shown               *tls.Certificate
		method, path, token string
		want                int
	}{
		{"none", nil, "GET", "/v1/streams", "", 401},
		{"by its common name", clients.issue(t, added.ID, "", soon), "GET", "/v1/streams", "", 200},
		{"by its URI", clients.issue(t, "agent", "reprise:key:"+added.ID, soon), "GET", "/v1/streams", "", 200},
		{"what the key may not", clients.issue(t, added.ID, "", soon), "POST", "/v1/executions", "", 403},
		{"an id that does not exist", clients.issue(t, "nobody", "", soon), "GET", "/v1/streams", "", 401},
		{"the name of the token", clients.issue(t, "token", "", soon), "GET", "/v1/streams", "", 401},
		{
			"a URI that does not exist", clients.issue(t, added.ID, "reprise:key:none", soon), "GET", "/v1/streams",
			"", 401,
		},
		{"a token beside it", clients.issue(t, added.ID, "", soon), "GET", "/v1/keys", token, 200},
		{"a wrong token beside it", clients.issue(t, added.ID, "", soon), "GET", "/v1/streams", "x" + token, 401},
		{"another authority", strangers.issue(t, added.ID, "", soon), "GET", "/v1/streams", "", 0},
		{"expired", clients.issue(t, added.ID, "", time.Now().Add(-time.Hour)), "GET", "/v1/streams", "", 0},
	} {
		c := clientWith(t, d.addr, cert, tt.shown)
		if got, text := c.answer(tt.method, tt.path, tt.token, `{"argv":["true"]}`); got != tt.want {
			t.Errorf("%s: status %d, want %d: %s", tt.what, got, tt.want, text)
		}
	}

	agent := clientWith(t, d.addr, cert, clients.issue(t, added.ID, "", soon))
	following, err := agent.send("GET", "/v1/streams/s/events", "", "")
	if err != nil || following.StatusCode != http.StatusOK || following.ProtoMajor != 2 {
		t.Fatalf("%+v, %v", following, err)
	}
	defer following.Body.Close()
	if status, _ := admin.answer("DELETE", "/v1/keys/"+added.ID, token, ""); status != http.StatusNoContent {
		t.Errorf("the revocation: %d", status)
	}
	if _, err := io.ReadAll(following.Body); err != nil { // it would go on without end
		t.Error(err)
	}
	if status, _ := agent.answer("GET", "/v1/streams", "", ""); status != http.StatusUnauthorized {
		t.Errorf("after the revocation: %d", status)
	}
}

// TestClientCertificatesAtTheGateway: a certificate stands for its API key at the gateway too: its session is the
// key's, the upstream gets the key's name, and the revocation ends what is open.
func TestClientCertificatesAtTheGateway(t *testing.T) {
	upstream := serveUserNames()
	defer upstream.Close()
	dir := testserver.TempDir(t)
	cert, key, ca := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	writeCertificate(t, "server", cert, key)
	clients, strangers := newAuthority(t, ca), newAuthority(t, filepath.Join(dir, "other.pem"))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d, err := startProgram(&daemonSpec{
		path: program, dir: dir, log: filepath.Join(dir, "log"), env: append(os.Environ(), "HOME="+dir),
		args: []string{
			"reprise", "gateway", "--listen", "127.0.0.1:0", "--data", dir + "/data", "--store", "memory:",
			"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca, "--header", "X-User={{tenant}}/{{name}}",
			upstream.URL,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.kill() }()
	text, err := os.ReadFile(dir + "/data/token")
	if err != nil {
		t.Fatal(err)
	}
	admin, token := clientWith(t, d.addr, cert, nil), strings.TrimSpace(string(text))
	var ids [2]string
	for i, body := range []string{
		`{"name":"agent","scopes":["run"],"tenant":"acme"}`, `{"name":"publisher","scopes":["publish"]}`,
	} {
		_, made := admin.answer("POST", "/v1/keys", token, body)
		var added struct{ ID string }
		if err := json.Unmarshal(made, &added); err != nil || added.ID == "" {
			t.Fatalf("%s, %v", made, err)
		}
		ids[i] = added.ID
	}
	soon := time.Now().Add(time.Hour)
	shows := func(shown *tls.Certificate) mcpCaller {
		via := clientWith(t, d.addr, cert, shown).client.Transport
		return mcpCaller{T: t, url: "https://" + d.addr + "/mcp", via: via}
	}
	agent := shows(clients.issue(t, ids[0], "", soon))
	session := agent.send("", "", beginSession).session
	agent.want("a call", agent.send("", session, legacyCall), 200, "", "acme/agent."+ids[0])
	none := shows(nil)
	none.want("no certificate", none.send("", "", beginSession), 401, "Bearer", "")
	other := shows(clients.issue(t, ids[1], "", soon))
	other.want("a key without a scope for tools", other.send("", "", beginSession), 403, "", "scopes")
	other.want("a session of another", other.send(token, session, pingServer), 404, "", "")
	unknown := shows(clients.issue(t, "nobody", "", soon))
	unknown.want("a certificate that names no key", unknown.send("", "", beginSession), 401, "Bearer", "")
	stranger := clientWith(t, d.addr, cert, strangers.issue(t, ids[0], "", soon))
	if status, text := stranger.answer("POST", "/mcp", "", beginSession); status != 0 {
		t.Errorf("another authority: %d: %s", status, text)
	}

	listening := agent.open("", session, "")
	if listening.StatusCode != http.StatusOK {
		t.Fatalf("the stream of the session: %d", listening.StatusCode)
	}
	defer listening.Body.Close()
	if status, _ := admin.answer("DELETE", "/v1/keys/"+ids[0], token, ""); status != http.StatusNoContent {
		t.Errorf("the revocation: %d", status)
	}
	_, _ = io.ReadAll(listening.Body) // it would go on without end
	agent.want("after the revocation", agent.send("", session, legacyCall), 401, "Bearer", "")
}
