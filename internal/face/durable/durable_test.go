package durable_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"reprise"
)

// TestLifeOfStream creates, appends, reads, closes and removes.
func TestLifeOfStream(t *testing.T) {
	w := start(t, nil)
	made := w.want(201, "PUT", "a/b", "", ofJSON...)
	if at := made.header.Get("Location"); at != w.URL+"/v1/stream/a/b" || made.next() != zero {
		t.Errorf("made at %q, next %q", at, made.next())
	}
	w.want(200, "PUT", "a/b", "", "Content-Type", "Application/JSON; charset=utf-8")
	w.want(409, "PUT", "a/b", "", ofText...)
	w.want(400, "PUT", "long", "", "Content-Type", "text/"+strings.Repeat("x", 300))
	w.want(409, "PUT", "a/b", "", with(ofJSON, "Stream-TTL", "60")...)
	first := w.want(204, "POST", "a/b", ` [{"n": 1}, [2]] `, ofJSON...)
	w.want(204, "POST", "a/b", `3`, ofJSON...)
	if all := w.want(200, "GET", "a/b", ""); all.text != `[{"n":1},[2],3]` ||
		all.header.Get("Stream-Up-To-Date") != "true" || all.header.Get("Stream-Closed") != "" {
		t.Errorf("read %s %v", all.text, all.header)
	}
	if rest := w.want(200, "GET", "a/b?offset="+first.next(), ""); rest.text != `[3]` {
		t.Errorf("behind the first append: %s", rest.text)
	}
	for _, refused := range []string{``, `[]`, `{`, `[1,]`, `[1`, `1 2`, "[\"\xff\"]", `[1] 2`} {
		w.want(400, "POST", "a/b", refused, ofJSON...)
	}
	w.want(400, "POST", "a/b", `1`)
	w.want(409, "POST", "a/b", `1`, ofText...)
	closed := w.want(204, "POST", "a/b", `4`, with(ofJSON, "Stream-Closed", "TRUE")...)
	if closed.header.Get("Stream-Closed") != "true" {
		t.Error("the answer to closing does not say so")
	}
	w.want(204, "POST", "a/b", "", "Stream-Closed", "true")
	for _, header := range [][]string{ofJSON, with(ofJSON, "Stream-Closed", "true"), ofText} {
		late := w.want(409, "POST", "a/b", `5`, header...)
		if late.header.Get("Stream-Closed") != "true" || late.next() != closed.next() {
			t.Errorf("an append to a closed stream: %v", late.header)
		}
	}
	end := w.want(200, "GET", "a/b?offset="+closed.next(), "")
	if end.text != "[]" || end.header.Get("Stream-Closed") != "true" || end.next() != closed.next() {
		t.Errorf("at the end: %s %v", end.text, end.header)
	}
	w.want(409, "PUT", "a/b", "", ofJSON...)
	w.want(200, "PUT", "a/b", "", with(ofJSON, "Stream-Closed", "true")...)
	w.want(204, "DELETE", "a/b", "")
	w.want(404, "DELETE", "a/b", "")
	w.want(404, "GET", "a/b", "")
	w.want(404, "POST", "a/b", "1", ofJSON...)
	w.want(201, "PUT", "a/b", `"new"`, with(ofText, "Stream-Closed", "true")...)
	if again := w.want(200, "GET", "a/b", ""); again.text != `"new"` || again.header.Get("Stream-Closed") != "true" {
		t.Errorf("the next stream of the name: %s", again.text)
	}
}

