package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reprise/client"
	"reprise/internal/testserver"
)

// hookReceiver is a receiver of webhooks that makes each message once, by its id.
type hookReceiver struct {
	*httptest.Server
	mu    sync.Mutex
	down  bool
	tries int
	ended map[string]string // the ids of executions by the ids of messages
}

func newHookReceiver(t *testing.T) *hookReceiver {
	r := &hookReceiver{ended: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		text, err := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tries++
		var sent struct{ Data struct{ ID string } }
		if r.down || err != nil || json.Unmarshal(text, &sent) != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.ended[q.Header.Get("webhook-id")] = sent.Data.ID
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *hookReceiver) set(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// await waits until something is so.
func (r *hookReceiver) await(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * patience); ; <-tick.C {
		r.mu.Lock()
		ok := is()
		r.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			r.mu.Lock()
			defer r.mu.Unlock()
			t.Fatalf("%s: not so after %d tries, with %v", what, r.tries, r.ended)
		}
	}
}

// awaitOnce waits until the ends of executions have come, each under one id.
func (r *hookReceiver) awaitOnce(t *testing.T, ids []string) {
	t.Helper()
	r.await(t, fmt.Sprintf("%d ends have come", len(ids)), func() bool { return len(r.ended) >= len(ids) })
	r.mu.Lock()
	defer r.mu.Unlock()
	times := map[string]int{}
	for _, id := range r.ended {
		times[id]++
	}
	for _, id := range ids {
		if times[id] != 1 {
			t.Errorf("the end of %s has come under %d ids", id, times[id])
		}
	}
	if len(r.ended) != len(ids) {
		t.Errorf("%d ends for %d executions", len(r.ended), len(ids))
	}
}

// hookFixture starts servers with webhooks to this machine, and asks them.
type hookFixture struct {
	*testing.T
	dir   string
	flags []string
}

func (f *hookFixture) start(name, listen string) *daemon {
	f.Helper()
	args := append([]string{
		"--listen", listen, "--data", f.dir + "/" + name, "--webhook-allow", "127.0.0.0/8", "--log-level", "warn",
	}, f.flags...)
	d, err := startDaemon(os.Environ(), f.dir, f.dir+"/"+name+".log", args...)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = d.kill() })
	return d
}

func (f *hookFixture) client(d *daemon, secrets string) *client.Client {
	f.Helper()
	token, err := os.ReadFile(f.dir + "/" + secrets + "/token")
	if err != nil {
		f.Fatal(err)
	}
	c, err := client.New(&client.Options{
		URL: "http://" + d.addr, Token: strings.TrimSpace(string(token)), GiveUp: patience,
		MinWait: 10 * time.Millisecond, MaxWait: 50 * time.Millisecond,
	})
	if err != nil {
		f.Fatal(err)
	}
	return c
}

func (f *hookFixture) run(c *client.Client) string {
	f.Helper()
	x, err := c.Start(f.Context(), client.StartRequest{Argv: []string{"true"}})
	if err != nil {
		f.Fatal(err)
	}
	return x.ID
}

// What ends while the receiver is away comes when it is back, also after the server was killed meanwhile.
func TestWebhooksGoOnAfterAKill(t *testing.T) {
	t.Parallel()
	f := &hookFixture{T: t, dir: testserver.TempDir(t)}
	server := f.start("data", "127.0.0.1:0")
	r := newHookReceiver(t)
	c := f.client(server, "data")
	if _, err := c.Webhooks().Create(t.Context(), client.WebhookRequest{URL: r.URL}); err != nil {
		t.Fatal(err)
	}
	ids := []string{f.run(c)}
	r.await(t, "the first end has come", func() bool { return len(r.ended) == 1 })
	r.set(true)
	for range 5 {
		ids = append(ids, f.run(c))
	}
	r.await(t, "the receiver has refused", func() bool { return r.tries > 1 })
	if err := server.kill(); err != nil {
		t.Fatal(err)
	}
	server = f.start("data", server.addr)
	r.set(false)
	ids = append(ids, f.run(f.client(server, "data")))
	r.awaitOnce(t, ids)
}

// One replica of two sends; when it leaves the other goes on.
func TestWebhooksOfReplicas(t *testing.T) {
	t.Parallel()
	f := &hookFixture{T: t, dir: testserver.TempDir(t)}
	store := testserver.Redis(t, &testserver.RedisOptions{})
	if err := makeSecrets(f.dir + "/secrets"); err != nil {
		t.Fatal(err)
	}
	f.flags = []string{"--store", "redis://" + store.Addr(), "--secrets", f.dir + "/secrets"}
	one, two := f.start("one", "127.0.0.1:0"), f.start("two", "127.0.0.1:0")
	a, b := f.client(one, "secrets"), f.client(two, "secrets")
	r := newHookReceiver(t)
	if _, err := a.Webhooks().Create(t.Context(), client.WebhookRequest{URL: r.URL}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range 5 {
		ids = append(ids, f.run(a), f.run(b))
	}
	r.awaitOnce(t, ids)
	if err := one.signal(unix.SIGTERM); err != nil { // it made the webhook, so most likely it sends
		t.Fatal(err)
	}
	for range 5 {
		ids = append(ids, f.run(b))
	}
	r.awaitOnce(t, ids)
}
