package api_test

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/execution"
)

const (
	asSSE   = "Accept: text/event-stream"
	asLines = "Accept: application/x-ndjson"
)

func TestFormsByAccept(t *testing.T) {
	w := start(t, setup{})
	s := w.stream("s", "x")
	_, err := s.End(t.Context(), "completed",
		reprise.Event{Data: []byte(`{"outcome":"completed"}`), Format: reprise.FormatMembers})
	w.ok(err)
	for accept, want := range map[string]string{
		"":                  "application/json",
		"*/*":               "application/json",
		"application/*":     "application/json",
		"application/json":  "application/json",
		"text/event-stream": "text/event-stream",
		"text/*":            "text/event-stream",
		"TEXT/Event-Stream": "text/event-stream",
		"application/json;q=0.5, text/event-stream":         "text/event-stream",
		"text/event-stream;q=0, */*":                        "application/json",
		"application/x-ndjson, application/json;q=0.9":      "application/x-ndjson",
		"text/event-stream, application/json":               "text/event-stream",
		"application/json, text/event-stream":               "text/event-stream",
		"*/*, text/event-stream":                            "text/event-stream",
		"application/json, application/x-ndjson":            "application/x-ndjson",
		"application/json, text/*":                          "application/json",
		"text/html,application/xhtml+xml,*/*;q=0.8":         "application/json",
		"application/x-ndjson;q=nonsense, application/json": "application/json",
	} {
		a := w.do("GET", "/v1/streams/s/events", "", "Accept: "+accept).is(200)
		if got := a.header.Get("Content-Type"); got != want {
			t.Errorf("Accept %q: %q, want %q", accept, got, want)
		}
		if a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("Accept %q: header %v", accept, a.header)
		}
		head := w.do("HEAD", "/v1/streams/s/events", "", "Accept: "+accept).is(200)
		if got := head.header.Get("Content-Type"); got != want || head.body != "" {
			t.Errorf("HEAD with Accept %q: %q %q", accept, got, head.body)
		}
	}
	w.do("GET", "/v1/streams/s/events", "", "Accept: text/html").is(406)
	w.do("GET", "/v1/streams/s/events?limit=5", "", asSSE).refused(400, "invalid")
	w.do("GET", "/v1/streams/s/events?limit=5", "", asLines).refused(400, "invalid")
	w.do("POST", "/v1/executions", `{"id":"x","argv":["true"]}`).is(201)
	w.do("GET", "/v1/executions/x/events", "", "Accept: text/html").refused(406, "invalid")
}

func TestEveryFormResumes(t *testing.T) {
	w := start(t, setup{})
	s := w.stream("s", "one", "two", "three")
	_, err := s.End(t.Context(), "completed",
		reprise.Event{Data: []byte(`{"outcome":"completed"}`), Format: reprise.FormatMembers})
	w.ok(err)
	after := func(seq uint64) string { return "/v1/streams/s/events?after=" + s.Cursor(seq).String() }
	for _, accept := range []string{asSSE, asLines, "Accept: application/json"} {
		for _, resume := range [][]string{
			{after(1), accept},
			{after(3), accept, "Last-Event-ID: " + s.Cursor(1).String()},
		} {
			body := w.do("GET", resume[0], "", resume[1:]...).is(200).body
			if strings.Contains(body, `"one"`) || !strings.Contains(body, `"two"`) ||
				!strings.Contains(body, `"outcome"`) {
				t.Errorf("%s: %s", accept, body)
			}
		}
	}
	for _, accept := range []string{asSSE, asLines} {
		for _, path := range []string{after(4), "/v1/streams/s/events?after=tail", after(4) + "&types=x&gap=event"} {
			if a := w.do("GET", path, "", accept).is(204); a.header.Get("Stream-Outcome") != "completed" {
				t.Errorf("%s: a client does not believe the 204 of %s: %v", accept, path, a.header)
			}
		}
	}
	a := w.do("GET", after(4), "").is(200)
	if a.member("ended") != true || a.text("next_cursor") != s.Cursor(4).String() {
		t.Errorf("page at the end: %s", a.body)
	}
	w.do("POST", "/v1/executions", `{"id":"x","argv":["true"]}`).is(201)
	w.ended("x")
	a = w.do("GET", "/v1/executions/x/events?after=tail", "", asSSE).is(204)
	if a.header.Get("Stream-Outcome") != "exited" {
		t.Errorf("a client does not believe the 204 of an execution: %v", a.header)
	}
}

