package api_test

import (
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/serverproof"
)

// TestTicketIsRenewedByItself: a page that has nothing but its ticket gets another one for the same stream and no
// other, until the credential behind it is gone.
func TestTicketIsRenewedByItself(t *testing.T) {
	w := start(t, setup{})
	w.stream("a/b", "in a/b")
	w.do("POST", "/v1/executions", `{"id":"x","command":"echo out"}`).is(201)
	w.ended("x")
	id, key := w.key(reprise.DefaultTenant, "read:a/", "read")
	for _, body := range []string{`{"stream":"a/b"}`, `{"execution":"x","ttl":"1h"}`} {
		w.token = key
		first := w.do("POST", "/v1/tickets", body).is(201)
		w.token = ""
		renewed := w.do("POST", "/v1/tickets/renew?ticket="+url.QueryEscape(first.text("ticket")), "").is(201)
		if was, is := first.text("expires"), renewed.text("expires"); is < was {
			t.Errorf("%s: the first expires at %s, the other at %s", body, was, is)
		}
		w.do("GET", first.text("events"), "").is(200)
		w.do("GET", renewed.text("events"), "").is(200)
		ticket := "?ticket=" + url.QueryEscape(renewed.text("ticket"))
		w.do("POST", "/v1/tickets/renew"+ticket, "").is(201)
		w.do("GET", "/v1/streams/other/events"+ticket, "").refused(403, "forbidden")
		w.do("POST", "/v1/tickets"+ticket, body).refused(403, "forbidden")
		w.do("POST", "/v1/tickets/renew"+ticket+"x", "").refused(401, "unauthenticated")
	}
	w.do("POST", "/v1/tickets/renew", "").refused(401, "unauthenticated")
	w.token = key
	w.do("POST", "/v1/tickets/renew", "").refused(400, "invalid")
	longest := w.do("POST", "/v1/tickets", `{"stream":"a/b","ttl":"`+identity.MaxTicketTTL.String()+`"}`).is(201)
	path := "/v1/tickets/renew?ticket=" + url.QueryEscape(longest.text("ticket"))
	w.do("POST", path, "").refused(403, "forbidden") // it lives as long as it can
	ticket := w.do("POST", "/v1/tickets", `{"stream":"a/b"}`).is(201).text("ticket")
	_, err := w.keys.Revoke(w.Context(), id)
	w.ok(err)
	w.token = ""
	w.do("POST", "/v1/tickets/renew?ticket="+url.QueryEscape(ticket), "").refused(401, "unauthenticated")
}

// TestExpiredTicketIsTold: a page that follows is told by an event without an id that its ticket has expired, and that
// is the last of the response. Who shows another credential is not.
func TestExpiredTicketIsTold(t *testing.T) {
	w := start(t, setup{})
	w.stream("s", "x")
	for ttl := 2 * time.Second; ; ttl *= 2 {
		ticket := w.do("POST", "/v1/tickets", `{"stream":"s","ttl":"`+ttl.String()+`"}`).is(201)
		res := w.open("GET", ticket.text("events"), "", asSSE)
		body, err := io.ReadAll(res.Body)
		w.ok(err)
		res.Body.Close()
		if res.StatusCode == 401 && ttl < time.Minute {
			continue // the machine is busy, and it had expired
		}
		_, told, found := strings.Cut(string(body), "event: expired\n")
		if res.StatusCode != 200 || !strings.Contains(string(body), `"x"`) || !found ||
			!strings.Contains(told, `"code":"unauthenticated"`) || strings.Contains(told, "id:") ||
			!strings.HasSuffix(told, "\n\n") {
			t.Errorf("%d %q", res.StatusCode, body)
		}
		return
	}
}

// TestServerProvesItself: over the connection that asks, to everybody, and by a code that has the address in it.
func TestServerProvesItself(t *testing.T) {
	w := start(t, setup{})
	w.token = ""
	challenge := strings.Repeat("c", 26)
	proof := w.do("GET", "/v1/proof?challenge="+challenge, "").is(200).text("proof")
	address := strings.TrimPrefix(w.url, "http://")
	if !serverproof.Good(proof, token, challenge, address) {
		t.Errorf("the proof %q", proof)
	}
	if serverproof.Good(proof, token, challenge, "127.0.0.1:1") ||
		serverproof.Good(proof, token+"x", challenge, address) {
		t.Errorf("the proof %q is good for others", proof)
	}
	for _, bad := range []string{"", "short", strings.Repeat("c", 129)} {
		w.do("GET", "/v1/proof?challenge="+bad, "").refused(400, "invalid")
	}
}

// TestTicketCountsHoweverItsNameIsWritten: a ticket comes before a token, also if the query spells its name in escapes.
func TestTicketCountsHoweverItsNameIsWritten(t *testing.T) {
	w := start(t, setup{})
	w.stream("s", "x")
	for _, name := range []string{"ticket", "%74icket", "t%69ck%65t", "%74%69%63%6B%65%74"} {
		w.do("GET", "/v1/streams/s/events?"+name+"=bad", "").refused(401, "unauthenticated")
		w.do("GET", "/v1/streams/s/events?limit=1&"+name+"=bad", "").refused(401, "unauthenticated")
	}
	w.do("GET", "/v1/streams/s/events?types=%74icket", "").is(200)
	w.do("GET", "/v1/streams/s/events?types=ticket", "").is(200)
}

// TestPathsAreTakenAsTheyAre: a path with empty segments or dots is none of the server's, and is not redirected.
func TestPathsAreTakenAsTheyAre(t *testing.T) {
	w := start(t, setup{})
	w.stream("s", "x")
	for _, path := range []string{
		"//v1/streams", "/v1//streams", "/v1/streams/", "/v1/streams//s", "/v1/./streams", "/v1/keys/../streams",
		"/..", "/v1/streams/s/..", "/.", "//",
	} {
		w.do("GET", path, "").refused(404, "not_found")
	}
	w.do("GET", "/v1/streams/s", "").is(200)
}

// TestMediaTypesWithParameters: types are compared without their parameters and in any case.
func TestMediaTypesWithParameters(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	for _, typ := range []string{"application/json", "Application/JSON", "application/json; charset=utf-8"} {
		w.do("POST", "/v1/streams/s/events", `{"type":"a","data":1}`, "Content-Type: "+typ).is(200)
	}
	w.do("POST", "/v1/streams/s/end", `{"outcome":"completed"}`).is(200)
	if n := strings.Count(w.do("GET", "/v1/streams/s/events", "").body, `"type":"a"`); n != 3 {
		t.Errorf("%d events with a type, want 3", n)
	}
	for accept, want := range map[string]string{
		"text/event-stream":                                   "text/event-stream",
		"text/event-stream;q=0.9":                             "text/event-stream",
		"application/json, text/event-stream;q=0.5":           "application/json",
		"TEXT/event-stream; charset=utf-8":                    "text/event-stream",
		"application/x-ndjson":                                "application/x-ndjson",
		"application/x-ndjson;q=0.2, text/event-stream;q=0.1": "application/x-ndjson",
	} {
		answer := w.do("GET", "/v1/streams/s/events", "", "Accept: "+accept).is(200)
		if is, _, _ := strings.Cut(answer.header.Get("Content-Type"), ";"); is != want {
			t.Errorf("Accept: %s: %q, want %q", accept, is, want)
		}
	}
	w.do("GET", "/v1/streams/s/events", "", "Accept: text/event-stream;q=0").is(406)
}
