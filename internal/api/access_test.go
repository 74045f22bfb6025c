package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/identity"
)

func TestInvalidCredentialsAreRefused(t *testing.T) {
	w := start(t, setup{})
	w.token = ""
	for _, header := range []string{
		"Authorization: ", "Authorization: Basic eDp5", "Authorization: Bearer", "Authorization: Bearer " + token + "x",
		"Authorization: " + token, "Cookie: reprise_login=junk.x.y",
	} {
		a := w.do("GET", "/v1/executions/x/events", "", header).refused(401, "unauthenticated")
		if a.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: no challenge", header)
		}
		w.do("POST", "/v1/executions", `{"argv":["true"]}`, header).refused(401, "unauthenticated")
	}
	w.token = token
	w.do("GET", "/v1/executions", "", "Authorization: bearer  "+token).is(200)
}

func TestEveryPathButThePublicOnesNeedsAToken(t *testing.T) {
	w := start(t, setup{gate: identity.Options{Failures: 1000}, audit: true})
	w.token = ""
	public := map[string]bool{
		"/openapi.yaml": true, "/healthz": true, "/readyz": true, "/v1/login": true, "/v1/proof": true,
		"/v1/login/flows": true,
	}
	for _, op := range api.Operations() {
		path := strings.NewReplacer("{id}", "x", "{name}", "x").Replace(op.Path)
		if a := w.do(op.Method, path, ""); (a.status == 401) == public[op.Path] && op.Path != "/v1/login" {
			t.Errorf("%s %s without a token: %d", op.Method, op.Path, a.status)
		}
	}
	if a := w.do("GET", "/openapi.yaml", "").is(200); a.body != string(api.OpenAPI()) ||
		a.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("openapi.yaml: %v", a.header)
	}
	w.do("GET", "/healthz", "").is(200)
	w.do("GET", "/readyz", "").is(200)
}

func TestOpenServerNeedsNoToken(t *testing.T) {
	w := start(t, setup{open: true})
	w.token = ""
	w.do("GET", "/v1/executions", "").is(200)
	w.do("GET", "/metrics", "").is(200)
	w.stream("s")
	w.do("GET", "/v1/streams/s/events?ticket=junk", "").refused(401, "unauthenticated")
}

func TestLoginByCookie(t *testing.T) {
	w := start(t, setup{gate: identity.Options{Failures: 2, FailureEvery: time.Hour}})
	w.token = ""
	a := w.do("POST", "/v1/login", `{"token":"`+token+`"}`).is(200)
	cookie := a.header.Get("Set-Cookie")
	for _, attribute := range []string{"HttpOnly", "SameSite=Strict", "Path=/", "Expires="} {
		if !strings.Contains(cookie, attribute) {
			t.Errorf("%q has no %s", cookie, attribute)
		}
	}
	if strings.Contains(cookie, "Secure") || strings.Contains(cookie, token) {
		t.Errorf("cookie %q", cookie)
	}
	login := a.login()
	w.do("GET", "/v1/executions", "", login...).is(200)
	w.do("POST", "/v1/executions", `{"argv":["true"]}`, append(login, "Origin: "+w.url)...).is(201)
	w.do("POST", "/v1/executions", `{"argv":["true"]}`,
		append(login, "Origin: http://evil.example.org")...).refused(403, "forbidden")
	w.do("POST", "/v1/login", "", "Authorization: Bearer "+token).is(200)
	if a := w.do("DELETE", "/v1/login", "", login...).is(204); !strings.Contains(
		a.header.Get("Set-Cookie"), "Max-Age=0",
	) {
		t.Errorf("logout: %v", a.header)
	}
	w.do("POST", "/v1/login", `{"token":"wrong"}`).refused(401, "unauthenticated")
	w.do("GET", "/v1/executions", "", login[0]+"x", login[1]).refused(401, "unauthenticated")
	w.do("GET", "/v1/executions", "").refused(401, "unauthenticated") // which guesses nothing
	w.do("POST", "/v1/login", `{"token":"wrong"}`).refused(429, "rate_limited")
	w.do("GET", "/v1/executions", "", login...).is(200) // the right ones still come in
}

