package api_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/store/memstore"
)

// refusal is a row of the table of errors, and a request that meets it.
type refusal struct {
	code      string
	status    int
	retryable bool
	do        func() *answer
}

// Every row of the table of errors, over HTTP.
// TestErrorsOnTheWayToAStream: the errors that somebody meets who publishes for the first time say the next step, which
// is the same for a stream that the publisher may not use.
func TestErrorsOnTheWayToAStream(t *testing.T) {
	w := start(t, setup{})
	w.do("PUT", "/v1/streams/hidden", "").is(201)
	key := w.do("POST", "/v1/keys", `{"name":"a","scopes":["publish:a"]}`).is(201).text("key")
	for _, action := range []string{"events", "end"} {
		detail := func(name string) string {
			return w.do("POST", "/v1/streams/"+name+"/"+action, `{"data":1}`).refused(404, "not_found").text("detail")
		}
		const want = "stream default/builds/1: not found; PUT /v1/streams/builds%2F1 creates it"
		if got := detail("builds%2F1"); got != want {
			t.Errorf("%s: %q, want %q", action, got, want)
		}
		w.with(key, func() {
			if got := detail("hidden"); got != "stream default/hidden: not found; PUT /v1/streams/hidden creates it" {
				t.Errorf("%s of a stream of others: %q", action, got)
			}
		})
		if got := detail("builds/1"); !strings.HasSuffix(got, "is written %2F: /v1/streams/builds%2F1/"+action) {
			t.Errorf("%s: %q", action, got)
		}
	}
	long := w.do("PUT", "/v1/streams/a/"+strings.Repeat("x", 300), "").refused(404, "not_found").text("detail")
	if len(long) > 100 {
		t.Errorf("a long path is repeated: %q", long)
	}
}

func TestErrorTable(t *testing.T) {
	store := &faultyStore{Store: memstore.New(nil)}
	w := start(t, setup{
		store: store,
		log:   reprise.Options{MaxTotalBytes: 1 << 20, SweepEvery: -1},
		gate:  identity.Options{Failures: 1, FailureEvery: time.Hour},
		host:  execution.Options{MaxRunning: 1, MaxQueued: -1},
	})
	rows := slices.Concat(refusedPositions(w), refusedRequests(w), refusedSenders(w), refusedByTheServer(w, store))
	for _, row := range rows {
		a := row.do().refused(row.status, row.code)
		if a.member("retryable") != row.retryable || a.number("status") != int64(row.status) {
			t.Errorf("%s: %s", row.code, a.body)
		}
		if row.retryable && a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", row.code)
		}
		window := a.text("earliest") != "" && a.text("tail") != ""
		if window != (row.status == 410 && row.code != "stream_expired" || row.code == "cursor_ahead") {
			t.Errorf("%s: window in %s", row.code, a.body)
		}
		if strings.Contains(a.body, "secret") || strings.Contains(a.body, "head") && row.code == "internal" {
			t.Errorf("%s tells too much: %s", row.code, a.body)
		}
	}
	if log := w.logged.String(); !strings.Contains(log, "lost its head") ||
		!strings.Contains(log, "the secret of the store") {
		t.Errorf("the log does not say why: %s", log)
	}
}

// refusedPositions makes the stream s that the other rows use too.
func refusedPositions(w *fixture) []refusal {
	s, other := w.stream("s", "one", "two"), w.stream("other", "x")
	events := "/v1/streams/s/events"
	return []refusal{
		{"cursor_malformed", 400, false, func() *answer { return w.do("GET", events+"?after=1.2.3", "") }},
		{"cursor_foreign", 400, false, func() *answer {
			return w.do("GET", events+"?after="+other.Cursor(1).String(), "")
		}},
		{"cursor_foreign", 400, false, func() *answer {
			forged := s.Cursor(1).String()
			return w.do("GET", events+"?after="+forged[:len(forged)-13]+"0000000000000", "")
		}},
		{"cursor_ahead", 409, false, func() *answer { return w.do("GET", events+"?after="+s.Cursor(3).String(), "") }},
		{"cursor_expired", 410, false, func() *answer {
			w.ok(s.Trim(w.Context(), 2))
			return w.do("GET", events+"?after="+s.Cursor(0).String(), "")
		}},
		{"epoch_changed", 410, false, func() *answer {
			old := other.Cursor(1).String()
			w.ok(w.log.Remove(w.Context(), other.Key()))
			w.stream("other", "y")
			return w.do("GET", "/v1/streams/other/events?after="+old, "")
		}},
	}
}

