package durable_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/face/durable"
	"reprise/internal/web"

	"reprise/internal/face/facetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server with the face, and a client of it.
type fixture struct {
	*facetest.Server
	token string
}

func start(tb testing.TB, logOptions *reprise.Options) *fixture {
	tb.Helper()
	return &fixture{token: facetest.Owner, Server: facetest.Start(tb, logOptions, func(w *facetest.Server) web.Part {
		return durable.API{Prefix: "/v1/stream", Log: w.Engine, Reads: w.Reads, Heartbeat: 10 * time.Millisecond}
	})}
}

// send sends a request; path is below the prefix unless it begins with a slash. header is names and values.
func (w *fixture) send(method, path, body string, header ...string) *http.Response {
	w.Helper()
	if !strings.HasPrefix(path, "/") {
		path = "/v1/stream/" + path
	}
	r, err := http.NewRequestWithContext(w.Context(), method, w.URL+path, strings.NewReader(body))
	w.OK(err)
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := w.Client.Do(r)
	w.OK(err)
	return resp
}

// answer is a response that has ended.
type answer struct {
	status int
	text   string
	header http.Header
}

func (w *fixture) do(method, path, body string, header ...string) answer {
	w.Helper()
	resp := w.send(method, path, body, header...)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	w.OK(err)
	return answer{resp.StatusCode, string(text), resp.Header}
}

// want sends a request and compares the status of its answer.
func (w *fixture) want(status int, method, path, body string, header ...string) answer {
	w.Helper()
	a := w.do(method, path, body, header...)
	if a.status != status {
		w.Fatalf("%s %s %.60q %q: %d %.300s, want %d", method, path, body, header, a.status, a.text, status)
	}
	return a
}

// next is the offset that an answer ends at.
func (a answer) next() string { return a.header.Get("Stream-Next-Offset") }

// The content types of the tests.
var (
	ofText = []string{"Content-Type", "text/plain"}
	ofJSON = []string{"Content-Type", "application/json"}
	binary = []string{"Content-Type", "application/octet-stream"}
)

func with(header []string, more ...string) []string {
	return append(header[:len(header):len(header)], more...)
}

// frame is an event of SSE.
type frame struct{ id, event, data string }

// frames reads events until the response ends, or f returns false.
func (w *fixture) frames(from io.Reader, f func(frame) bool) {
	w.Helper()
	var now frame
	data := false
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "":
			if data && !f(now) {
				return
			}
			now, data = frame{id: now.id}, false
		case name == "id":
			now.id = value
		case name == "event":
			now.event = value
		case name == "data" && data:
			now.data += "\n" + value
		case name == "data":
			now.data, data = value, true
		}
	}
}

// stream returns a stream of the Log.
func (w *fixture) stream(name string) *reprise.Stream {
	w.Helper()
	s, err := w.Engine.Stream(w.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name})
	w.OK(err)
	return s
}

// control is the data of a control event.
type control struct {
	StreamNextOffset, StreamCursor, StreamOutcome string
	UpToDate, StreamClosed                        bool
}

func (w *fixture) control(f frame) (c control) {
	w.Helper()
	w.OK(json.Unmarshal([]byte(f.data), &c))
	return c
}

// decoded returns the content of a data event of a stream.
func (w *fixture) decoded(data string) string {
	w.Helper()
	text, err := base64.StdEncoding.DecodeString(data)
	w.OK(err)
	return string(text)
}