// TestCookieCountsOnlyWithItsSecret: whoever has seen the cookie of a login, as every program does whose port of the
// host is opened in the browser, can do nothing with it: read, start, log out, or be taken for guessing.
func TestCookieCountsOnlyWithItsSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logins")
	w := start(t, setup{gate: identity.Options{Failures: 1, FailureEvery: time.Hour, Logins: openLogins(t, path)}})
	w.stream("s", "first")
	login, other := w.do("POST", "/v1/login", "").login(), w.do("POST", "/v1/login", "").login()
	w.token = ""
	for name, headers := range map[string][]string{
		"alone":                          {login[0]},
		"with an empty secret":           {login[0], identity.LoginHeader + ": "},
		"with the secret of another one": {login[0], other[1]},
		"as its own secret": {
			login[0], identity.LoginHeader + ": " + strings.TrimPrefix(login[0], "Cookie: reprise_login="),
		},
	} {
		for _, path := range []string{"/v1/streams", "/v1/streams/s/events", "/v1/events?of=streams/s", "/metrics"} {
			res := w.open("GET", path, "", headers...)
			if res.StatusCode == 401 {
				_, _ = io.Copy(io.Discard, res.Body) // others may have no end
			} else {
				t.Errorf("a cookie %s: GET %s: %s", name, path, res.Status)
			}
			res.Body.Close()
		}
		w.do("POST", "/v1/executions", `{"argv":["true"]}`, headers...).refused(401, "unauthenticated")
		w.do("POST", "/v1/tickets", `{"stream":"s"}`, headers...).refused(401, "unauthenticated")
		w.do("DELETE", "/v1/login", "", headers...).is(204)
	}
	w.do("GET", "/v1/streams", "", login...).is(200) // it is not logged out
	w.do("GET", "/v1/streams", "", login[0], login[1], "Authorization: Bearer wrong").refused(401, "unauthenticated")
}

func TestTicketReadsOneStreamAndNothingElse(t *testing.T) {
	w := start(t, setup{})
	w.stream("a/b", "in a/b")
	w.stream("other", "x")
	w.do("POST", "/v1/executions", `{"id":"x","command":"echo out"}`).is(201)
	w.ended("x")
	ofStream := w.do("POST", "/v1/tickets", `{"stream":"a/b"}`).is(201)
	ofExecution := w.do("POST", "/v1/tickets", `{"execution":"x","ttl":"30s"}`).is(201)
	w.token = ""
	if a := w.do("GET", ofStream.text("events"), "").is(200); !strings.Contains(a.body, "in a/b") {
		t.Errorf("read %s", a.body)
	}
	ticket := "?ticket=" + url.QueryEscape(ofExecution.text("ticket"))
	for _, path := range []string{"/events", "/stdout", "/stderr"} {
		w.do("GET", "/v1/executions/x"+path+ticket, "").is(200)
	}
	for _, path := range []string{
		"/v1/streams/a%2Fb/events", "/v1/streams/none/events", "/v1/executions/y/events", "/v1/executions/x",
		"/v1/executions", "/v1/sessions", "/metrics",
	} {
		w.do("GET", path+ticket, "").refused(403, "forbidden")
	}
	w.do("POST", "/v1/executions/x/cancel"+ticket, "").refused(403, "forbidden")
	w.do("POST", "/v1/tickets"+ticket, `{"execution":"x"}`).refused(403, "forbidden")
	w.do("GET", "/v1/executions/x/events"+ticket+"x", "").refused(401, "unauthenticated")
	w.token = token
	w.do("POST", "/v1/tickets", `{"stream":"none"}`).refused(404, "not_found")
	w.do("POST", "/v1/tickets", `{"execution":"none"}`).refused(404, "not_found")
	for _, body := range []string{
		`{}`, `{"stream":"other","execution":"x"}`, `{"stream":"other","ttl":"25h"}`, `{"stream":"other","ttl":"1ms"}`,
		`{"stream":"execution:x"}`,
	} {
		w.do("POST", "/v1/tickets", body).refused(422, "invalid")
	}
	w.do("GET", "/v1/executions"+ticket, "").is(403) // the ticket counts, though a token is there
}

