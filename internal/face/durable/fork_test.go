package durable_test

import (
	"fmt"
	"strings"
	"testing"

	"reprise"
)

func fork(of string, more ...string) []string {
	return append([]string{"Stream-Forked-From", "/v1/stream/" + of}, more...)
}

const zero = "0000000000000000_0000000000000000"

// TestForks copy their source up to an offset, or behind it, and go on by themselves.
func TestForks(t *testing.T) {
	w := start(t, nil)
	w.want(201, "PUT", "s", `["a","b"]`, ofJSON...)
	second := w.want(204, "POST", "s", `["c","d","e"]`, ofJSON...)
	w.want(204, "POST", "s", `"f"`, with(ofJSON, "Stream-Seq", "1")...)
	for _, f := range []struct {
		header []string
		want   string
	}{
		{nil, `["a","b","c","d","e","f"]`},
		{[]string{"Stream-Fork-Offset", zero}, `[]`},
		{[]string{"Stream-Fork-Offset", second.next()}, `["a","b","c","d","e"]`},
		{[]string{"Stream-Fork-Offset", zero, "Stream-Fork-Sub-Offset", "0"}, `[]`},
		{[]string{"Stream-Fork-Offset", zero, "Stream-Fork-Sub-Offset", "3"}, `["a","b","c"]`},
		{[]string{"Stream-Fork-Offset", second.next(), "Stream-Fork-Sub-Offset", "1"}, `["a","b","c","d","e","f"]`},
	} {
		made := w.want(201, "PUT", "f", "", fork("s", f.header...)...)
		if made.header.Get("Content-Type") != "application/json" || strings.Contains(fmt.Sprint(made.header), "Fork") {
			t.Errorf("fork %q: %v", f.header, made.header)
		}
		w.want(200, "PUT", "f", "", fork("s", f.header...)...)
		w.want(409, "PUT", "f", "", fork("s", "Stream-Fork-Offset", zero, "Stream-Fork-Sub-Offset", "2")...)
		w.want(409, "PUT", "f", "", ofJSON...)
		if a := w.want(200, "GET", "f", ""); a.text != f.want {
			t.Errorf("fork %q holds %s", f.header, a.text)
		}
		w.want(204, "POST", "f", `"own"`, with(ofJSON, "Stream-Seq", "0")...)
		if a := w.want(200, "GET", "f?offset="+made.next(), ""); a.text != `["own"]` {
			t.Errorf("behind fork %q: %s", f.header, a.text)
		}
		w.want(204, "DELETE", "f", "")
	}
	for _, refused := range [][]string{
		fork("s", "Stream-Fork-Offset", "x"), fork("s", "Stream-Fork-Offset", "9999999999999999_9999999999999999"),
		fork("s", "Stream-Fork-Sub-Offset", "1"),
		fork("s", "Stream-Fork-Offset", second.next(), "Stream-Fork-Sub-Offset", "2"),
		fork("s", "Stream-Fork-Offset", zero, "Stream-Fork-Sub-Offset", "01"),
		fork("s", "Stream-Fork-Offset", zero, "Stream-Fork-Sub-Offset", "18446744073709551615"),
		{"Stream-Fork-Offset", zero},
		{"Stream-Fork-Sub-Offset", "0"},
		{"Stream-Forked-From", "/elsewhere/s"},
		{"Stream-Forked-From", "/v1/stream/%zz"},
	} {
		w.want(400, "PUT", "g", "", refused...)
	}
	w.want(404, "PUT", "g", "", fork("none")...)
	w.want(409, "PUT", "g", "", with(ofText, fork("s")...)...)
	w.want(204, "DELETE", "s", "")
	w.want(404, "GET", "s", "") // the refused ones hold nothing
}

// TestForkOfBytes cuts within an append, and inherits how long its source lives.
func TestForkOfBytes(t *testing.T) {
	w := start(t, nil)
	w.want(201, "PUT", "s", "hello", with(ofText, "Stream-TTL", "600")...)
	w.want(204, "POST", "s", " world", with(ofText, "Stream-Closed", "true")...)
	sub := []string{"Stream-Fork-Offset", zero, "Stream-Fork-Sub-Offset", "3"}
	w.want(201, "PUT", "f", "!", with(ofText, fork("s", sub...)...)...)
	if a := w.want(200, "GET", "f", ""); a.text != "hel!" || a.header.Get("Stream-Closed") != "" {
		t.Errorf("%q %v", a.text, a.header)
	}
	w.want(201, "PUT", "g", "", fork("f", sub...)...)
	if a := w.want(200, "GET", "g", ""); a.text != "hel" {
		t.Errorf("a fork of a fork: %q", a.text)
	}
	if a := w.want(200, "HEAD", "g", ""); a.header.Get("Stream-TTL") != "600" {
		t.Errorf("it lives %q", a.header.Get("Stream-TTL"))
	}
	w.want(201, "PUT", "h", "", fork("f", "Stream-TTL", "60", "Stream-Closed", "true")...)
	w.want(409, "PUT", "h", "", fork("f", "Stream-Closed", "true")...)
	if a := w.want(200, "GET", "h", ""); a.text != "hel!" || a.header.Get("Stream-Closed") != "true" {
		t.Errorf("a closed fork: %q %v", a.text, a.header)
	}
	large := strings.Repeat("x", 4<<20)
	w.want(201, "PUT", "large", large, ofText...)
	w.want(204, "POST", "large", large, ofText...)
	w.want(413, "PUT", "i", "", fork("large")...)
	w.want(204, "DELETE", "large", "")
}