// An answer with wait is complete soon, for clients behind a proxy that passes nothing on before.
func TestFollowedAnswersEndWithWhatThereIs(t *testing.T) {
	w := start(t, setup{})
	for name, accept := range map[string]string{"s": asSSE, "l": asLines} {
		s, path := w.stream(name, "one", "two"), "/v1/streams/"+name+"/events?wait=60s&after="
		if body := w.do("GET", path, "", accept).is(200).body; !strings.Contains(body, `"two"`) {
			t.Errorf("%s: %s", accept, body)
		}
		left := w.do("GET", path+"&types=other", "", accept).is(200).body
		if strings.Contains(left, `"two"`) || !strings.Contains(left, s.Cursor(2).String()) {
			t.Errorf("%s: the answer does not say that both were left out: %q", accept, left)
		}
		f := w.follow(path+"tail", accept)
		_, err := s.Append(t.Context(), reprise.Event{Type: "x", Data: []byte("later")})
		w.ok(err)
		if rest, err := io.ReadAll(f.body); err != nil || !strings.Contains(string(rest), `"later"`) {
			t.Errorf("%s: %v, %q", accept, err, rest)
		}
	}
	empty := w.do("GET", "/v1/streams/s/events?wait=40ms&after=tail", "", asSSE).is(200).body
	if !strings.HasPrefix(empty, "retry: 1000\n:\n") || !strings.HasSuffix(empty, ":\nretry: 250\n") {
		t.Errorf("the answer that has waited in vain: %q", empty)
	}
}

func TestPagesHaveEachEventOnce(t *testing.T) {
	w := start(t, setup{})
	s := w.stream("s")
	for i := range 25 {
		_, err := s.Append(t.Context(), reprise.Event{Type: []string{"odd", "even"}[i%2], Data: fmt.Append(nil, i)})
		w.ok(err)
	}
	seen, cursor := 0, ""
	for range 3 {
		a := w.do("GET", "/v1/streams/s/events?limit=10&after="+cursor, "").is(200)
		events, _ := a.member("events").([]any)
		for _, e := range events {
			seen++
			if got := e.(map[string]any)["seq"]; got != float64(seen) {
				t.Fatalf("event %v in the place of %d", got, seen)
			}
		}
		cursor = a.text("next_cursor")
		if more := a.member("has_more"); more != (seen < 25) || a.member("ended") != false {
			t.Errorf("after %d: %v", seen, more)
		}
	}
	if seen != 25 || cursor != s.Cursor(25).String() {
		t.Errorf("%d events, cursor %s", seen, cursor)
	}
	if a := w.do(
		"GET", "/v1/streams/s/events?types=odd&limit=1000", "",
	).is(200); len(a.member("events").([]any)) != 13 || a.text("next_cursor") != cursor {
		t.Errorf("filtered: %s", a.body)
	}
	if a := w.do("GET", "/v1/streams/s/events?types=none", "").is(200); len(a.member("events").([]any)) != 0 ||
		a.text("next_cursor") != cursor {
		t.Errorf("filtered to nothing: %s", a.body)
	}
	waited := w.do("GET", "/v1/streams/s/events?wait=10ms&after="+cursor, "").is(200)
	if len(waited.member("events").([]any)) != 0 {
		t.Errorf("waited for nothing: %s", waited.body)
	}
	for _, query := range []string{
		"limit=0", "limit=1001", "wait=61s", "wait=-1s", "wait=soon", "gap=maybe", "types=,", "after=1&after=2",
		"follow=true",
	} {
		w.do("GET", "/v1/streams/s/events?"+query, "").refused(400, "invalid")
	}
}

// TestPagesByOffset: a whole number is the seq in the present epoch, and answered with another one.
func TestPagesByOffset(t *testing.T) {
	w := start(t, setup{})
	s := w.stream("s")
	for i := range 25 {
		_, err := s.Append(t.Context(), reprise.Event{Data: fmt.Append(nil, i)})
		w.ok(err)
	}
	seen, cursor := 0, 0.0
	for range 3 {
		a := w.do("GET", fmt.Sprintf("/v1/streams/s/events?limit=10&cursor=%v", cursor), "").is(200)
		events, _ := a.member("events").([]any)
		for _, e := range events {
			if seen++; e.(map[string]any)["seq"] != float64(seen) {
				t.Fatalf("event %v in the place of %d", e, seen)
			}
		}
		next, ok := a.member("next_cursor").(float64)
		if !ok || next != float64(seen) || a.member("has_more") != (seen < 25) {
			t.Fatalf("after %d: %s", seen, a.body)
		}
		cursor = next
	}
	if seen != 25 {
		t.Errorf("%d events", seen)
	}
	a := w.do("GET", "/v1/streams/s/events?cursor=3&limit=1", "", "Last-Event-ID: "+s.Cursor(7).String()).is(200)
	if a.member("next_cursor") != 8.0 {
		t.Errorf("the header does not win: %s", a.body)
	}
	w.do("GET", "/v1/streams/s/events?cursor=26", "").refused(409, "cursor_ahead")
	w.do("GET", "/v1/streams/s/events?cursor=1", "", asSSE).refused(400, "invalid")
	for _, query := range []string{
		"cursor=-1", "cursor=x", "cursor=1.5", "cursor=1&after=0", "cursor=99999999999999999999",
	} {
		w.do("GET", "/v1/streams/s/events?"+query, "").refused(400, "invalid")
	}
	_, err := s.End(t.Context(), "completed",
		reprise.Event{Data: []byte(`{"outcome":"completed"}`), Format: reprise.FormatMembers})
	w.ok(err)
	w.ok(s.Trim(t.Context(), 10))
	w.do("GET", "/v1/streams/s/events?cursor=3", "").refused(410, "cursor_expired")
	a = w.do("GET", "/v1/streams/s/events?cursor=0&limit=1&gap=event", "").is(200) // 0 is the earliest event
	first := a.member("events").([]any)[0].(map[string]any)
	if first["seq"] != 10.0 || a.header.Get("Stream-Missed") != "9" {
		t.Errorf("a page from 0 begins with %v, %v", first, a.header)
	}
	a = w.do("GET", "/v1/streams/s/events?after=0&limit=1&gap=event", "").is(200)
	first = a.member("events").([]any)[0].(map[string]any)
	if first["type"] != "gap" || first["missed"] != 9.0 {
		t.Errorf("a page from the first event begins with %v", first)
	}
}

