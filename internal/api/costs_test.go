package api_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"reprise/internal/api"
)

// quietWriter is a ResponseWriter that drops what it gets, with all that net/http offers over a connection.
type quietWriter struct {
	header    http.Header
	status    int
	deadlines int // of writes
	looks     int // at the header after it was written, for each of which net/http makes a copy
}

func (w *quietWriter) Header() http.Header {
	if w.status != 0 {
		w.looks++
	}
	return w.header
}

func (w *quietWriter) WriteHeader(status int)          { w.status = status }
func (w *quietWriter) Write(b []byte) (int, error)     { return len(b), nil }
func (w *quietWriter) FlushError() error               { return nil }
func (w *quietWriter) SetReadDeadline(time.Time) error { return nil }
func (w *quietWriter) EnableFullDuplex() error         { return nil }

func (w *quietWriter) SetWriteDeadline(time.Time) error {
	w.deadlines++
	return nil
}

// handled returns a function that lets the server handle a request of its own, without a network.
func handled(tb testing.TB, server *api.Server, r *http.Request, body string) func() {
	reader := strings.NewReader(body)
	request := *r
	return func() {
		reader.Reset(body)
		*r = request
		r.Body = http.NoBody
		if body != "" {
			r.Body = io.NopCloser(reader)
		}
		w := quietWriter{header: http.Header{}}
		server.ServeHTTP(&w, r)
		if w.status != http.StatusOK {
			tb.Fatalf("%s %s: status %d", r.Method, r.URL, w.status)
		}
		if w.deadlines != 1 || w.looks != 0 {
			tb.Fatalf("%s %s: %d deadlines of writes were set, want 1; the header was read %d times after it was written",
				r.Method, r.URL, w.deadlines, w.looks)
		}
	}
}

// costlyRequests are the requests that a server gets most: a publish, a resume, and a state.
func costlyRequests(tb testing.TB, s setup) map[string]func() {
	w := start(tb, s)
	w.stream("s")
	w.stream("ended", strings.Split("abcdefghij", "")...)
	w.do("POST", "/v1/streams/ended/end", `{"outcome":"completed"}`).is(200)
	request := func(method, path, body string, headers ...string) func() {
		r := httptest.NewRequest(method, w.url+path, bytes.NewReader([]byte(body)))
		r.Header.Set("Authorization", "Bearer "+token)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return handled(tb, w.server, r, body)
	}
	event := `{"type":"stdout","data":{"text":"` + strings.Repeat("x", 180) + `"}}`
	return map[string]func(){
		"publish": request("POST", "/v1/streams/s/events", event, "Content-Type", "application/json"),
		"resume":  request("GET", "/v1/streams/ended/events?after=0", "", "Accept", "text/event-stream"),
		"state":   request("GET", "/v1/streams/s", ""),
	}
}

func BenchmarkRequest(b *testing.B) {
	for name, serve := range costlyRequests(b, setup{quiet: true}) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}

// TestRequestsAllocateLittle: a request makes no more garbage above net/http than this. The numbers include two
// allocations of the test.
func TestRequestsAllocateLittle(t *testing.T) {
	most := map[string]float64{"publish": 22, "resume": 57, "state": 41}
	for name, serve := range costlyRequests(t, setup{quiet: true}) {
		// The race detector makes pools forget.
		if n := testing.AllocsPerRun(500, serve); n > most[name] && !raced {
			t.Errorf("%s: %v allocations, want at most %v", name, n, most[name])
		}
	}
}

// TestLoggedRequestsReadNoHeader: nor do they set deadlines twice. The function of each request looks at both.
func TestLoggedRequestsReadNoHeader(t *testing.T) {
	for _, serve := range costlyRequests(t, setup{}) {
		serve()
	}
}
