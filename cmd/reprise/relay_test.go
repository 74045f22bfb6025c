package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"reprise/internal/testserver"

	"golang.org/x/sys/unix"
)

// streaming is a backend whose answer lasts until it may go on. It counts its calls.
type streaming struct {
	*httptest.Server
	calls, seen atomic.Int64
	goOn        chan bool
}

func startStreaming(t *testing.T) *streaming {
	t.Helper()
	b := &streaming{goOn: make(chan bool)}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.calls.Add(1)
		if r.Header.Get("Authorization") != "" {
			b.seen.Add(1)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: 1 %s\n\n", r.URL.RequestURI())
		_ = http.NewResponseController(w).Flush()
		select {
		case <-b.goOn:
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, "data: 2\n\n")
	}))
	t.Cleanup(b.Close)
	return b
}

// finish lets the one call that is under way go on to its end. It fails if none is, and shows the server's log.
func (b *streaming) finish(t *testing.T, log string) {
	t.Helper()
	select {
	case b.goOn <- true:
	case <-time.After(patience):
		text, _ := os.ReadFile(log)
		t.Fatalf("of %d calls, none is under way:\n%s", b.calls.Load(), text)
	}
}

// request sends a POST under a key.
func (b *streaming) request(t *testing.T, address, path, token string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+path, strings.NewReader("q"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// firstOf reads an answer up to its first event.
func firstOf(t *testing.T, res *http.Response) (event string, rest io.Reader) {
	t.Helper()
	in := bufio.NewReader(res.Body)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(res.Status, err)
		}
		if line == "\n" && event != "" {
			return event, in
		}
		event += line
	}
}

// TestRelay records answers over the embedded log. What it had not finished when it was killed is never whole, and what
// it finishes before it stops is.
func TestRelay(t *testing.T) {
	backend := startStreaming(t)
	dir, address := testserver.TempDir(t), freeAddress(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	serve := func() *daemon {
		d, err := startProgram(&daemonSpec{
			path: program, dir: dir, log: filepath.Join(dir, "stderr"), env: os.Environ(),
			args: []string{
				"reprise", "relay", backend.URL + "/below", "--listen", address, "--data", dir + "/data",
				"--store", "log:", "--drain", "1m",
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := serve()
	rebound, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	rebound.Host = "page.example" // whose name leads here now
	if res, err := http.DefaultClient.Do(rebound); err != nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("by another name: %v, %v", res, err)
	} else {
		_ = res.Body.Close()
	}
	res := backend.request(t, address, "/x//..?y", "")
	if event, _ := firstOf(t, res); !strings.HasPrefix(event, "data: 1 /below/x//..?y\nid: ") {
		t.Errorf("the first event: %q", event)
	}
	if err := d.kill(); err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close() // it is cut
	d = serve()
	res = backend.request(t, address, "/x//..?y", "")
	_, rest := firstOf(t, res)
	if text, err := io.ReadAll(rest); err == nil {
		t.Errorf("an answer that was lost is whole: %q", text)
	}
	_ = res.Body.Close()
	other := backend.request(t, address, "/other", "token of the backend") // of another sender, so under another key
	_, rest = firstOf(t, other)
	if backend.calls.Load() != 2 || backend.seen.Load() != 1 {
		t.Errorf("%d calls, %d with the credential", backend.calls.Load(), backend.seen.Load())
	}
	if err := d.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	backend.finish(t, filepath.Join(dir, "stderr"))
	text, err := io.ReadAll(rest)
	if err != nil || !strings.HasPrefix(string(text), "data: 2\nid: ") {
		t.Errorf("while the relay stops: %q, %v", text, err)
	}
	_ = other.Body.Close()
	<-d.done
}

// TestServeRelays below a path, for senders that may run, whose credential is not passed on.
func TestServeRelays(t *testing.T) {
	backend := startStreaming(t)
	dir := testserver.TempDir(t)
	d, err := startDaemon(os.Environ(), dir, filepath.Join(dir, "stderr"), "--data", dir, "--listen", "127.0.0.1:0",
		"--relay", "/chat="+backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.signal(unix.SIGTERM) }) // with its spare supervisors, which have files in dir
	text, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(text))
	if res := backend.request(t, d.addr, "/chat/x", ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a credential: %s", res.Status)
	}
	res := backend.request(t, d.addr, "/chat/x?y", token)
	event, rest := firstOf(t, res)
	location := res.Header.Get("Location")
	if !strings.HasPrefix(event, "data: 1 /x?y\nid: ") || !strings.HasPrefix(location, "/chat/_relay/") ||
		res.Header.Get("Content-Security-Policy") != "" {
		t.Errorf("%q %v", event, res.Header)
	}
	backend.finish(t, filepath.Join(dir, "stderr"))
	if text, err := io.ReadAll(rest); err != nil || !strings.HasPrefix(string(text), "data: 2\nid: ") {
		t.Errorf("the rest: %q, %v", text, err)
	}
	again := backend.request(t, d.addr, "/chat/x?y", token)
	if text, err := io.ReadAll(again.Body); err != nil || strings.Count(string(text), "\nid: ") != 2 {
		t.Errorf("again: %q, %v", text, err)
	}
	if backend.calls.Load() != 1 || backend.seen.Load() != 0 {
		t.Errorf("%d calls, %d with our credential", backend.calls.Load(), backend.seen.Load())
	}
}

// TestRelaySettings that make no sense are refused.
func TestRelaySettings(t *testing.T) {
	for _, args := range [][]string{
		{"relay", "backend"},
		{"relay", "ftp://x"},
		{"relay", "http://x", "--key", "cookie:a"},
		{"relay", "http://x", "--latest", "json:/id"},
		{"serve", "--relay", "/v1/x=http://x"},
		{"serve", "--relay", "/x"},
		{"serve", "--face", "other"},
		{"serve", "--face", "execd=/v1/x"},
		{"serve", "--face", "execd", "--face", "execd=/x"},
	} {
		dir := testserver.TempDir(t)
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		d, err := startProgram(&daemonSpec{
			path: program, dir: dir, log: filepath.Join(dir, "stderr"), env: os.Environ(),
			args: append(append([]string{"reprise"}, args...), "--listen", "127.0.0.1:0", "--data", dir),
		})
		if err == nil {
			_ = d.kill()
			t.Errorf("%v: it listens", args)
		}
		text, err := os.ReadFile(filepath.Join(dir, "stderr"))
		if err != nil || !bytes.Contains(append([]byte("\n"), text...), []byte("\nreprise: ")) {
			t.Errorf("%v: %s, %v", args, text, err)
		}
	}
}