// refusedRequests are about what is there and what is sent.
func refusedRequests(w *fixture) []refusal {
	ended := w.stream("ended")
	_, err := ended.End(w.Context(), "completed", reprise.Event{})
	w.ok(err)
	return []refusal{
		{"not_found", 404, false, func() *answer { return w.do("GET", "/v1/streams/none", "") }},
		{"not_found", 404, false, func() *answer { return w.do("GET", "/v1/streams/none/events", "") }},
		{"not_found", 404, false, func() *answer { return w.do("GET", "/v1/executions/none/events", "") }},
		{"not_found", 404, false, func() *answer { return w.do("GET", "/no/such/path", "") }},
		{"stream_expired", 410, false, func() *answer {
			w.do("PUT", "/v1/streams/old", `{"retention":{"max_age":"1ns"}}`).is(201)
			w.do("POST", "/v1/streams/old/end", `{"outcome":"completed"}`).is(200)
			w.eventually("the sweep finds it", func() bool {
				swept, err := w.log.Sweep(w.Context())
				w.ok(err)
				return swept.Streams > 0
			})
			w.do("GET", "/v1/streams/old/events", "", asSSE).refused(410, "stream_expired")
			w.do("POST", "/v1/streams/old/events", `{"data":1}`).refused(410, "stream_expired")
			return w.do("GET", "/v1/streams/old", "")
		}},
		{"stream_ended", 409, false, func() *answer { return w.do("POST", "/v1/streams/ended/events", `{"data":1}`) }},
		{"conflict", 409, false, func() *answer { return w.do("PUT", "/v1/streams/s", `{"labels":{"a":"b"}}`) }},
		{"invalid", 400, false, func() *answer { return w.do("PUT", "/v1/streams/x", `{`) }},
		{"invalid", 400, false, func() *answer { return w.do("GET", "/v1/executions?cursor=x", "") }},
		{"invalid", 400, false, func() *answer { return w.do("GET", "/v1/streams?cursor=x", "") }},
		{"invalid", 400, false, func() *answer { return w.do("GET", "/v1/sessions?cursor=x", "") }},
		{"invalid", 422, false, func() *answer { return w.do("PUT", "/v1/streams/x", `{"color":"red"}`) }},
		{"invalid", 415, false, func() *answer {
			return w.do("PUT", "/v1/streams/x", `{}`, "Content-Type: text/plain")
		}},
		{"invalid", 405, false, func() *answer { return w.do("PATCH", "/v1/streams", `{}`) }},
	}
}

// refusedSenders are about who sends, and how much.
func refusedSenders(w *fixture) []refusal {
	events := "/v1/streams/s/events"
	return []refusal{
		{"unauthenticated", 401, false, func() *answer {
			return w.do("GET", "/v1/executions", "", "Authorization: Bearer wrong")
		}},
		{"rate_limited", 429, true, func() *answer {
			return w.do("GET", "/v1/executions", "", "Authorization: Bearer wrong")
		}},
		{"forbidden", 403, false, func() *answer {
			return w.do("GET", "/healthz", "", "Origin: https://evil.example.org")
		}},
		{"quota_exceeded", 429, true, func() *answer {
			big := strings.Repeat("x", 700_000)
			w.do("POST", events, big, "Content-Type: text/plain").is(200)
			w.do("PUT", "/v1/streams/more", "").is(201)
			return w.do("POST", "/v1/streams/more/events", big, "Content-Type: text/plain")
		}},
		{"quota_exceeded", 429, true, func() *answer {
			w.do("POST", "/v1/executions", `{"id":"first","argv":["sleep","60"]}`).is(201)
			return w.do("POST", "/v1/executions", `{"id":"second","argv":["sleep","60"]}`)
		}},
		{"payload_too_large", 413, false, func() *answer { return w.do("POST", events, strings.Repeat("x", 1<<20+1)) }},
		{"payload_too_large", 413, false, func() *answer {
			return w.do("POST", "/v1/executions", `{"command":"`+strings.Repeat("x", 1<<20)+`"}`)
		}},
	}
}

