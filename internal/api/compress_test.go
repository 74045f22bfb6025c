package api_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"reprise"
	"reprise/internal/api"
)

// decoded is the body of an answer in a coding, decoded as a client does: by and by.
func decoded(tb testing.TB, res *http.Response) io.Reader {
	tb.Helper()
	var in io.Reader = res.Body
	switch coding := res.Header.Get("Content-Encoding"); coding {
	case "":
	case "gzip":
		z, err := gzip.NewReader(res.Body)
		if err != nil {
			tb.Fatal(err)
		}
		in = z
	case "zstd":
		z, err := zstd.NewReader(res.Body, zstd.WithDecoderConcurrency(1))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(z.Close)
		in = z
	default:
		tb.Fatalf("Content-Encoding: %s", coding)
	}
	return in
}

// raw sends a request and returns the response as it was sent, which the contract does not describe.
func (w *fixture) raw(method, path string, headers ...string) *http.Response {
	w.Helper()
	client := w.client
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	w.client = &http.Client{Transport: transport, Timeout: time.Minute}
	defer func() { w.client = client }()
	return w.open(method, path, "", headers...)
}

// read asks for events in a coding and reads all of the answer, decoded, and how long it is as it was sent.
func (w *fixture) read(path string, headers ...string) (body string, sent int, header http.Header) {
	w.Helper()
	res := w.raw("GET", path, headers...)
	raw, err := io.ReadAll(res.Body)
	w.ok(err)
	w.ok(res.Body.Close())
	res.Body = io.NopCloser(bytes.NewReader(raw))
	text, err := io.ReadAll(decoded(w, res))
	w.ok(err)
	return string(text), len(raw), res.Header
}

// numberedStream is a stream of lines that has ended.
func numberedStream(w *fixture, name string, count int) *reprise.Stream {
	w.Helper()
	s := w.stream(name)
	var events []reprise.Event
	for i := range count {
		events = append(events, reprise.Event{Type: "stdout", Data: fmt.Appendf(nil, "line %d of many lines\n", i+1)})
	}
	_, err := s.Append(w.Context(), events...)
	w.ok(err)
	_, err = s.End(w.Context(), "completed",
		reprise.Event{Data: []byte(`{"outcome":"completed"}`), Format: reprise.FormatMembers})
	w.ok(err)
	return s
}

// TestEventsAreCompressedWhereAsked: every form is the same in every coding, and smaller; without being asked for,
// nothing is compressed.
func TestEventsAreCompressedWhereAsked(t *testing.T) {
	w := start(t, setup{})
	numberedStream(w, "s", 3000)
	for _, form := range []string{asSSE, asLines, "Accept: application/json"} {
		path := "/v1/streams/s/events"
		if strings.HasSuffix(form, "json") && form != asLines {
			path += "?limit=1000"
		}
		plain, size, header := w.read(path, form, "Accept-Encoding: identity")
		if header.Get("Content-Encoding") != "" || size != len(plain) {
			t.Errorf("%s: compressed without being asked for: %v", form, header)
		}
		for accept, want := range map[string]string{
			"gzip": "gzip", "zstd": "zstd", "gzip, deflate, br, zstd": "gzip", "gzip;q=0.9, zstd": "zstd",
			"gzip;q=1, zstd;q=0.1": "gzip",
			"gzip;q=0":             "", "br": "", "*": "", "identity, gzip;q=0.5": "",
		} {
			got, sent, header := w.read(path, form, "Accept-Encoding: "+accept)
			if got != plain {
				t.Errorf("%s in %s: %d bytes, want %d", form, accept, len(got), len(plain))
			}
			if coding := header.Get("Content-Encoding"); coding != want || want != "" && sent > size/5 {
				t.Errorf("%s in %s: %q, %d bytes of %d", form, accept, coding, sent, size)
			}
			if !strings.Contains(strings.Join(header.Values("Vary"), ","), "Accept-Encoding") {
				t.Errorf("%s in %s: Vary %v", form, accept, header.Values("Vary"))
			}
			if length := header.Get("Content-Length"); length != "" && length != strconv.Itoa(sent) {
				t.Errorf("%s in %s: Content-Length %s, %d bytes", form, accept, length, sent)
			}
		}
	}
}

