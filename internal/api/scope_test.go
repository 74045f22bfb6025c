package api_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/apikey"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// key makes an API key of a tenant and returns its id and its text.
func (w *fixture) key(tenant reprise.Tenant, scopes ...string) (id, text string) {
	w.Helper()
	var grants []identity.Grant
	for _, scope := range scopes {
		g, err := identity.ParseGrant(scope)
		w.ok(err)
		grants = append(grants, g)
	}
	key, text, err := w.keys.Add(w.Context(), apikey.Request{Name: "test", Tenant: tenant, Scopes: grants})
	w.ok(err)
	return key.ID, text
}

// with does something with another credential.
func (w *fixture) with(credential string, do func()) {
	before := w.token
	defer func() { w.token = before }()
	w.token = credential
	do()
}

// scopesOfOperations are those in openapi.yaml, by method and path.
func scopesOfOperations(t *testing.T) map[string]identity.Scope {
	t.Helper()
	scopes := map[string]identity.Scope{}
	paths := theContract().root["paths"].(map[string]any)
	for path, item := range paths {
		for method, op := range item.(map[string]any) {
			if op, ok := op.(map[string]any); ok {
				scope, _ := op["x-scope"].(string)
				if scope == "" {
					t.Errorf("%s %s has no x-scope", method, path)
				}
				scopes[strings.ToUpper(method)+" "+path] = identity.Scope(scope)
			}
		}
	}
	return scopes
}

// TestScopesAreDocumented: the table in docs/security.md is that of the API.
func TestScopesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]identity.Scope{}
	row := regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\| `([a-z]+)` \\|")
	for _, match := range row.FindAllStringSubmatch(string(text), -1) {
		table[match[1]] = identity.Scope(match[2])
	}
	if want := scopesOfOperations(t); len(want) < 30 || !maps.Equal(table, want) {
		t.Errorf("the table has %v, the API %v", table, want)
	}
}

// request is what a test sends for an operation: something that is not there, or that changes nothing that matters.
func request(operation, id, stream, session string) (method, path, body string) {
	method, path, _ = strings.Cut(operation, " ")
	at := id
	if strings.HasPrefix(path, "/v1/sessions") {
		at = session
	}
	path = strings.NewReplacer("{id}", at, "{name}", stream).Replace(path)
	switch operation {
	case "POST /v1/executions":
		body = fmt.Sprintf(`{"argv":["true"],"session":%q}`, session)
	case "POST /v1/interpreters":
		body = fmt.Sprintf(`{"language":"none","session":%q}`, session)
	case "POST /v1/executions/{id}/signal":
		body = `{"signal":"CONT"}`
	case "POST /v1/streams/{name}/events":
		body = `{"type":"note","data":1}`
	case "POST /v1/streams/{name}/end":
		body = `{"outcome":"completed"}`
	case "POST /v1/tickets":
		body = fmt.Sprintf(`{"stream":%q}`, stream)
	case "PUT /v1/streams/{name}", "POST /v1/streams/{name}/trim", "POST /v1/keys":
		body = `{}`
	}
	return method, path, body
}

// TestUserNeedsAdmin: a command of another user takes the scope admin beside run, in a schedule too.
func TestUserNeedsAdmin(t *testing.T) {
	w := start(t, setup{})
	_, runner := w.key(reprise.DefaultTenant, "run", "read", "control")
	_, admin := w.key(reprise.DefaultTenant, "run", "read", "admin")
	start := `{"argv":["true"],"user":"no-such-user"}`
	schedule := `{"cron":"@yearly","execution":{"argv":["true"],"user":"x"}}`
	w.with(runner, func() {
		w.do("POST", "/v1/executions", start).refused(403, "forbidden")
		w.do("POST", "/v1/executions", start, "Accept: text/event-stream").refused(403, "forbidden")
		w.do("POST", "/v1/schedules", schedule).refused(403, "forbidden")
	})
	w.with(admin, func() {
		if a := w.do("POST", "/v1/executions", start).refused(422, "invalid"); !strings.Contains(a.body, "user: ") {
			t.Errorf("refused with %s", a.body)
		}
	})
}