// TestForksKeepTheNameOfTheirSource until the last of them is gone, over generations.
func TestForksKeepTheNameOfTheirSource(t *testing.T) {
	w := start(t, nil)
	w.want(201, "PUT", "s", "one", ofText...)
	for _, name := range []string{"f", "g", "h"} {
		w.want(201, "PUT", name, "", fork("s")...)
	}
	w.want(201, "PUT", "f2", "", fork("f")...)
	w.want(204, "DELETE", "s", "")
	w.want(204, "DELETE", "f", "")
	for _, removed := range []string{"s", "f"} {
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
			w.want(410, method, removed, "x", ofText...)
		}
		w.want(409, "PUT", removed, "", ofText...)
		w.want(409, "PUT", "new", "", fork(removed)...)
	}
	if a := w.want(200, "GET", "f2", ""); a.text != "one" {
		t.Errorf("a fork holds %q", a.text)
	}
	w.want(204, "DELETE", "h", "")
	w.want(410, "GET", "s", "")
	w.expire("g")
	w.want(410, "GET", "s", "") // f is kept for f2
	w.want(204, "DELETE", "f2", "")
	for _, key := range []string{"s", "f", "f2", "g", "h"} {
		w.want(404, "GET", key, "")
		_, err := w.Engine.Stream(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: key})
		if err == nil {
			t.Errorf("%s is still there", key)
		}
	}
	all := reprise.ListQuery{Tenant: reprise.DefaultTenant, AllNamespaces: true, Limit: 100}
	page, err := w.Engine.List(t.Context(), all)
	w.OK(err)
	if len(page.Streams) > 0 {
		t.Errorf("%d streams are left, such as %s", len(page.Streams), page.Streams[0].Key)
	}
	w.want(201, "PUT", "s", "new", ofText...)
	w.want(204, "DELETE", "s", "")
}

// TestForkOfAnotherStream that has the name of a former fork does not hold the source of that.
func TestForkOfAnotherStream(t *testing.T) {
	w := start(t, nil)
	w.want(201, "PUT", "s", "one", ofText...)
	w.want(201, "PUT", "other", "two", ofText...)
	w.want(201, "PUT", "f", "", fork("s")...)
	w.want(204, "DELETE", "f", "")
	w.want(201, "PUT", "f", "", fork("other")...)
	w.want(204, "DELETE", "s", "")
	w.want(404, "GET", "s", "")
	w.want(204, "DELETE", "other", "")
	w.want(410, "GET", "other", "")
}

// TestForkOfTrimmedStream has the offsets of its source.
func TestForkOfTrimmedStream(t *testing.T) {
	w := start(t, &reprise.Options{Retention: reprise.Retention{MaxEvents: 4}})
	w.want(201, "PUT", "s", "", ofJSON...)
	var offsets []string
	for i := range 9 {
		offsets = append(offsets, w.want(204, "POST", "s", fmt.Sprint(i), ofJSON...).next())
	}
	made := w.want(201, "PUT", "f", "", fork("s", "Stream-Fork-Offset", offsets[7])...)
	if made.next() != offsets[7] {
		t.Errorf("the fork ends at %s, want %s", made.next(), offsets[7])
	}
	if a := w.want(200, "GET", "f?offset="+offsets[5], ""); a.text != "[6,7]" {
		t.Errorf("behind an offset of the source: %s", a.text)
	}
	w.want(410, "GET", "f?offset="+offsets[2], "")
	if a := w.want(200, "GET", "f", ""); a.text != "[5,6,7]" || a.header.Get("Stream-Earliest") != offsets[4] {
		t.Errorf("from the start: %s %v", a.text, a.header)
	}
	w.want(204, "POST", "f", `"own"`, ofJSON...)
	w.want(201, "PUT", "g", "", fork("f")...)
	if a := w.want(200, "GET", "g?offset="+offsets[6], ""); a.text != `[7,"own"]` {
		t.Errorf("a fork of the fork: %s", a.text)
	}
}