// A proof that expires ends what it has opened: nobody reads on for ever.
func TestExpiredTicketEndsItsReader(t *testing.T) {
	w := start(t, setup{})
	w.stream("s", "x")
	ticket := w.do("POST", "/v1/tickets", `{"stream":"s","ttl":"1s"}`).is(201)
	w.token = ""
	for _, accept := range []string{asSSE, asLines} {
		res := w.open("GET", ticket.text("events"), "", accept)
		body, err := io.ReadAll(res.Body)
		w.ok(err)
		res.Body.Close()
		if res.StatusCode == 200 && !strings.Contains(string(body), `"x"`) {
			t.Errorf("%s: %q", accept, body)
		}
	}
	w.do("GET", ticket.text("events"), "").refused(401, "unauthenticated")
}

func TestHostIsChecked(t *testing.T) {
	w := start(t, setup{api: api.Options{Hosts: []string{"reprise.example.org"}}})
	for host, status := range map[string]int{
		"localhost":               200,
		"localhost:1234":          200,
		"LOCALHOST":               200,
		"console.localhost:80":    200,
		"127.0.0.1":               200,
		"127.9.9.9:1":             200,
		"[::1]":                   200,
		"[::1]:7070":              200,
		"reprise.example.org":     200,
		"Reprise.Example.Org:443": 200,
		"localhost.":              200,
		"evil.example.org":        403,
		"localhost.evil.org":      403,
		"10.1.2.3":                403,
		"[::2]":                   403,
		"127.0.0.1.evil.org":      403,
		"notlocalhost":            403,
	} {
		w.do("GET", "/openapi.yaml", "", "Host: "+host).is(status)
	}
}

func TestOriginIsChecked(t *testing.T) {
	const friend = "https://console.example.org"
	w := start(t, setup{api: api.Options{Origins: []string{friend}}})
	w.stream("s", "x")
	for _, origin := range []string{
		"http://evil.example.org", "null", "file://", friend + ":8443", "http://console.example.org",
		"https://evil." + friend[8:], w.url + "0",
	} {
		a := w.do("GET", "/v1/streams", "", "Origin: "+origin).refused(403, "forbidden")
		if a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s is let in", origin)
		}
		w.do("OPTIONS", "/v1/streams", "", "Origin: "+origin, "Access-Control-Request-Method: GET").is(403)
	}
	// A browser does not tell its page why, so the log says what the operator can do.
	want := `origin=http://evil.example.org advice="--allow-origin http://evil.example.org"`
	if got := w.logged.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, want) {
		t.Errorf("the log does not name the refused origin: %s", got)
	}
	w.do("GET", "/v1/streams", "", "Origin: "+w.url).is(200)
	a := w.do("GET", "/v1/streams/s/events", "", "Origin: "+friend).is(200)
	if a.header.Get("Access-Control-Allow-Origin") != friend ||
		a.header.Get("Access-Control-Allow-Credentials") != "" || !strings.Contains(a.header.Get("Vary"), "Origin") {
		t.Errorf("header %v", a.header)
	}
	a = w.do("OPTIONS", "/v1/executions", "", "Authorization: ", "Origin: "+friend,
		"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,last-event-id").is(204)
	for _, name := range []string{"traceparent", "Cache-Control", "If-None-Match"} {
		if !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), name) {
			t.Errorf("%s may not be sent", name)
		}
	}
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin":  friend,
		"Access-Control-Allow-Methods": "POST",
		"Access-Control-Allow-Headers": "Last-Event-ID",
	} {
		if !strings.Contains(a.header.Get(name), want) {
			t.Errorf("%s: %q", name, a.header.Get(name))
		}
	}
}