// TestEveryOperationNeedsItsScope tries each operation with a key that has its scope alone, and with one that has all
// others.
func TestEveryOperationNeedsItsScope(t *testing.T) {
	w := start(t, setup{audit: true})
	keys, others := map[identity.Scope]string{}, map[identity.Scope]string{}
	for _, scope := range identity.AllScopes() {
		_, keys[scope] = w.key(reprise.DefaultTenant, string(scope))
		var rest []string
		for _, other := range identity.AllScopes() {
			if other != scope {
				rest = append(rest, string(other))
			}
		}
		_, others[scope] = w.key(reprise.DefaultTenant, rest...)
	}
	for operation, scope := range scopesOfOperations(t) {
		if scope == "public" || scope == "any" {
			continue // TestEveryPathButThePublicOnesNeedsAToken; TestQuotasAreShown
		}
		method, path, body := request(operation, "none", "none", "none")
		w.with(keys[scope], func() {
			if a := w.do(method, path, body); a.status == 401 || a.status == 403 {
				t.Errorf("%s with the scope %s: %d %s", operation, scope, a.status, a.body)
			}
		})
		w.with(others[scope], func() { w.do(method, path, body).refused(403, "forbidden") })
		w.with(keys[scope][:len(keys[scope])-1], func() {
			if a := w.do(method, path, body); a.status != 401 && a.status != 429 { // so many failures are limited
				t.Errorf("%s with a wrong key: %d %s", operation, a.status, a.body)
			}
		})
	}
	w.with(keys[identity.ScopeRun], func() { // a start that shows the output reads
		w.do("POST", "/v1/executions", `{"argv":["true"]}`, asSSE).refused(403, "forbidden")
	})
}

// hidden are the names of what a principal may not see, and of what does not exist, of the same length.
type hidden struct{ id, stream, session string }

var absent = hidden{"gone", "b-gone", "b-gone"}

// sameAsAbsent checks that each operation on something answers as on what does not exist, and returns how often it was
// looked at.
func sameAsAbsent(w *fixture, h hidden, operations []string) {
	w.Helper()
	for _, operation := range operations {
		method, path, body := request(operation, h.id, h.stream, h.session)
		got := w.do(method, path, body)
		method, path, body = request(operation, absent.id, absent.stream, absent.session)
		want := w.do(method, path, body)
		plain := strings.NewReplacer(h.stream, absent.stream, h.id, absent.id, h.session, absent.session)
		if got.status != want.status || plain.Replace(got.body) != want.body {
			w.Errorf("%s: %d %s, and for what does not exist %d %s",
				operation, got.status, got.body, want.status, want.body)
		}
		for name := range want.header {
			varies := name == "Date" || name == "X-Request-Id" || name == "Content-Length"
			if got, want := got.header.Get(name), want.header.Get(name); got != want && !varies {
				w.Errorf("%s: header %s is %q, not %q", operation, name, got, want)
			}
		}
	}
}

// named are the operations that name something.
func named(t *testing.T, not ...string) []string {
	t.Helper()
	var operations []string
	for operation, scope := range scopesOfOperations(t) {
		named := strings.Contains(operation, "{") || operation == "POST /v1/tickets"
		if named && scope != "admin" && scope != "audit" && scope != "public" && !slices.Contains(not, operation) {
			operations = append(operations, operation)
		}
	}
	slices.Sort(operations)
	if len(operations) < 15 {
		t.Fatalf("only %v", operations)
	}
	return operations
}

// fill makes a stream and a running execution in a session.
func (w *fixture) fill(tenant reprise.Tenant, h hidden) {
	w.Helper()
	s, _, err := w.log.Create(w.Context(), reprise.StreamKey{Tenant: tenant, Name: h.stream}, reprise.StreamConfig{})
	w.ok(err)
	_, err = s.Append(w.Context(), reprise.Event{Type: "note", Data: []byte("x")})
	w.ok(err)
	_, _, err = w.host.Start(w.Context(), tenant, execution.Request{
		ID: h.id, Session: h.session, Argv: []string{"cat"}, StdinOpen: true,
	})
	w.ok(err)
}