func TestPageWaitsForTheFirstEvent(t *testing.T) {
	w := start(t, setup{})
	s := w.stream("s")
	got := make(chan *answer)
	go func() { got <- w.do("GET", "/v1/streams/s/events?wait=60s&types=note", "") }()
	w.eventually("a reader waits", func() bool { return w.metric("reprise_readers") == "1" })
	_, err := s.Append(t.Context(), reprise.Event{Type: "other"}, reprise.Event{Type: "note", Data: []byte("here")})
	w.ok(err)
	if a := (<-got).is(200); names(a, "events", "text") != "here" || a.text("next_cursor") != s.Cursor(2).String() {
		t.Errorf("page: %s", a.body)
	}
}

func TestPagesAreBoundedInBytes(t *testing.T) {
	w := start(t, setup{})
	big := strings.Repeat("x", 1<<20)
	w.stream("s", big, big, big, big, big, big)
	a := w.do("GET", "/v1/streams/s/events?limit=1000", "").is(200)
	if n := len(a.member("events").([]any)); n != 4 || a.member("has_more") != true {
		t.Errorf("%d events of a MiB, has_more %v", n, a.member("has_more"))
	}
}

func TestLinesFollowALiveStream(t *testing.T) {
	w := start(t, setup{api: api.Options{Heartbeat: 10 * time.Millisecond}})
	s := w.stream("s", "one")
	f := w.follow("/v1/streams/s/events?types=note,end", asLines)
	line := f.line()
	if !strings.Contains(line, `"type":"note","seq":1,`) || !strings.Contains(line, `"cursor":"`+s.Cursor(1).String()) {
		t.Errorf("line %q", line)
	}
	if blank, err := f.in.ReadString('\n'); err != nil || blank != "\n" { // a heartbeat
		t.Errorf("%q, %v in the place of a heartbeat", blank, err)
	}
	_, err := s.Append(t.Context(), reprise.Event{Type: "other"})
	w.ok(err)
	if line := f.line(); line != `{"cursor":"`+s.Cursor(2).String()+`"}` {
		t.Errorf("line %q in the place of a move of the cursor", line)
	}
	_, err = s.End(t.Context(), "failed",
		reprise.Event{Data: []byte(`{"outcome":"failed"}`), Format: reprise.FormatMembers})
	w.ok(err)
	if line := f.line(); !strings.Contains(line, `"type":"end","seq":3,`) {
		t.Errorf("line %q", line)
	}
	moved := w.do("GET", "/v1/streams/s/events?types=other&cursors=event", "", asLines).is(200).body
	if want := `{"cursor":"` + s.Cursor(3).String() + `","type":"cursor"}` + "\n"; !strings.HasSuffix(moved, want) {
		t.Errorf("%q does not end with %q", moved, want)
	}
	w.do("GET", "/v1/streams/s/events?types=other&cursors=event", "", asSSE).is(200)
	w.do("GET", "/v1/streams/s/events?cursors=maybe", "", asSSE).refused(400, "invalid")
	if line := f.line(); line != "" {
		t.Errorf("line %q after the end", line)
	}
	f.close()
}