func TestRequestsAreNamedAndLogged(t *testing.T) {
	w := start(t, setup{})
	w.stream("s", "x")
	ticket := w.do("POST", "/v1/tickets", `{"stream":"s"}`).is(201).text("ticket")
	a := w.do("GET", "/v1/streams/s/events?ticket="+ticket, "", "X-Request-Id: mine-1")
	if a.header.Get("X-Request-Id") != "mine-1" {
		t.Errorf("request id %q", a.header.Get("X-Request-Id"))
	}
	if a := w.do("GET", "/v1/streams", "", "X-Request-Id: bad id"); a.header.Get("X-Request-Id") == "bad id" ||
		a.header.Get("X-Request-Id") == "" {
		t.Errorf("request id %q", a.header.Get("X-Request-Id"))
	}
	w.do("GET", "/v1/streams", "", "Authorization: Bearer a-wrong-token-of-somebody")
	w.do("POST", "/v1/login", `{"token":"`+token+`"}`).is(200)
	w.do("POST", "/v1/login", `{"token":"another-wrong-token"}`).is(401)
	w.do("POST", "/v1/executions", `{"id":"one","argv":["true"]}`, "X-Request-Id: mine-2").is(201)
	w.do("GET", "/healthz", "", "X-Request-Id: probe").is(200)
	w.do("POST", "/healthz", "", "X-Request-Id: no-probe").is(405)
	var log string
	w.eventually("each request has its line", func() bool { // which comes after the answer
		log = w.logged.String()
		return strings.Contains(log, "id=no-probe ")
	})
	for _, want := range []string{
		`id=mine-2 method=POST path=/v1/executions status=201 .*principal=token tenant=default execution=one remote=`,
		`level=INFO msg=request id=no-probe .* status=405 .*code=invalid `,
		`level=DEBUG msg=request id=probe `,
		`level=DEBUG msg=request id=mine-1 method=GET path=/v1/streams/s/events status=200 .*principal=token `,
		`level=INFO msg=request id=\S+ method=GET path=/v1/streams status=401 .*code=unauthenticated `,
		`path=/v1/login status=401 bytes=\d+ took=\S+ code=unauthenticated remote=`,
	} {
		if !regexp.MustCompile(want).MatchString(log) {
			t.Errorf("no line like %s in the log: %s", want, log)
		}
	}
	for _, secret := range []string{token, ticket, ticket[:40], "a-wrong-token", "another-wrong", "ticket="} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

func TestMetricsCount(t *testing.T) {
	w := start(t, setup{})
	w.do("POST", "/v1/executions", `{"id":"x","argv":["true"]}`).is(201)
	w.ended("x")
	w.do("GET", "/v1/streams/none", "").is(404)
	w.stream("s", "x")
	w.do("GET", "/v1/streams/s/events?after=nothing", "", asSSE).is(400)
	w.do("GET", "/metrics", "", "Authorization: ").is(401)
	w.eventually("the end is counted",
		func() bool { return w.metric(`reprise_executions_ended_total{outcome="exited"}`) == "1" })
	w.eventually("nothing runs", func() bool { return w.metric(`reprise_executions{status="running"}`) == "0" })
	for name, want := range map[string]string{
		`reprise_http_requests_total{method="POST",path="/v1/executions",status="201"}`:         "1",
		`reprise_http_problems_total{code="not_found",path="/v1/streams/{name}"}`:               "1",
		`reprise_http_problems_total{code="cursor_malformed",path="/v1/streams/{name}/events"}`: "1",
		`reprise_readers`: "0",
	} {
		if got := w.metric(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if w.metric("reprise_committed_events_total") < "2" {
		t.Errorf("committed events: %s", w.metric("reprise_committed_events_total"))
	}
}

// What belongs to another tenant looks like what does not exist (G8).
func TestOtherTenantsAreNotThere(t *testing.T) {
	w := start(t, setup{})
	foreign, _, err := w.log.Create(t.Context(), reprise.StreamKey{Tenant: "other", Name: "s"}, reprise.StreamConfig{})
	w.ok(err)
	w.do("GET", "/v1/streams/s", "").refused(404, "not_found")
	w.do("DELETE", "/v1/streams/s", "").is(204)
	if _, err := foreign.Append(context.Background(), reprise.Event{}); err != nil {
		t.Errorf("it was removed: %v", err)
	}
	w.stream("s", "x")
	w.do("GET", "/v1/streams/s/events?after="+foreign.Cursor(0).String(), "").refused(400, "cursor_foreign")
	if got := names(w.do("GET", "/v1/streams", "").is(200), "streams", "name"); got != "s" {
		t.Errorf("listed: %q", got)
	}
}

// The errors of positions and access are the same for executions as for streams.
func TestExecutionEventsAreRefusedLikeStreams(t *testing.T) {
	w := start(t, setup{api: api.Options{MaxReadersPerPrincipal: 1}})
	w.do("POST", "/v1/executions", `{"id":"x","argv":["cat"],"stdin_open":true,"retention":{"max_events":1}}`).is(201)
	f := w.follow("/v1/executions/x/events", asLines)
	f.line()
	w.do("GET", "/v1/executions/x/events", "", asSSE).refused(429, "too_many_readers")
	w.do("GET", "/v1/executions/x/stdout?follow=true", "").refused(429, "too_many_readers")
	w.do("POST", "/v1/executions", `{"argv":["true"]}`, asSSE).refused(429, "too_many_readers")
	w.do("POST", "/v1/executions", `{"argv":["true"]}`, asSSE, "Last-Event-ID: junk").refused(400, "cursor_malformed")
	if ids := names(w.do("GET", "/v1/executions", ""), "executions", "id"); ids != "x" {
		t.Errorf("a start that was refused has started something: %q", ids)
	}
	f.close()
	w.do("POST", "/v1/executions/x/stdin?eof=true", "data").is(200)
	w.eventually("it has ended", func() bool { return w.do("GET", "/v1/executions/x", "").text("status") == "ended" })
	s, err := w.host.Stream(t.Context(), reprise.DefaultTenant, "x")
	w.ok(err)
	events := "/v1/executions/x/events?after="
	w.eventually("its reader has gone", func() bool {
		return w.do("GET", events+s.Cursor(99).String(), "").status != http.StatusTooManyRequests
	})
	w.do("GET", events+"junk", "").refused(400, "cursor_malformed")
	w.do("GET", events+s.Cursor(99).String(), "").refused(409, "cursor_ahead")
	a := w.do("GET", events+s.Cursor(0).String(), "", asSSE).refused(410, "cursor_expired")
	w.do("GET", events+a.text("earliest"), "").is(200)
	w.do("GET", events+a.text("tail"), "").is(200)
}

// A handler cannot break the rule that every refusal is a problem.
func TestRefusalsAreProblemsEverywhere(t *testing.T) {
	w := start(t, setup{})
	for _, call := range [][2]string{
		{"GET", "/"}, {"GET", "/v2/x"}, {"TRACE", "/v1/streams"}, {"POST", "/v1/streams/x"}, {"BREW", "/v1/login"},
	} {
		res := w.open(call[0], call[1], "")
		var p map[string]any
		err := json.NewDecoder(res.Body).Decode(&p)
		if err != nil || p["code"] == nil || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v: %d %v", call, res.StatusCode, err)
		}
		res.Body.Close()
		if res.StatusCode < http.StatusBadRequest {
			t.Errorf("%v: %d", call, res.StatusCode)
		}
	}
}
