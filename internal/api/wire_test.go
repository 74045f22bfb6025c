package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"reprise"
)

// The wire contract for clients, from outside. What a client does with it is in docs/clients.md.

// TestHeadOfEveryRead: in every form, and of executions as of streams, an answer with events tells the window and,
// after the end, the outcome. So does the 204.
func TestHeadOfEveryRead(t *testing.T) {
	w := start(t, setup{})
	s := w.stream("s", "one", "two")
	head := func(a *answer) string {
		return fmt.Sprint(a.header.Get("Stream-Earliest"), " ", a.header.Get("Stream-Tail"), " ",
			a.header.Get("Stream-Outcome"))
	}
	want := fmt.Sprint(s.Cursor(0), " ", s.Cursor(2), " ")
	page := w.do("GET", "/v1/streams/s/events", "", "Accept: application/json").is(200)
	if got := head(page); got != want {
		t.Errorf("a page before the end: %s, want %s", got, want)
	}
	// after=tail needs no page first: the head says where now is.
	for _, accept := range []string{asSSE, asLines} {
		res := w.open("GET", "/v1/streams/s/events?after=tail", "", accept)
		if got := res.Header.Get("Stream-Tail"); got != s.Cursor(2).String() {
			t.Errorf("%s: the tail is %s", accept, got)
		}
		res.Body.Close()
	}
	w.do("POST", "/v1/streams/s/end", `{"outcome":"failed"}`).is(200)
	want = fmt.Sprint(s.Cursor(0), " ", s.Cursor(3), " failed")
	for _, accept := range []string{asSSE, asLines, "Accept: application/json"} {
		if got := head(w.do("GET", "/v1/streams/s/events", "", accept).is(200)); got != want {
			t.Errorf("%s: %s, want %s", accept, got, want)
		}
		if accept == asSSE || accept == asLines {
			for _, query := range []string{"after=" + s.Cursor(3).String(), "after=tail"} {
				if got := head(w.do("GET", "/v1/streams/s/events?"+query, "", accept).is(204)); got != want {
					t.Errorf("%s: 204 with %s, want %s", accept, got, want)
				}
			}
		}
		if got := head(w.do(http.MethodHead, "/v1/streams/s/events", "", accept).is(200)); got != want {
			t.Errorf("%s: HEAD with %s, want %s", accept, got, want)
		}
	}
	w.do("POST", "/v1/executions", `{"id":"x","command":"exit 3"}`).is(201)
	w.ended("x")
	a := w.do("GET", "/v1/executions/x/events", "", asSSE).is(200)
	if !strings.HasSuffix(head(a), " exited") || !strings.HasPrefix(a.header.Get("Stream-Tail"), "2.") {
		t.Errorf("an execution: %s", head(a))
	}
	// A refusal is no read.
	if got := head(w.do("GET", "/v1/streams/none/events", "", asSSE).is(404)); got != "  " {
		t.Errorf("a refusal has the head %s", got)
	}
}

// TestTypesWithMeaningsAreNotPublished: a reader must be able to trust an end and a gap, and an EventSource fires its
// own handlers for "error" and "open".
func TestTypesWithMeaningsAreNotPublished(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	const path = "/v1/streams/s/events"
	for _, kind := range []string{reprise.TypeEnd, reprise.TypeGap, reprise.TypeError, reprise.TypeOpen} {
		event := fmt.Sprintf(`{"type":%q,"data":1}`, kind)
		for _, a := range []*answer{
			w.do("POST", path, event),
			w.do("POST", path, `{"events":[{"type":"note","data":1},`+event+`]}`),
			w.do("POST", path, event+"\n", "Content-Type: application/x-ndjson"),
			w.do("POST", path+"?type="+kind, "bytes", "Content-Type: application/octet-stream"),
		} {
			if a.status < 400 || a.status >= 500 || a.text("code") != "invalid" {
				t.Errorf("an event of type %s: status %d: %s", kind, a.status, a.body)
			}
		}
	}
	for _, kind := range []string{"errors", "Error", "opened", "message", "cursor"} {
		w.do("POST", path, fmt.Sprintf(`{"type":%q,"data":1}`, kind)).is(200)
	}
	if got := w.do("GET", path, "", "Accept: application/json").member("events").([]any); len(got) != 5 {
		t.Errorf("%d events are kept, want 5", len(got))
	}
}

// TestGapEventNeverHidesAMistake: a malformed or foreign cursor is refused whatever the reader asks for, in every
// form. It must not become a replay.
func TestGapEventNeverHidesAMistake(t *testing.T) {
	w := start(t, setup{})
	s := w.stream("s", "one", "two")
	other := w.stream("other", "one", "two")
	cursor := s.Cursor(1).String()
	forged := cursor[:len(cursor)-1] + map[bool]string{true: "1", false: "0"}[strings.HasSuffix(cursor, "0")]
	for name, tt := range map[string]struct{ after, code string }{
		"malformed":        {"junk", "cursor_malformed"},
		"cut off":          {cursor[:len(cursor)-3], "cursor_malformed"},
		"of no epoch":      {"1..", "cursor_malformed"},
		"of another":       {other.Cursor(1).String(), "cursor_foreign"},
		"with another tag": {forged, "cursor_foreign"},
		"with another seq": {"-" + cursor, "cursor_malformed"},
	} {
		for _, accept := range []string{asSSE, asLines, "Accept: application/json"} {
			for _, header := range []bool{true, false} {
				path, last := "/v1/streams/s/events?gap=event", "Last-Event-ID: "+tt.after
				if !header {
					path, last = path+"&after="+tt.after, "Last-Event-ID: "
				}
				a := w.do("GET", path, "", accept, last)
				if a.status != 400 || a.text("code") != tt.code {
					t.Errorf("%s, %s: status %d: %s, want %s", name, accept, a.status, a.body, tt.code)
				}
			}
		}
	}
}