func TestGapsAreToldInEveryForm(t *testing.T) {
	w := start(t, setup{})
	s, _, err := w.log.Create(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"},
		reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 2}})
	w.ok(err)
	for range 5 {
		_, err := s.Append(t.Context(), reprise.Event{Data: []byte("x")})
		w.ok(err)
	}
	_, err = s.End(t.Context(), "completed",
		reprise.Event{Data: []byte(`{"outcome":"completed"}`), Format: reprise.FormatMembers})
	w.ok(err)
	info, err := s.Info(t.Context())
	w.ok(err)
	missed := fmt.Sprintf(`"missed":%d`, info.Earliest-1)
	path := "/v1/streams/s/events?after=" + s.Cursor(0).String()
	for _, accept := range []string{asSSE, asLines, "Accept: application/json"} {
		w.do("GET", path, "", accept).refused(410, "cursor_expired")
		body := w.do("GET", path+"&gap=event", "", accept).is(200).body
		if !strings.Contains(body, missed) || !strings.Contains(body, `"seq":6`) ||
			!strings.Contains(body, `"code":"cursor_expired"`) {
			t.Errorf("%s: %s", accept, body)
		}
		ahead := "/v1/streams/s/events?gap=event&after=" + s.Cursor(9).String()
		body = w.do("GET", ahead, "", accept).is(200).body
		if !strings.Contains(body, `"code":"cursor_ahead"`) || !strings.Contains(body, `"seq":6`) {
			t.Errorf("%s: %s", accept, body)
		}
		// A mistake of the client is no gap.
		w.do("GET", "/v1/streams/s/events?after=junk&gap=event", "", accept).refused(400, "cursor_malformed")
	}
}

func TestReadersPerPrincipalAreBounded(t *testing.T) {
	w := start(t, setup{api: api.Options{MaxReadersPerPrincipal: 1}})
	w.stream("s", "x")
	f := w.follow("/v1/streams/s/events", asLines)
	for _, accept := range []string{asSSE, asLines} {
		a := w.do("GET", "/v1/streams/s/events", "", accept).refused(429, "too_many_readers")
		if a.header.Get("Retry-After") == "" || a.member("retryable") != true {
			t.Errorf("%v %s", a.header, a.body)
		}
	}
	w.do("GET", "/v1/streams/s/events", "").is(200) // a look is no reader
	f.close()
	w.eventually("the reader is gone", func() bool {
		return w.do("GET", "/v1/streams/s/events?wait=1ms", "").status == 200
	})
}

// TestReaderEndsNoRunByLeaving: a key with the scope read, and a ticket, do not cancel a run with kill_on_disconnect by
// leaving it. The key that has started it does.
func TestReaderEndsNoRunByLeaving(t *testing.T) {
	w := start(t, setup{host: execution.Options{DisconnectGrace: time.Nanosecond}})
	_, starter := w.key(reprise.DefaultTenant, "run", "read")
	_, reader := w.key(reprise.DefaultTenant, "read")
	w.with(starter, func() {
		w.do("POST", "/v1/executions",
			`{"id":"k","command":"echo up; exec sleep 60","kill_on_disconnect":true}`).is(201)
	})
	ticket := w.do("POST", "/v1/tickets", `{"execution":"k"}`).is(201).text("ticket")
	leave := func(query string) {
		f := w.follow("/v1/executions/k/events"+query, asLines)
		f.line()
		f.close()
	}
	for range 20 {
		w.with(reader, func() {
			leave("")
			w.do("GET", "/v1/executions/k/events?wait=1ms", "").is(200)
		})
		w.with("", func() { leave("?ticket=" + url.QueryEscape(ticket)) })
		if a := w.do("GET", "/v1/executions/k", "").is(200); a.text("status") == "ended" {
			t.Fatalf("a reader has ended it: %s", a.body)
		}
	}
	w.with(starter, func() { leave("") })
	w.eventually("the run is cancelled", func() bool {
		return w.do("GET", "/v1/executions/k", "").text("outcome") == "cancelled"
	})
}

// Reading is harmless (G5): a look is not taken for somebody who follows and leaves.
func TestOnlyFollowersKeepARunAlive(t *testing.T) {
	w := start(t, setup{host: execution.Options{DisconnectGrace: time.Nanosecond}})
	w.do("POST", "/v1/executions", `{"id":"k","argv":["sleep","60"],"kill_on_disconnect":true}`).is(201)
	for range 20 {
		w.do("GET", "/v1/executions/k/events", "").is(200)
		w.do("GET", "/v1/executions/k/stdout", "").is(200)
		w.do("HEAD", "/v1/executions/k/events", "", asSSE).is(200)
		if a := w.do("GET", "/v1/executions/k", "").is(200); a.text("status") == "ended" {
			t.Fatalf("a look has ended it: %s", a.body)
		}
	}
	f := w.follow("/v1/executions/k/events", asLines)
	f.line()
	f.close()
	w.eventually("the run is cancelled", func() bool {
		return w.do("GET", "/v1/executions/k", "").text("outcome") == "cancelled"
	})
}