// untouched checks that nobody has changed what fill made.
func (w *fixture) untouched(tenant reprise.Tenant, h hidden) {
	w.Helper()
	e, err := w.host.Show(context.Background(), tenant, h.id)
	if err != nil || e.Status == execution.StatusEnded {
		w.Errorf("execution %s: %v, %v", h.id, e.Status, err)
	}
	s, err := w.log.Stream(context.Background(), reprise.StreamKey{Tenant: tenant, Name: h.stream})
	w.ok(err)
	if info, err := s.Info(context.Background()); err != nil || info.Tail != 1 || info.End != nil {
		w.Errorf("stream %s: %+v, %v", h.stream, info, err)
	}
}

func TestScopePrefixHidesOtherNames(t *testing.T) {
	w := start(t, setup{})
	mine, others := hidden{"mine", "a-mine", "a-mine"}, hidden{"them", "b-them", "b-them"}
	w.fill(reprise.DefaultTenant, hidden{"first", "b-first", "b-first"}) // lists end with it
	w.fill(reprise.DefaultTenant, mine)
	w.fill(reprise.DefaultTenant, others)
	_, key := w.key(reprise.DefaultTenant, "read:a-", "publish:a-", "run:a-", "control:a-")
	w.with(key, func() {
		// To make what lies beside the prefix is forbidden whether it is there or not.
		sameAsAbsent(w, others, named(t))
		w.do("PUT", "/v1/streams/b-them", `{}`).refused(403, "forbidden")
		w.do("POST", "/v1/executions", `{"argv":["true"],"session":"b-them"}`).refused(403, "forbidden")
		w.do("POST", "/v1/executions", `{"argv":["true"]}`).refused(403, "forbidden")
		w.do("POST", "/v1/tickets", `{"execution":"them"}`).refused(404, "not_found")
		for list, member := range map[string]string{"streams": "name", "executions": "id", "sessions": "id"} {
			a := w.do("GET", "/v1/"+list+"?limit=1", "").is(200)
			if got := names(a, list, member); !strings.HasSuffix(got, "mine") || a.text("next_cursor") != "" {
				t.Errorf("%s: %s", list, a.body)
			}
		}
		w.do("GET", "/v1/executions?session=b-them", "").is(200)
	})
	w.untouched(reprise.DefaultTenant, others)
	w.with(key, func() { // what begins with the prefix is there
		w.do("GET", "/v1/executions/mine", "").is(200)
		w.do("GET", "/v1/sessions/a-mine", "").is(200)
		w.do("GET", "/v1/streams/a-mine/events", "").is(200)
		w.do("POST", "/v1/streams/a-mine/events", `{"type":"note","data":1}`).is(200)
		w.do("PUT", "/v1/streams/a-more", `{}`).is(201)
		w.do("POST", "/v1/executions", `{"argv":["true"],"session":"a-more"}`).is(201)
		ticket := w.do("POST", "/v1/tickets", `{"execution":"mine"}`).is(201).text("events")
		w.do("POST", "/v1/executions/mine/stdin?eof=true", "text").is(200)
		w.ended("mine")
		w.do("GET", ticket, "").is(200)
		w.do("DELETE", "/v1/streams/a-mine", "").is(204)
		w.do("GET", "/v1/streams/a-mine", "").refused(404, "not_found")
		w.do("DELETE", "/v1/sessions/a-mine", "").is(204)
		if got := w.do("GET", "/v1/executions/mine", "").status; got != 404 && got != 410 {
			t.Errorf("after it was removed: %d", got)
		}
	})
}

// Lists of one who may see few among many are whole, have the size that was asked for, and end where nothing more can
// be seen.
func TestListsOfPrefixesAreWhole(t *testing.T) {
	w := start(t, setup{})
	for i := range 30 {
		w.stream(fmt.Sprintf("b-%02d", i))
		if i%3 == 0 {
			w.stream(fmt.Sprintf("a-%02d", i))
		}
	}
	_, key := w.key(reprise.DefaultTenant, "read:a-")
	w.with(key, func() {
		var pages []string
		for cursor := ""; ; {
			a := w.do("GET", "/v1/streams?limit=4&cursor="+cursor, "").is(200)
			pages = append(pages, names(a, "streams", "name"))
			if cursor = a.text("next_cursor"); cursor == "" {
				break
			}
		}
		if got := strings.Join(pages, "|"); got != "a-27 a-24 a-21 a-18|a-15 a-12 a-09 a-06|a-03 a-00" {
			t.Errorf("pages %s", got)
		}
	})
}

