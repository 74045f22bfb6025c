package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/webhook"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = reprise.DefaultTenant

// patience is how long a test waits for what has to come.
const patience = 60 * time.Second

// delivery is a request as the receiver got it.
type delivery struct {
	header http.Header
	body   []byte
	Type   string
	Data   map[string]any
}

// receiver is a real server that keeps what comes.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []delivery
	came   chan struct{}
	answer func(n int, d *delivery) int // n counts from 1
	header http.Header
}

func newReceiver(t *testing.T, answer func(n int, d *delivery) int) *receiver {
	r := &receiver{came: make(chan struct{}), answer: answer, header: http.Header{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		text, _ := io.ReadAll(q.Body)
		d := delivery{header: q.Header, body: text}
		_ = json.Unmarshal(text, &d)
		r.mu.Lock()
		defer r.mu.Unlock()
		status := http.StatusNoContent
		if r.answer != nil {
			status = r.answer(len(r.got)+1, &d)
		}
		r.got = append(r.got, d)
		close(r.came)
		r.came = make(chan struct{})
		maps.Copy(w.Header(), r.header)
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// await returns the first n requests.
func (r *receiver) await(t *testing.T, n int) []delivery {
	t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		got, came := r.got, r.came
		r.mu.Unlock()
		if len(got) >= n {
			return got[:n]
		}
		select {
		case <-came:
		case <-deadline:
			t.Fatalf("%d of %d requests came", len(got), n)
		}
	}
}

// fixture is a Log with webhooks, and a principal that can be revoked.
type fixture struct {
	t     *testing.T
	log   *reprise.Log
	hooks *webhook.Hooks
	opts  webhook.Options

	mu      sync.Mutex
	revoked bool
	events  []string
}

func newFixture(t *testing.T, opts webhook.Options) *fixture {
	return newFixtureOn(t, memstore.New(nil), opts)
}

// newFixtureOn is newFixture on a store, which it closes.
func newFixtureOn(t *testing.T, store reprise.Store, opts webhook.Options) *fixture {
	log, err := reprise.Open(t.Context(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, log: log, opts: opts}
	t.Cleanup(func() { _ = log.Close(); _ = store.Close() })
	f.open()
	return f
}

func (f *fixture) open() {
	f.t.Helper()
	opts := f.opts
	opts.Principal = func(context.Context, reprise.Tenant, string) (identity.Principal, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.revoked {
			return identity.Principal{}, identity.ErrRevoked
		}
		return identity.Principal{Name: "ci", Tenant: tenant, Grants: identity.AllGrants()}, nil
	}
	opts.Events.Disabled = func(_ *webhook.Hook, reason string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.events = append(f.events, reason)
	}
	if opts.Allow == nil {
		opts.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	opts.LookEvery, opts.FirstPause, opts.MostPause = 10*time.Millisecond, time.Millisecond, 5*time.Millisecond
	var err error
	if f.hooks, err = webhook.Open(f.t.Context(), f.log, &opts); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(f.hooks.Close)
}

// send sends until stop is called.
func (f *fixture) send(fence uint64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	hooks := f.hooks
	go func() {
		defer close(done)
		_ = hooks.Send(ctx, fence)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	f.t.Cleanup(stop)
	return stop
}

func (f *fixture) add(q webhook.Request) webhook.Hook {
	f.t.Helper()
	q.Tenant, q.Principal = tenant, "ci"
	hook, err := f.hooks.Add(f.t.Context(), q)
	if err != nil {
		f.t.Fatal(err)
	}
	return hook
}

func (f *fixture) stream(name string) *reprise.Stream {
	f.t.Helper()
	st, _, err := f.log.Create(f.t.Context(), reprise.StreamKey{Tenant: tenant, Name: name}, reprise.StreamConfig{})
	if err != nil {
		f.t.Fatal(err)
	}
	return st
}

func (f *fixture) publish(st *reprise.Stream, from, to int, kind string) {
	f.t.Helper()
	for i := from; i <= to; i++ {
		if _, err := st.Append(f.t.Context(), reprise.Event{Type: kind, Data: []byte(strconv.Itoa(i))}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// eventually waits until something is so.
func (f *fixture) eventually(what string, is func() bool) {
	f.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(deadline) {
			f.t.Fatalf("it is never so that %s", what)
		}
	}
}

// awaitHook waits until a hook is as it should be.
func (f *fixture) awaitHook(id, what string, is func(*webhook.Hook, webhook.Progress) bool) {
	f.t.Helper()
	f.eventually("the hook is "+what, func() bool {
		hook, err := f.hooks.Find(tenant, id)
		if err != nil {
			f.t.Fatal(err)
		}
		p, err := f.hooks.Progress(f.t.Context(), &hook)
		if err != nil {
			f.t.Fatal(err)
		}
		return is(&hook, p)
	})
}

// texts are the data of the events that were told of.
func texts(got []delivery) (list []string) {
	for _, d := range got {
		list = append(list, fmt.Sprint(d.Type, " ", d.Data["stream"], " ", d.Data["type"], " ", d.Data["text"]))
	}
	return list
}