// refusedByTheServer are no fault of the client. The last one is the end of the server.
func refusedByTheServer(w *fixture, store *faultyStore) []refusal {
	events := "/v1/streams/s/events"
	return []refusal{
		{"store_unavailable", 503, true, func() *answer {
			store.fail(func() error { return reprise.ErrUnavailable })
			w.do("POST", events, `{"data":1}`).refused(503, "store_unavailable")
			w.do("PUT", "/v1/streams/new", "").refused(503, "store_unavailable")
			w.do("GET", "/v1/streams/s/events", "").is(200) // readers keep what is in memory
			w.do("GET", "/readyz", "").refused(503, "store_unavailable")
			return w.do("GET", "/v1/streams", "")
		}},
		{"internal", 500, false, func() *answer {
			store.fail(func() error { return errors.New("the secret of the store") })
			return w.do("GET", "/v1/streams", "")
		}},
		{"internal", 500, false, func() *answer {
			store.fail(func() error { panic("the store has lost its head") })
			return w.do("GET", "/v1/streams", "")
		}},
		{"shutting_down", 503, true, func() *answer {
			store.fail(func() error { return nil })
			w.server.Drain()
			w.do("GET", "/healthz", "").is(200)
			w.do("GET", "/readyz", "").refused(503, "shutting_down")
			return w.do("POST", "/v1/executions", `{"argv":["true"]}`)
		}},
	}
}

// Methods that a path does not know are named in Allow, and so they are for OPTIONS.
func TestAllowNamesMethodsOfPath(t *testing.T) {
	w := start(t, setup{})
	for path, allow := range map[string]string{
		"/v1/executions":            "GET, HEAD, OPTIONS, POST",
		"/v1/executions/x/cancel":   "OPTIONS, POST",
		"/v1/streams/a%2Fb":         "DELETE, GET, HEAD, OPTIONS, PATCH, PUT",
		"/v1/streams/a%2Fb/events":  "GET, HEAD, OPTIONS, POST",
		"/metrics":                  "GET, HEAD, OPTIONS",
		"/v1/executions/x/events":   "GET, HEAD, OPTIONS",
		"/v1/login":                 "DELETE, GET, HEAD, OPTIONS, POST",
		"/v1/sessions/x":            "DELETE, GET, HEAD, OPTIONS",
		"/v1/streams/s/end":         "OPTIONS, POST",
		"/v1/executions/x/stdin":    "OPTIONS, POST",
		"/v1/executions/%2e/events": "GET, HEAD, OPTIONS",
	} {
		if got := w.do("PURGE", path, "").refused(405, "invalid").header.Get("Allow"); got != allow {
			t.Errorf("PURGE %s: Allow %q, want %q", path, got, allow)
		}
		if got := w.do("OPTIONS", path, "").is(204).header.Get("Allow"); got != allow {
			t.Errorf("OPTIONS %s: Allow %q, want %q", path, got, allow)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, opts := range []api.Options{
		{Hosts: []string{""}},
		{Hosts: []string{"example.org:80"}},
		{Origins: []string{"example.org"}},
		{Origins: []string{"https://example.org/"}},
	} {
		if _, err := api.New(nil, nil, nil, &opts); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

// A client is told of a full disk, and of nothing that the store says beside it; the log has it all, once.
func TestFullDiskIsTold(t *testing.T) {
	store := &faultyStore{Store: memstore.New(nil)}
	w := start(t, setup{store: store, logLog: true})
	w.stream("s")
	store.fail(func() error { return fmt.Errorf("%w: /var/lib/reprise/events.db", reprise.DiskFull) })
	for range 3 {
		a := w.do("POST", "/v1/streams/s/events", `{"data":1}`).refused(503, "store_unavailable")
		if a.text("detail") != "disk full" || strings.Contains(a.body, "/var/lib") {
			t.Errorf("answer: %s", a.body)
		}
	}
	if n := strings.Count(w.logged.String(), "events.db"); n != 1 {
		t.Errorf("the cause is logged %d times:\n%s", n, w.logged.String())
	}
	store.fail(func() error { return nil })
	w.do("POST", "/v1/streams/s/events", `{"data":1}`).is(200)
}