func TestOtherTenantsSeeNothing(t *testing.T) {
	w := start(t, setup{})
	theirs := hidden{"them", "b-them", "b-them"}
	w.fill(reprise.DefaultTenant, theirs)
	_, key := w.key("acme", "read", "publish", "run", "control")
	w.with(key, func() {
		// These make something of their own under the same name.
		sameAsAbsent(w, theirs, named(t, "PUT /v1/streams/{name}"))
		for _, list := range []string{"streams", "executions", "sessions", "mcp/sessions", "tasks"} {
			if a := w.do("GET", "/v1/"+list, "").is(200); strings.Contains(a.body, "them") {
				t.Errorf("%s: %s", list, a.body)
			}
		}
		w.do("PUT", "/v1/streams/b-them", `{}`).is(201)
		w.do("POST", "/v1/executions", `{"id":"them","argv":["true"],"session":"b-them"}`).is(201)
		w.do("DELETE", "/v1/sessions/b-them", "").is(204)
		w.do("DELETE", "/v1/streams/b-them", "").is(204)
	})
	w.untouched(reprise.DefaultTenant, theirs)
}

// TestRevocationEndsWhatIsOpen: every kind of answer that goes on ends with its credential, be that a key, a cookie
// or a ticket, and nothing can be opened any more.
func TestRevocationEndsWhatIsOpen(t *testing.T) {
	t.Run("revoked here", func(t *testing.T) {
		w := start(t, setup{api: api.Options{Quotas: quota.New(nil)}})
		revocationEndsWhatIsOpen(t, w, w)
	})
	t.Run("revoked at another replica", func(t *testing.T) {
		hub, keys := shared.New(memstore.New(nil)), reprise.NewKeyset()
		two := setup{store: hub.Store(), keys: keys, api: api.Options{Quotas: quota.New(nil)}}
		revocationEndsWhatIsOpen(t, start(t, setup{store: hub.Store(), keys: keys}), start(t, two))
	})
}