// TestETags: a reader that has a response is not sent it again, but learns of more and of the end.
func TestETags(t *testing.T) {
	w := start(t, nil)
	w.want(201, "PUT", "s", "one", ofText...)
	tag := w.want(200, "GET", "s", "").header.Get("ETag")
	same := w.want(304, "GET", "s", "", "If-None-Match", `"x", W/`+tag)
	if same.header.Get("ETag") != tag || same.next() == "" {
		t.Errorf("not modified: %v", same.header)
	}
	w.want(204, "POST", "s", "", "Stream-Closed", "true")
	tag = w.want(200, "GET", "s", "", "If-None-Match", tag).header.Get("ETag")
	w.want(304, "GET", "s", "", "If-None-Match", tag)
	w.want(204, "DELETE", "s", "")
	w.want(201, "PUT", "s", "two", with(ofText, "Stream-Closed", "true")...)
	w.want(200, "GET", "s", "", "If-None-Match", tag)
	if now := w.want(200, "GET", "s?offset=now", ""); now.header.Get("ETag") != "" ||
		now.header.Get("Cache-Control") != "no-store" {
		t.Errorf("from now on: %v", now.header)
	}
}

// TestLargeContent: what is larger than an event or a response arrives whole, and too much is refused.
func TestLargeContent(t *testing.T) {
	w := start(t, nil)
	text := strings.Repeat("0123456789äöü€", 350_000) // 6.3 MB, a character across each border
	w.want(201, "PUT", "s", "", ofText...)
	w.want(204, "POST", "s", text, ofText...)
	var read strings.Builder
	at, pages := "-1", 0
	for ; ; pages++ {
		a := w.want(200, "GET", "s?offset="+at, "")
		read.WriteString(a.text)
		if !strings.HasPrefix(a.text, "") || strings.ToValidUTF8(a.text, "") != a.text {
			t.Error("a character lies in two responses")
		}
		if at = a.next(); a.header.Get("Stream-Up-To-Date") != "" {
			break
		}
		if !strings.Contains(a.header.Get("Cache-Control"), "max-age") {
			t.Errorf("a response that does not change: %v", a.header)
		}
	}
	if read.String() != text || pages < 3 {
		t.Errorf("%d of %d bytes in %d responses", read.Len(), len(text), pages)
	}
	var followed strings.Builder
	resp := w.send("GET", "s?offset=-1&live=sse", "")
	defer resp.Body.Close()
	w.frames(resp.Body, func(f frame) bool {
		if f.event == "data" {
			followed.WriteString(f.data)
			return true
		}
		return !w.control(f).UpToDate
	})
	if followed.String() != text {
		t.Errorf("followed %d of %d bytes", followed.Len(), len(text))
	}
	w.want(413, "POST", "s", strings.Repeat("x", 8<<20), ofText...)
	w.want(201, "PUT", "j", "", ofJSON...)
	w.want(413, "POST", "j", "["+strings.Repeat("1,", 1<<16)+"1]", ofJSON...)
	w.want(413, "POST", "j", `"`+strings.Repeat("x", 1<<20)+`"`, ofJSON...)
	w.want(422, "POST", "j", strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000), ofJSON...)
	w.want(204, "POST", "j", "["+strings.Repeat("1,", 1<<16-1)+"1]", ofJSON...)
	if a := w.want(200, "GET", "j", ""); strings.Count(a.text, "1") != 1<<16 {
		t.Errorf("%d messages", strings.Count(a.text, "1"))
	}
}

func producing(id string, epoch, seq int) []string {
	return []string{"Producer-Id", id, "Producer-Epoch", strconv.Itoa(epoch), "Producer-Seq", strconv.Itoa(seq)}
}

