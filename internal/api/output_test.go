package api_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"reprise"
)

func TestOutputByRange(t *testing.T) {
	w := start(t, setup{})
	w.do("POST", "/v1/executions", `{"id":"x","command":"printf 0123456789; printf '\\377\\000' >&2"}`).is(201)
	w.ended("x")
	if got := w.do("GET", "/v1/executions/x/stderr", "").is(200).body; got != "\xff\x00" {
		t.Errorf("stderr %q", got)
	}
	path := "/v1/executions/x/stdout"
	for _, c := range []struct {
		asked        string
		status       int
		body, ranged string
	}{
		{"", 200, "0123456789", ""},
		{"bytes=0-3", 206, "0123", "bytes 0-3/10"},
		{"bytes=4-", 206, "456789", "bytes 4-9/10"},
		{"bytes=-3", 206, "789", "bytes 7-9/10"},
		{"bytes=-30", 206, "0123456789", "bytes 0-9/10"},
		{"bytes=8-100", 206, "89", "bytes 8-9/10"},
		{"Bytes=9-9", 206, "9", "bytes 9-9/10"},
		{"bytes=10-", 416, "", "bytes */10"},
		{"bytes=-0", 416, "", "bytes */10"},
		{"bytes=3-1", 200, "0123456789", ""},
		{"bytes=0-1,3-4", 200, "0123456789", ""},
		{"bytes=a-", 200, "0123456789", ""},
		{"bytes=+1-", 200, "0123456789", ""},
		{"bytes=99999999999999999999-", 416, "", "bytes */10"},
		{"bytes=8-99999999999999999999", 206, "89", "bytes 8-9/10"},
		{"bytes=-99999999999999999999", 206, "0123456789", "bytes 0-9/10"},
		{"lines=0-1", 200, "0123456789", ""},
	} {
		a := w.do("GET", path, "", "Range: "+c.asked).is(c.status)
		if c.status != 416 && a.body != c.body || a.header.Get("Content-Range") != c.ranged {
			t.Errorf("%q: %q, Content-Range %q", c.asked, a.body, a.header.Get("Content-Range"))
		}
		if c.status != 416 && a.header.Get("Content-Length") != fmt.Sprint(len(c.body)) {
			t.Errorf("%q: Content-Length %s", c.asked, a.header.Get("Content-Length"))
		}
		w.wholeHead(path, "10", "Range: "+c.asked)
	}
	if a := w.do("GET", path, "", "Range: bytes=0-3", "If-Range: \"x\"").is(200); a.body != "0123456789" {
		t.Errorf("If-Range without a validator: %q", a.body)
	}
	for query, want := range map[string]string{
		"offset=4": "456789", "offset=10": "", "offset=4&follow=true": "456789", "follow=true": "0123456789",
	} {
		if got := w.do("GET", path+"?"+query, "").is(200).body; got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	w.do("GET", path+"?offset=11", "").is(416)
	w.do("GET", path+"?offset=11&follow=true", "").is(416)
	w.do("GET", path+"?offset=-1", "").refused(400, "invalid")
	w.do("GET", path+"?follow=perhaps", "").refused(400, "invalid")
	w.do("GET", "/v1/executions/none/stdout", "").refused(404, "not_found")
}

func TestOutputIsFollowed(t *testing.T) {
	w := start(t, setup{})
	w.do("POST", "/v1/executions", `{"id":"x","argv":["cat"],"stdin_open":true}`).is(201)
	f := w.follow("/v1/executions/x/stdout?follow=true")
	for _, word := range []string{"first", "second"} {
		w.do("POST", "/v1/executions/x/stdin", word+"\n").is(200)
		if line := f.line(); line != word {
			t.Errorf("followed %q, want %q", line, word)
		}
	}
	w.do("POST", "/v1/executions/x/stdin?eof=true", "last").is(200)
	rest, err := io.ReadAll(f.in)
	if string(rest) != "last" || err != nil {
		t.Errorf("rest %q, %v", rest, err)
	}
	f.close()
}

func TestOutputWhoseBeginningIsLost(t *testing.T) {
	w := start(t, setup{})
	w.do("POST", "/v1/executions",
		`{"id":"x","command":"while read i; do echo line $i; done","stdin_open":true,"retention":{"max_events":3}}`).
		is(201)
	for i := range int64(9) { // each line is an event
		w.do("POST", "/v1/executions/x/stdin", fmt.Sprintln(i+1)).is(200)
		w.eventually("the line is kept", func() bool {
			return w.do("GET", "/v1/executions/x", "").is(200).number("bytes", "stdout") == 7*(i+1)
		})
	}
	w.do("POST", "/v1/executions/x/stdin?eof=true", "").is(200)
	w.eventually("it has ended", func() bool { return w.do("GET", "/v1/executions/x", "").text("status") == "ended" })
	a := w.do("GET", "/v1/executions/x/stdout", "").refused(410, "cursor_expired")
	if !strings.Contains(a.text("detail"), "stdout") {
		t.Errorf("detail: %s", a.body)
	}
	w.do("HEAD", "/v1/executions/x/stdout", "").is(410)
	if got := w.do("GET", "/v1/executions/x/stdout", "", "Range: bytes=-7").is(206).body; got != "line 9\n" {
		t.Errorf("the last bytes: %q", got)
	}
}

// 4 MB of what a program may print come back as they were.
func TestOutputIsExact(t *testing.T) {
	w := start(t, setup{log: reprise.Options{Retention: reprise.Retention{MaxEvents: 1 << 20, MaxBytes: 1 << 30}}})
	w.do("POST", "/v1/executions", `{"id":"x","command":"head -c 4000000 /dev/zero | tr '\\0' '\\377'"}`).is(201)
	w.ended("x")
	got := w.do("GET", "/v1/executions/x/stdout", "").is(200).body
	if got != strings.Repeat("\xff", 4_000_000) {
		t.Errorf("%d bytes", len(got))
	}
}
