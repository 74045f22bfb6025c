package api_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/schedule"
	"reprise/internal/upkeep"
	"reprise/internal/web"
	"reprise/internal/webhook"
	"reprise/store/memstore"
)

// hungStore answers nothing while it hangs, until the caller gives up. It stores events all the same: whoever appends
// commits what others append too, which does not end with one of them.
type hungStore struct {
	reprise.Store
	hangs atomic.Bool
}

func (s *hungStore) hang(ctx context.Context) error {
	if !s.hangs.Load() {
		return nil
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (s *hungStore) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if err := s.hang(ctx); err != nil {
		return reprise.StreamInfo{}, err
	}
	return s.Store.Create(ctx, info)
}

func (s *hungStore) Read(ctx context.Context, key reprise.StreamKey, after uint64, most int) (reprise.Page, error) {
	if err := s.hang(ctx); err != nil {
		return reprise.Page{}, err
	}
	return s.Store.Read(ctx, key, after, most)
}

func (s *hungStore) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	if err := s.hang(ctx); err != nil {
		return reprise.ListPage{}, err
	}
	return s.Store.List(ctx, q)
}

func (s *hungStore) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if err := s.hang(ctx); err != nil {
		return err
	}
	return s.Store.Remove(ctx, key, spec)
}

// waits are parameters with which a request waits as long as it can. Those that an operation does not have are not
// sent.
var waits = map[string]string{"wait": "60s", "follow": "true", "after": "tail", "hold": "5m"}

// longest are the requests for an operation that wait for something, and the one that does not.
func longest(c *contract, at *attempt, names *nameSet) []wireRequest {
	method, path, _ := strings.Cut(at.operation, " ")
	plain := at.request(names)
	requests := []wireRequest{plain}
	if method != http.MethodGet {
		return requests
	}
	paths, _ := c.at(node{value: c.root}, "paths")
	item, _ := c.at(paths, path)
	op, _ := c.at(item, "get")
	query := url.Values{}
	for _, p := range c.parameters(item, op) {
		if value := waits[p["name"].(string)]; value != "" && p["in"] == "query" {
			query.Set(p["name"].(string), value)
		}
	}
	separator := "?"
	if strings.Contains(plain.path, "?") {
		separator = "&"
	}
	waiting := plain
	waiting.path += separator + query.Encode()
	streamed, lines := plain, plain
	streamed.headers = append(slices.Clone(plain.headers), asSSE)
	lines.headers = append(slices.Clone(plain.headers), asLines)
	return append(requests, waiting, streamed, lines)
}

// TestRequestsEndWithTheirClients: each request of the API whose client has gone ends within a second, with every
// goroutine that works for it: while it waits for something that does not come, and while the store answers nothing.
func TestRequestsEndWithTheirClients(t *testing.T) {
	c := theContract()
	synctest.Test(t, func(t *testing.T) {
		store := &hungStore{Store: memstore.New(nil)}
		server, closeAll := goneServer(t, store)
		defer closeAll()
		names := &nameSet{
			word: "here", page: map[string]string{}, collection: map[string]string{
				"/v1/executions": "here",
				"artifacts":      "here",
			},
		}
		requests, waited := 0, 0
		for _, hangs := range []bool{false, true} {
			for _, at := range attempts(t, "") {
				starts := at.operation == "POST /v1/executions" || at.operation == "POST /v1/interpreters"
				removes := strings.HasPrefix(at.operation, "DELETE") || strings.HasSuffix(at.operation, "/end")
				if at.varied != "" || !hangs && (starts || removes) { // a process is nothing for a bubble
					continue
				}
				for _, r := range longest(c, at, names) {
					store.hangs.Store(hangs)
					requests++
					if goes(t, server, &r) {
						waited++
					}
					store.hangs.Store(false)
				}
			}
		}
		t.Logf("%d requests, %d of which waited until their client had gone", requests, waited)
		if waited < 40 {
			t.Errorf("only %d of %d requests waited", waited, requests)
		}
	})
}

// goes sends a request whose client goes when nothing happens any more, and reports whether it has waited until then.
func goes(t *testing.T, server *api.Server, r *wireRequest) (waited bool) {
	t.Helper()
	ctx, gone := context.WithCancel(t.Context())
	defer gone()
	req := httptest.NewRequestWithContext(ctx, r.method, "http://localhost"+r.path, strings.NewReader(r.body))
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range r.headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	before := len(ours())
	var ended atomic.Bool
	go func() {
		defer ended.Store(true)
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				panic(v)
			}
		}()
		server.ServeHTTP(httptest.NewRecorder(), req)
	}()
	synctest.Wait()
	waited = !ended.Load()
	gone()
	time.Sleep(time.Second) // of the bubble
	synctest.Wait()
	if after := ours(); !ended.Load() || len(after) > before {
		t.Errorf("%s %s %q: ended %t, %d goroutines before and %d a second after the client has gone:\n%s",
			r.method, r.path, r.headers, ended.Load(), before, len(after), strings.Join(after, "\n\n"))
	}
	return waited
}

// ours are the stacks of the goroutines that serve requests of the API.
func ours() (stacks []string) {
	all := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		if strings.Contains(stack, "reprise/internal/api.(*Server)") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// goneServer is a server over a store, with a stream and an execution of another replica, neither of which ends.
func goneServer(t *testing.T, store reprise.Store) (server *api.Server, closeAll func()) {
	t.Helper()
	ctx := context.Background()
	quiet := slog.New(slog.DiscardHandler)
	log, err := reprise.Open(ctx, store, &reprise.Options{Logger: quiet})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	host, err := execution.Open(ctx, log, &execution.Options{DisableCgroups: true, Logger: quiet})
	must(err)
	gate := identity.NewGate(reprise.NewKeyset(), nil, nil)
	hooks, err := webhook.Open(ctx, log, &webhook.Options{Principal: gate.Named})
	must(err)
	timed, err := schedule.Open(ctx, log, &schedule.Options{
		Start: func(context.Context, *identity.Principal, execution.Request) (execution.Execution, bool, error) {
			return execution.Execution{}, false, io.ErrUnexpectedEOF
		}, Show: host.Show, Principal: gate.Named,
	})
	must(err)
	server, err = api.New(log, host, gate, &api.Options{Logger: quiet, Parts: []web.Part{
		upkeep.API{Log: log, Store: store},
		webhook.API{Hooks: hooks},
		schedule.API{Schedules: timed},
	}})
	must(err)
	for name, event := range map[string]reprise.Event{
		"here":           {Type: "note", Data: []byte("1")},
		"execution:here": {Type: "started", Data: []byte(`{"argv":["true"]}`)},
	} {
		s, _, err := log.Create(ctx, reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name},
			reprise.StreamConfig{})
		must(err)
		_, err = s.Append(ctx, event)
		must(err)
	}
	return server, func() {
		server.Drain()
		hooks.Close()
		timed.Close()
		_ = host.Close()
		_ = log.Close()
		_ = store.Close()
	}
}