// TestOtherAnswersAreNotCompressed: refusals, responses without events, small pages and other answers are sent as they
// are.
func TestOtherAnswersAreNotCompressed(t *testing.T) {
	w := start(t, setup{})
	s := numberedStream(w, "s", 10)
	for _, tt := range []struct {
		path, accept string
		status       int
	}{
		{"/v1/streams/s/events?after=" + s.Cursor(11).String(), asSSE, 204},
		{"/v1/streams/none/events", asSSE, 404},
		{"/v1/streams/s/events?after=what", asSSE, 400},
		{"/v1/streams/s/events?limit=1", "Accept: application/json", 200},
		{"/v1/streams", "Accept: application/json", 200},
	} {
		res := w.raw("GET", tt.path, tt.accept, "Accept-Encoding: gzip, zstd")
		text, err := io.ReadAll(res.Body)
		w.ok(errors.Join(err, res.Body.Close()))
		zipped := res.Header.Get("Content-Encoding") != "" || bytes.HasPrefix(text, []byte{0x1f, 0x8b})
		if res.StatusCode != tt.status || zipped {
			t.Errorf("%s: %d %v", tt.path, res.StatusCode, res.Header)
		}
	}
	head := w.raw("HEAD", "/v1/streams/s/events", asSSE, "Accept-Encoding: gzip")
	text, err := io.ReadAll(head.Body)
	w.ok(errors.Join(err, head.Body.Close()))
	if len(text) > 0 || head.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("HEAD: %q, %v", text, head.Header)
	}
	off := start(t, setup{api: api.Options{NoCompression: true}})
	numberedStream(off, "s", 1000)
	_, _, header := off.read("/v1/streams/s/events", asSSE, "Accept-Encoding: gzip")
	if header.Get("Content-Encoding") != "" {
		t.Errorf("compressed by a server that does not: %v", header)
	}
}

// TestLiveEventsAreNotHeldBack: after a long replay each event, and each heartbeat, comes by itself on the same
// compressed response.
func TestLiveEventsAreNotHeldBack(t *testing.T) {
	w := start(t, setup{api: api.Options{Heartbeat: 50 * time.Millisecond}})
	for _, coding := range []string{"gzip", "zstd"} {
		for _, form := range []string{asSSE, asLines} {
			s := w.stream("live/" + coding + "/" + strings.TrimPrefix(form, "Accept: "))
			var events []reprise.Event
			for i := range 2000 {
				events = append(events, reprise.Event{Type: "note", Data: fmt.Appendf(nil, "%d", i+1)})
			}
			_, err := s.Append(t.Context(), events...)
			w.ok(err)
			res := w.raw("GET", "/v1/streams/"+url.PathEscape(s.Key().Name)+"/events", form, "Accept-Encoding: "+coding)
			in := bufio.NewReader(decoded(t, res))
			until := func(want string) {
				t.Helper()
				for {
					line, err := in.ReadString('\n')
					if err != nil {
						t.Fatalf("%s, %s: %v before %q", coding, form, err, want)
					}
					if strings.Contains(line, want) || want == "" && len(line) <= 2 {
						return
					}
				}
			}
			until(`"text":"2000"`)
			for i := range 20 { // each is appended once the one before has come
				_, err := s.Append(t.Context(), reprise.Event{Type: "note", Data: fmt.Appendf(nil, "live %d", i)})
				w.ok(err)
				until(fmt.Sprintf("live %d\"", i))
			}
			until("")
			w.ok(res.Body.Close())
		}
	}
}

// TestEncodedBodiesAreRefused: a body in a coding is none that is read as if it were not.
func TestEncodedBodiesAreRefused(t *testing.T) {
	w := start(t, setup{})
	w.do("PUT", "/v1/streams/s", "{}").is(201)
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/v1/executions", `{"argv":["true"]}`},
		{"PUT", "/v1/streams/s", `{}`},
		{"POST", "/v1/streams/s/events", `{"events":[{"type":"note"}]}`},
		{"POST", "/v1/login", `{"token":"x"}`},
	} {
		for _, coding := range []string{"gzip", "zstd", "identity, GZIP", "nonsense"} {
			a := w.do(tt.method, tt.path, tt.body, "Content-Encoding: "+coding).refused(415, "invalid")
			if a.header.Get("Accept-Encoding") != "identity" {
				t.Errorf("%s: Accept-Encoding %q", tt.path, a.header.Get("Accept-Encoding"))
			}
		}
	}
	w.do("POST", "/v1/streams/s/events", `{"events":[{"type":"note"}]}`, "Content-Encoding: Identity").is(200)
	w.do("GET", "/v1/streams/s", "", "Content-Encoding: gzip").is(200)
	if got := w.do("GET", "/v1/streams/s", "").number("events"); got != 1 {
		t.Errorf("%d events", got)
	}
}