// TestProducers: each number counts once, and each answer has the numbers of the protocol.
func TestProducers(t *testing.T) {
	w := start(t, nil)
	w.want(201, "PUT", "s", "", ofText...)
	long := strings.Repeat("an id of any length, ", 20)
	post := func(status int, body, id string, epoch, seq int, more ...string) answer {
		t.Helper()
		return w.want(status, "POST", "s", body, append(with(ofText, producing(id, epoch, seq)...), more...)...)
	}
	post(200, "a", long, 0, 0)
	post(200, "b", long, 0, 1)
	if a := post(204, "a", long, 0, 0); a.header.Get("Producer-Seq") != "1" || a.header.Get("Producer-Epoch") != "0" {
		t.Errorf("a duplicate: %v", a.header)
	}
	if a := post(409, "d", long, 0, 3); a.header.Get("Producer-Expected-Seq") != "2" ||
		a.header.Get("Producer-Received-Seq") != "3" {
		t.Errorf("a gap: %v", a.header)
	}
	post(409, "d", "another one", 0, 1)
	post(400, "c", long, 1, 1)
	post(200, "c", long, 1, 0)
	if a := post(403, "d", long, 0, 2); a.header.Get("Producer-Epoch") != "1" {
		t.Errorf("fenced off: %v", a.header)
	}
	for _, header := range [][]string{
		{"Producer-Id", "p"},
		{"Producer-Id", "", "Producer-Epoch", "0", "Producer-Seq", "0"},
		{"Producer-Id", "p", "Producer-Epoch", "00", "Producer-Seq", "0"},
		{"Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "-1"},
		{"Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "9007199254740992"},
		{"Producer-Epoch", "0", "Producer-Seq", "0"},
	} {
		w.want(400, "POST", "s", "x", with(ofText, header...)...)
	}
	post(200, "d", long, 1, 1, "Stream-Closed", "true")
	if a := post(204, "other", long, 1, 1, "Stream-Closed", "true"); a.header.Get("Stream-Closed") != "true" {
		t.Errorf("closed again: %v", a.header)
	}
	post(409, "d", long, 1, 2)
	post(409, "d", "another one", 0, 0, "Stream-Closed", "true")
	post(403, "d", long, 0, 0)
	if a := w.want(200, "GET", "s", ""); a.text != "abcd" {
		t.Errorf("read %q", a.text)
	}
}

// TestStreamSeq: of appends with the header each is above the last one, whoever makes them and with what else.
func TestStreamSeq(t *testing.T) {
	w := start(t, nil)
	w.want(201, "PUT", "s", "", ofText...)
	post := func(status int, seq string, more ...string) {
		t.Helper()
		w.want(status, "POST", "s", seq, with(ofText, append(more, "Stream-Seq", seq)...)...)
	}
	post(204, "09")
	w.want(204, "POST", "s", ".", ofText...)
	post(409, "09")
	post(409, "08")
	post(200, "10", producing("p", 0, 0)...)
	post(204, "01", producing("p", 0, 0)...)
	post(409, "10", producing("p", 0, 1)...)
	post(200, "2", producing("p", 0, 1)...)
	post(409, "10")
	w.want(400, "POST", "s", "x", with(ofText, "Stream-Seq", strings.Repeat("9", 2000))...)
	if a := w.want(200, "GET", "s", ""); a.text != "09.102" {
		t.Errorf("read %q", a.text)
	}

	w.want(201, "PUT", "race", "", ofJSON...)
	var writers sync.WaitGroup
	for k := range 8 {
		writers.Go(func() {
			for i := range 20 {
				seq := fmt.Sprintf("%03d", i*8+k)
				a := w.do("POST", "race", `"`+seq+`"`, with(ofJSON, "Stream-Seq", seq)...)
				if a.status != 204 && a.status != 409 {
					t.Errorf("%s: %d %s", seq, a.status, a.text)
				}
			}
		})
	}
	writers.Wait()
	var kept []string
	w.OK(json.Unmarshal([]byte(w.want(200, "GET", "race", "").text), &kept))
	if !slices.IsSorted(kept) || len(slices.Compact(slices.Clone(kept))) != len(kept) || len(kept) < 20 {
		t.Errorf("kept %q", kept)
	}
}

// TestNamesOfPaths: no two paths share a stream, and ours has the same name where it can.
func TestNamesOfPaths(t *testing.T) {
	w := start(t, nil)
	paths := []string{
		"a", "A", "a/b", "a_b", "a%20b", "a_20b", "a_5F20b", "a%5F20b%20", "%C3%A4", "a%3Ab", "a.b", "a%2Cb", "a_2g",
		"a_",
	}
	for _, path := range paths {
		w.want(201, "PUT", path, path, ofText...)
	}
	for _, path := range paths {
		if a := w.want(200, "GET", path, ""); a.text != path {
			t.Errorf("%s holds %s", path, a.text)
		}
	}
	for _, name := range []string{"a", "a/b", "a_b", "a_20b", "a_5F20b"} {
		w.stream(name)
	}
	for _, path := range []string{
		"a%2F%2Fb", "a%2F..%2Fb", "%2E%2E", strings.Repeat("x", 256), strings.Repeat("%20", 86),
	} {
		if a := w.do("PUT", path, "", ofText...); a.status != 400 && a.status != 404 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// TestOtherStreams: a stream of our own API is none of the protocol, but what is published through it is read.
func TestOtherStreams(t *testing.T) {
	w := start(t, nil)
	w.want(201, "PUT", "/v1/streams/ours", "")
	w.want(404, "GET", "ours", "")
	w.want(404, "POST", "ours", "x", ofText...)
	w.want(404, "DELETE", "ours", "")
	w.want(409, "PUT", "ours", "", ofText...)
	w.want(404, "GET", "execution%3Ax", "")
	w.want(201, "PUT", "theirs", `{"n":1}`, ofJSON...)
	w.want(200, "POST", "/v1/streams/theirs/events", `{"type":"note","data":{"n":2}}`, ofJSON...)
	w.want(200, "POST", "/v1/streams/theirs/events", "text", ofText...)
	w.want(200, "POST", "/v1/streams/theirs/end", `{"outcome":"failed","data":"why"}`, ofJSON...)
	a := w.want(200, "GET", "theirs", "")
	var messages []map[string]any
	w.OK(json.Unmarshal([]byte(a.text), &messages))
	if len(messages) != 3 || messages[1]["n"] != 2.0 || messages[2]["text"] != "text" {
		t.Errorf("read %s", a.text)
	}
	if a.header.Get("Stream-Closed") != "true" || a.header.Get("Stream-Outcome") != "failed" {
		t.Errorf("an end that is no success: %v", a.header)
	}
	if page := w.want(200, "GET", "/v1/streams/theirs/events", ""); !strings.Contains(page.text, `"data":{"n":1}`) {
		t.Errorf("our API reads %s", page.text)
	}
	shown := w.want(200, "GET", "/v1/streams/theirs", "")
	if strings.Contains(shown.text, "reprise.") {
		t.Errorf("our API shows labels of the server: %s", shown.text)
	}
}

// TestLostEventsAreTold: who asks for what is no longer kept is told, and so is who comes from another stream.
func TestLostEventsAreTold(t *testing.T) {
	w := start(t, &reprise.Options{Retention: reprise.Retention{MaxEvents: 5}})
	w.want(201, "PUT", "s", "", ofJSON...)
	offsets := []string{"-1"}
	for i := range 8 {
		offsets = append(offsets, w.want(204, "POST", "s", strconv.Itoa(i), ofJSON...).next())
	}
	for i, at := range offsets {
		for _, live := range []string{"", "&live=sse", "&live=long-poll"} {
			if live == "&live=long-poll" && i == 8 {
				continue // it waits
			}
			resp := w.send("GET", "s?offset="+at+live, "")
			resp.Body.Close()
			want := http.StatusOK
			if i == 1 || i == 2 {
				want = http.StatusGone
			}
			if resp.StatusCode != want || resp.Header.Get("Stream-Earliest") != offsets[3] {
				t.Errorf("offset %d%s: %d %v, want %d", i, live, resp.StatusCode, resp.Header, want)
			}
		}
	}
	if a := w.want(200, "GET", "s", ""); a.text != "[3,4,5,6,7]" {
		t.Errorf("from the start: %s", a.text)
	}
	w.want(410, "PUT", "fork", "", "Stream-Forked-From", "/v1/stream/s", "Stream-Fork-Offset", offsets[2])
	w.want(204, "DELETE", "s", "")
	w.want(201, "PUT", "s", "1", ofJSON...)
	w.want(410, "GET", "s?offset="+offsets[8], "")
	w.want(410, "GET", "s?offset=9999999999999999_9999999999999999", "")
}
