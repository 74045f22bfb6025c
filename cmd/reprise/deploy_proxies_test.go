package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"reprise/internal/park"
	"reprise/internal/testserver"
)

// writeKeyPair writes the certificate of a test server and its key where proxies find them.
func writeKeyPair(t *testing.T, server *httptest.Server, dir string) {
	t.Helper()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"fullchain.pem": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		"privkey.pem":   {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// startNginx starts nginx with examples/deploy/nginx.conf in front of a server, and returns its address.
func startNginx(t *testing.T, path, dir, upstream string) string {
	t.Helper()
	addr := freeAddress(t)
	conf := strings.NewReplacer(
		"listen 443 ", "listen "+addr+" ", "server 127.0.0.1:7070;", "server "+upstream+";", "/etc/ssl/reprise", dir,
	).Replace(deployed(t, "nginx.conf"))
	temp := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("  %s_temp_path %s/%s;\n", kind, dir, kind)
	}
	conf = fmt.Sprintf("daemon off;\nmaster_process off;\npid %s/pid;\nerror_log stderr;\nevents {}\nhttp {\n"+
		"  access_log off;\n%s%s}\n", dir, temp, conf)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	startProxy(t, addr, exec.Command(path, "-p", dir, "-e", "stderr", "-c", file))
	return addr
}

// startCaddy starts Caddy with examples/deploy/Caddyfile in front of a server, and returns its address.
func startCaddy(t *testing.T, path, dir, upstream string) string {
	t.Helper()
	addr := freeAddress(t)
	_, port, _ := net.SplitHostPort(addr)
	site := "https://reprise.example.org:" + port + " {\n\tbind 127.0.0.1\n\ttls " +
		dir + "/fullchain.pem " + dir + "/privkey.pem"
	conf := strings.NewReplacer("reprise.example.org {", site, "127.0.0.1:7070 {", upstream+" {").
		Replace(deployed(t, "Caddyfile"))
	// Without its own address for administration, and with its files below dir.
	conf = "{\n\tadmin off\n\tauto_https disable_redirects\n\tstorage file_system " + dir + "/caddy\n}\n" + conf
	file := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "run", "--config", file, "--adapter", "caddyfile")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	startProxy(t, addr, cmd)
	return addr
}

// startProxy starts a program that ends with the test, and waits until it listens.
func startProxy(t *testing.T, addr string, cmd *exec.Cmd) {
	t.Helper()
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Log(said.String())
		}
	})
	listens := eventually(func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	if !listens {
		t.Fatalf("%s does not listen", cmd.Path)
	}
}

// TestEventsThroughProxies: with nginx.conf and Caddyfile of examples/deploy and TLS each event comes when it happens,
// and stdin goes the other way, whether readers that wait are parked or not.
func TestEventsThroughProxies(t *testing.T) {
	for name, start := range map[string]func(t *testing.T, path, dir, upstream string) (addr string){
		"nginx": startNginx, "caddy": startCaddy,
	} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(name)
			if err != nil {
				if os.Getenv("CI") != "" {
					t.Fatalf("%s is not installed: apt-get install nginx-light caddy", name)
				}
				t.Skipf("%s is not installed", name)
			}
			for mode, flags := range map[string][]string{"default": nil, "unparked": {"--no-park"}} {
				t.Run(mode, func(t *testing.T) {
					start := func(dir, upstream string) string { return start(t, path, dir, upstream) }
					eventsThroughProxy(t, start, flags)
				})
			}
		})
	}
}

func eventsThroughProxy(t *testing.T, start func(dir, upstream string) (addr string), flags []string) {
	dir := testserver.TempDir(t)
	d, err := startDaemon(os.Environ(), dir, filepath.Join(dir, "log"), append([]string{
		"--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--allow-host", "reprise.example.org",
		"--trusted-proxies", "127.0.0.1",
	}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.kill() })
	token, err := os.ReadFile(filepath.Join(dir, "data", "token"))
	if err != nil {
		t.Fatal(err)
	}
	pair := httptest.NewTLSServer(nil)
	t.Cleanup(pair.Close)
	writeKeyPair(t, pair, dir)
	client := pair.Client()
	client.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com" // as the certificate has it
	addr := start(dir, d.addr)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ask := func(method, path, contentType, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, method, "https://"+addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "reprise.example.org"
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("Accept", "text/event-stream, application/json")
		req.Header.Set("Forwarded", "for=198.51.100.1;proto=http") // which the proxy takes away
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode >= 300 {
			text, _ := io.ReadAll(res.Body)
			t.Fatalf("%s %s: status %d: %s", method, path, res.StatusCode, text)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	events := bufio.NewScanner(ask(http.MethodPost, "/v1/executions", "application/json",
		`{"id":"x","command":"echo ready; read line; echo got $line; cat","stdin_open":true}`).Body)
	until := func(text string) {
		t.Helper()
		for events.Scan() {
			if strings.Contains(events.Text(), text) {
				return
			}
		}
		t.Fatalf("%s did not come: %v", text, events.Err())
	}
	until(`"text":"ready\n"`) // while the command waits
	if len(flags) == 0 && park.Supported {
		awaitParked(t, d.addr, strings.TrimSpace(string(token)), 1)
	}
	ask(http.MethodPost, "/v1/executions/x/stdin?eof=true", "application/octet-stream", "hello\n")
	until(`"text":"got hello\n"`)
	until(`"outcome":"exited","exit_code":0`)
	login := ask(http.MethodPost, "/v1/login", "application/json", "")
	if cookie := login.Header.Get("Set-Cookie"); !strings.HasPrefix(cookie, "__Host-") ||
		!strings.Contains(cookie, "; Secure") {
		t.Errorf("behind TLS the cookie is %q", cookie)
	}
}

// awaitParked waits until n responses of a server are parked.
func awaitParked(t *testing.T, addr, token string, n int) {
	t.Helper()
	line := fmt.Sprintf("\nreprise_readers_parked %d\n", n)
	if !eventually(func() bool {
		return strings.Contains(string(fetch(t, http.MethodGet, "http://"+addr+"/metrics", token, "", nil)), line)
	}) {
		t.Fatalf("the server does not park %d responses", n)
	}
}