// revocationEndsWhatIsOpen opens all kinds of requests at w, and revokes their key at another server.
func revocationEndsWhatIsOpen(t *testing.T, at, w *fixture) {
	w.fill(reprise.DefaultTenant, hidden{"mine", "a-mine", "a-mine"})
	w.ok(os.WriteFile(filepath.Join(w.files, "big"), make([]byte, 64<<20), 0o600)) // more than lies in buffers
	id, key := at.key(reprise.DefaultTenant, "read", "control", "run", "publish")
	w.eventually("the replica knows the key", func() bool { _, err := w.keys.Key(id); return err == nil })
	watch := "/v1/files/watches/" + w.do("POST", "/v1/files/watches", `{"path":"work"}`).is(200).text("id") + "/events"
	task, others := w.task("test."+id, ""), w.task("test.other", "")
	var ticket string
	var login []string
	w.with(key, func() {
		ticket = w.do("POST", "/v1/tickets", `{"stream":"a-mine"}`).is(201).text("events")
		login = w.do("POST", "/v1/login", "").login()
	})
	type request struct{ path, authorization, header string }
	readings := []request{
		{"/v1/streams/a-mine/events", key, asSSE},
		{"/v1/events?of=streams/a-mine", key, asSSE},
		{watch, key, asSSE},
		{"/v1/executions/mine/events", key, asLines},
		{"/v1/executions/mine/stdout?follow=true", key, "Accept: */*"},
		{"/v1/streams/a-mine/events", "", login[0]},
		{ticket, "", asLines},
	}
	var open []*http.Response
	for _, r := range readings {
		headers := []string{r.header}
		if strings.HasPrefix(r.header, "Cookie") {
			headers = append(login, asSSE)
		}
		w.with(r.authorization, func() {
			res := w.open("GET", r.path, "", headers...)
			if res.StatusCode != 200 {
				t.Fatalf("%+v: %d", r, res.StatusCode)
			}
			open = append(open, res)
		})
	}
	var reading int64 // with the key; the server itself reads too
	w.with(key, func() { reading = w.used(quota.Readers) })
	waiting := []<-chan int{ // for an event, or for the rest of the body
		w.answered(key, "GET", "/v1/streams/a-mine/events?after=tail&wait=60s", ""),
		w.answered(key, "PUT", "/v1/files/content?path=work/x&offset=0&size=100&sha256="+sumOf("x"), "a part of it"),
		w.answered(key, "POST", "/v1/executions/mine/stdin", "a part of it"),
		w.answered(key, "POST", "/v1/executions", `{"argv":`),
		w.answered(key, "POST", "/v1/streams/a-mine/events", `{"type":`),
	}
	download := w.open("GET", "/v1/files/content?path=work/big", "", "Authorization: Bearer "+key)
	w.eventually("all of them wait", func() bool {
		part := w.do("GET", "/v1/files/upload?path=work/x&size=100&sha256="+sumOf("x"), "").is(200).number("offset")
		var now int64
		w.with(key, func() { now = w.used(quota.Readers) })
		return now == reading+1 && part > 0
	})
	if a := at.do("DELETE", "/v1/keys/"+id, ""); a.status != 204 {
		t.Fatalf("revoke: %d %s", a.status, a.body)
	}
	for i, res := range open {
		_, _ = io.ReadAll(res.Body) // which ends
		res.Body.Close()
		r := readings[i]
		w.with(r.authorization, func() { w.do("GET", r.path, "", r.header).refused(401, "unauthenticated") })
	}
	for i, status := range waiting {
		if got := <-status; got != 401 {
			t.Errorf("request %d that waited: status %d", i, got)
		}
	}
	if n, err := io.Copy(io.Discard, download.Body); err == nil {
		t.Errorf("the download goes on for %d bytes", n)
	}
	download.Body.Close()
	w.eventually("the task is cancelled", func() bool {
		return at.do("GET", "/v1/tasks/"+task, "").is(200).text("status") == "cancelled"
	})
	if a := at.do("GET", "/v1/tasks/"+others, "").is(200); a.text("status") != "working" {
		t.Errorf("the task of somebody else: %s", a.body)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	e, err := w.host.Show(t.Context(), reprise.DefaultTenant, "mine")
	if err != nil || e.Status == execution.StatusEnded {
		t.Errorf("the execution has ended with the key: %+v, %v", e.Status, err)
	}
}

// answered sends a request whose body, unless it is empty, does not end. The channel gets the status of its answer, 0
// for none.
func (w *fixture) answered(credential, method, path, body string) <-chan int {
	w.Helper()
	reader, writer := io.Pipe()
	w.Cleanup(func() { writer.Close() })
	req, err := http.NewRequestWithContext(context.Background(), method, w.url+path, reader)
	w.ok(err)
	if body == "" {
		req.Body = http.NoBody
	} else {
		go func() { _, _ = io.WriteString(writer, body) }()
	}
	req.Header.Set("Authorization", "Bearer "+credential)
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	status := make(chan int, 1)
	go func() {
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			status <- 0
			return
		}
		res.Body.Close()
		status <- res.StatusCode
	}()
	return status
}

// TestRevocationReachesReplicas: a key of one replica is good at another, and what is open there ends when the key is
// revoked at the first.
func TestRevocationReachesReplicas(t *testing.T) {
	hub, keys := shared.New(memstore.New(nil)), reprise.NewKeyset()
	one, two := start(t, setup{store: hub.Store(), keys: keys}), start(t, setup{store: hub.Store(), keys: keys})
	id, key := one.key(reprise.DefaultTenant, "read")
	one.stream("s", "x")
	two.token = key
	two.eventually("the other replica knows the key", func() bool {
		return two.do("GET", "/v1/streams", "").status == 200
	})
	ticket := two.do("POST", "/v1/tickets", `{"stream":"s"}`).is(201).text("events")
	following := two.follow("/v1/streams/s/events", asLines)
	defer following.close()
	if line := following.line(); !strings.Contains(line, `"x"`) {
		t.Errorf("read %q", line)
	}
	one.do("DELETE", "/v1/keys/"+id, "").is(204)
	if line := following.line(); line != "" { // it ends
		t.Errorf("read %q after the revocation", line)
	}
	two.do("GET", "/v1/streams", "").refused(401, "unauthenticated")
	two.token = ""
	two.do("GET", ticket, "").refused(401, "unauthenticated")
}

