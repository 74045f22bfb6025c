package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reprise/client"
	"reprise/internal/testserver"
)

// unfinished is the number of requests that are begun and never finished.
const unfinished = 3000

// limitedFiles are the files that the server may have open.
const limitedFiles = 1024

// startWithFewFiles starts a server whose limit on open files is limitedFiles.
func startWithFewFiles(t *testing.T, verb string, args ...string) (d *daemon, token string) {
	t.Helper()
	dir := testserver.TempDir(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "reprise") // by its name the program of the tests knows what it is
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	d, err = startProgram(&daemonSpec{
		path: "/bin/sh", dir: dir, log: filepath.Join(dir, "log"), env: os.Environ(),
		args: append([]string{
			"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, limitedFiles),
			link, verb, "--listen", "127.0.0.1:0", "--data", dir + "/data", "--log-level", "warn",
		}, args...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.kill()
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("%s", text)
		}
	})
	text, err := os.ReadFile(dir + "/data/token")
	if err != nil {
		t.Fatal(err)
	}
	return d, strings.TrimSpace(string(text))
}

// moreFiles lets the test itself have as many connections as it needs.
func moreFiles(t *testing.T) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < unfinished+500 {
		if os.Getenv("CI") != "" {
			t.Fatalf("%d files may be open (%v), the test needs %d", limit.Cur, err, unfinished+500)
		}
		t.Skipf("%d files may be open (%v), the test needs %d", limit.Cur, err, unfinished+500)
	}
}

// flood begins requests without a token and leaves them unfinished.
func flood(t *testing.T, address string) {
	t.Helper()
	for i := range unfinished {
		conn, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, []string{
			"POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
			"POST /v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
			"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
			"GET /healthz HTTP/1.1\r\nHost: loc",
		}[i%4]) // the server may have closed it
	}
}

// answerWithin is longer than a busy machine needs. A server that answers nobody before it has given up unfinished
// requests, which it does after 30 s, takes longer.
const answerWithin = 25 * time.Second

// asker sends requests, each over a connection of its own.
type asker struct {
	*testing.T
	took []time.Duration // until the whole answer was there
}

// ask sends a request and returns the status and the body, within answerWithin.
func (t *asker) ask(method, url, token, body string) (status int, text string) {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if strings.HasSuffix(url, "/mcp") {
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	took := time.Since(begin)
	if err != nil {
		t.Errorf("%s %s: answered after %v, %v", method, url, took, err)
	}
	t.took = append(t.took, took)
	return res.StatusCode, string(answer)
}

// wantQuick fails the test if most answers took a second or more. One of them may have waited for a busy machine.
func (t *asker) wantQuick() {
	t.Helper()
	slices.Sort(t.took)
	middle, longest := t.took[len(t.took)/2], t.took[len(t.took)-1]
	t.Logf("%d answers, half of them within %v, all within %v", len(t.took), middle, longest)
	if middle >= time.Second {
		t.Errorf("half of the answers took %v and more", middle)
	}
}

// TestUnfinishedRequestsDoNotShutOutOthers: thousands of requests that are never finished, from somebody without a
// token, keep nobody from a server with few files. A reader and a command that were there before go on.
func TestUnfinishedRequestsDoNotShutOutOthers(t *testing.T) {
	moreFiles(t)
	d, token := startWithFewFiles(t, "serve")
	url := "http://" + d.addr
	a := &asker{T: t}
	a.ask("POST", url+"/v1/executions", token, `{"id":"before","argv":["cat"],"stdin_open":true}`)
	follower := follow(t, url+"/v1/executions/before/stdout?follow=true", token)
	for range 2 {
		flood(t, d.addr)
		for range 3 {
			if status, body := a.ask("GET", url+"/healthz", "", ""); status != 200 {
				t.Errorf("/healthz: status %d: %s", status, body)
			}
			status, body := a.ask("POST", url+"/v1/executions", token, `{"argv":["echo","hello"]}`)
			if status != 201 {
				t.Errorf("start: status %d: %s", status, body)
			}
			if status, body = a.ask("POST", url+"/v1/executions/before/stdin", token, "line\n"); status != 200 {
				t.Errorf("stdin: status %d: %s", status, body)
			}
			if line, err := follower.ReadString('\n'); line != "line\n" {
				t.Errorf("the reader from before gets %q, %v", line, err)
			}
		}
	}
	a.wantQuick()
}

// follow begins to read a response that goes on.
func follow(t *testing.T, url, token string) *bufio.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{}
	res, err := transport.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("follow: %v, %v", res, err)
	}
	t.Cleanup(func() {
		res.Body.Close()
		transport.CloseIdleConnections()
	})
	return bufio.NewReader(res.Body)
}

func TestUnfinishedRequestsDoNotShutOutOthersOfGateway(t *testing.T) {
	moreFiles(t)
	d, token := startWithFewFiles(t, "gateway", "http://127.0.0.1:1/mcp")
	url := "http://" + d.addr
	a := &asker{T: t}
	flood(t, d.addr)
	for range 3 {
		if status, body := a.ask("GET", url+"/healthz", "", ""); status != 204 {
			t.Errorf("/healthz: status %d: %s", status, body)
		}
		if status, body := a.ask("GET", url+"/metrics", token, ""); status != 200 {
			t.Errorf("/metrics: status %d: %s", status, body)
		}
		if status, body := a.ask("POST", url+"/mcp", token,
			`{"jsonrpc":"2.0","id":1,"method":"ping"}`); status != 400 {
			t.Errorf("/mcp: status %d: %s", status, body)
		}
	}
	a.wantQuick()
}

// A connection is closed soon after its request was refused, although a body was announced that never comes.
func TestRefusalClosesConnectionWithAbsentBody(t *testing.T) {
	d, token := startWithFewFiles(t, "gateway", "http://127.0.0.1:1/mcp")
	for name, request := range map[string]string{
		"no token":     "POST /mcp HTTP/1.1\r\nContent-Length: 1000\r\n",
		"no such path": "POST /none HTTP/1.1\r\nContent-Length: 1000\r\n",
		"no metrics":   "GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n",
		"wrong type":   "POST /mcp HTTP/1.1\r\nContent-Length: 1000\r\nAuthorization: Bearer " + token + "\r\n",
		"no body":      "GET /healthz HTTP/1.1\r\nContent-Length: 1000\r\n",
	} {
		conn, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(conn, "%sHost: localhost\r\n\r\n", request)
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlaceOfRemoteCommand: a command on another machine is shown where it runs; a directory cannot forge a line.
func TestPlaceOfRemoteCommand(t *testing.T) {
	for want, in := range map[string][2]string{
		"in /srv/jobs on build1:7070":                       {"/srv/jobs", "https://build1:7070"},
		"in the directory of the server on build1.internal": {"", "https://build1.internal"},
		"in /srv/a\ufffdb on build1":                        {"/srv/a\nb", "http://build1"},
	} {
		if got := placeOf(&client.Started{Cwd: in[0]}, in[1]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