func TestKeysOverHTTP(t *testing.T) {
	w := start(t, setup{})
	a := w.do("POST", "/v1/keys", `{"name":"ci","tenant":"acme","scopes":["read:ci-","run"],"ttl":"1h"}`).is(201)
	id, text := a.text("id"), a.text("key")
	if a.header.Get("Location") != "/v1/keys/"+id || !strings.HasPrefix(text, "rp_"+id+"_") || a.text("expires") == "" {
		t.Errorf("made: %v %s", a.header, a.body)
	}
	w.with(text, func() {
		w.do("GET", "/v1/streams", "").is(200)
		w.do("GET", "/v1/keys", "").refused(403, "forbidden")
	})
	for _, path := range []string{"/v1/keys", "/v1/keys/" + id} {
		if a := w.do("GET", path, "").is(200); strings.Contains(a.body, text) || !strings.Contains(a.body, `"acme"`) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	rotated := w.do("POST", "/v1/keys/"+id+"/rotate", "").is(200).text("key")
	w.with(text, func() { w.do("GET", "/v1/streams", "").refused(401, "unauthenticated") })
	w.with(rotated, func() { w.do("GET", "/v1/streams", "").is(200) })
	w.do("DELETE", "/v1/keys/"+id, "").is(204)
	w.do("DELETE", "/v1/keys/"+id, "").is(204)
	w.with(rotated, func() { w.do("GET", "/v1/streams", "").refused(401, "unauthenticated") })
	w.do("POST", "/v1/keys/"+id+"/rotate", "").refused(409, "conflict")
	w.do("GET", "/v1/keys/none", "").refused(404, "not_found")
	w.do("DELETE", "/v1/keys/none", "").refused(404, "not_found")
	for body, field := range map[string]string{
		`{"name":"a b","scopes":["read"]}`:                             "name",
		`{"name":"x","scopes":["write"]}`:                              "scopes",
		`{"name":"x","scopes":[]}`:                                     "scopes",
		`{"name":"x","scopes":["read"],"tenant":"reprise.system"}`:     "tenant",
		`{"name":"x","scopes":["read"],"ttl":"1ms"}`:                   "ttl",
		`{"name":"x","scopes":["read"],"tenant":"a/b"}`:                "tenant",
		`{"name":"x","scopes":["admin:x"]}`:                            "scopes",
		`{"name":"` + strings.Repeat("x", 65) + `","scopes":["read"]}`: "name",
	} {
		if a := w.do("POST", "/v1/keys", body).refused(422, "invalid"); a.text("field") != field {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	log := w.logged.String()
	if strings.Contains(log, text) || strings.Contains(log, rotated) || !strings.Contains(log, "principal=ci."+id) {
		t.Errorf("the log: %s", log)
	}
}

// TestListOfLargeStreamsIsBounded (G7): 400 streams with 60 kB each beside their events, half of which the sender may
// read, come in pages of some megabytes, each of them once. Meta stands for large labels, which cost more to decode.
func TestListOfLargeStreamsIsBounded(t *testing.T) {
	w := start(t, setup{})
	const streams, size = 400, 60 << 10
	for i := range streams {
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprintf("%c-%d", "ab"[i%2], i)}
		_, _, err := w.log.Create(w.Context(), key, reprise.StreamConfig{Meta: make([]byte, size)})
		w.ok(err)
	}
	_, restricted := w.key(reprise.DefaultTenant, "read:a-")
	for who, want := range map[string]int{w.token: streams, restricted: streams / 2} {
		w.token = who
		seen, largest := map[string]bool{}, 0
		for cursor := ""; ; {
			a := w.do("GET", "/v1/streams?limit=1000&cursor="+cursor, "").is(200)
			page := strings.Fields(names(a, "streams", "name"))
			for _, name := range page {
				seen[name] = true
			}
			largest = max(largest, len(page))
			if cursor = a.text("next_cursor"); cursor == "" {
				break
			}
		}
		if len(seen) != want || largest*size > 9<<20 {
			t.Errorf("%d streams of %d, in pages of up to %d streams", len(seen), want, largest)
		}
	}
}
