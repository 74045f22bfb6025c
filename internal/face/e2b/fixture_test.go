package e2b_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/face/e2b"
	"reprise/internal/web"

	"reprise/internal/face/facetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server with the face, and a client of it.
type fixture struct {
	*facetest.Server
	// token and sandbox are what the client shows.
	token, sandbox string
}

func start(tb testing.TB, logOptions *reprise.Options) *fixture {
	tb.Helper()
	w := facetest.Start(tb, logOptions, func(w *facetest.Server) web.Part {
		return e2b.API{
			Prefix: "/e2b", Log: w.Engine, Host: w.Host, Reads: w.Reads, Dir: w.Dir, Home: w.Dir, Files: w.Files,
		}
	})
	w.URL += "/e2b"
	return &fixture{w, facetest.Owner, "team-1"}
}

// send sends a request; header is names and values.
func (w *fixture) send(method, path, body string, header ...string) *http.Response {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, w.URL+path, strings.NewReader(body))
	w.OK(err)
	if w.token != "" {
		r.Header.Set("X-Access-Token", w.token)
	}
	r.Header.Set("E2b-Sandbox-Id", w.sandbox)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := w.Client.Do(r)
	w.OK(err)
	return resp
}

// do sends a request and reads the answer.
func (w *fixture) do(method, path, body string, header ...string) (status int, text string) {
	w.Helper()
	resp := w.send(method, path, body, header...)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	w.OK(err)
	return resp.StatusCode, string(all)
}

// call makes a call with one message each way, of which the answer must have a status.
func (w *fixture) call(status int, method, body string) string {
	w.Helper()
	got, text := w.do("POST", "/"+method, body, "Content-Type", "application/json")
	if got != status {
		w.Fatalf("%s %s: %d %s, want %d", method, body, got, text, status)
	}
	return text
}

const streamType = "application/connect+json"

// enveloped returns a message in its envelope.
func enveloped(text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text)))) + text
}

// event is a message of the stream of a process, or its end.
type event struct {
	Event struct {
		Start *struct{ PID uint32 }
		Data  *struct{ Stdout, Stderr, Pty []byte }
		End   *struct {
			ExitCode      int
			Exited        bool
			Status, Error string
		}
		KeepAlive *struct{}
	}
	Start, KeepAlive *struct{}
	Filesystem       *struct{ Name, Type string }
	last             bool
	Error            *struct{ Code, Message string }
}

// readEvent reads an event. The error is io.ErrUnexpectedEOF where the response is cut.
func readEvent(from io.Reader) (e event, err error) {
	var head [5]byte
	if _, err = io.ReadFull(from, head[:]); err != nil {
		return e, io.ErrUnexpectedEOF
	}
	text := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err = io.ReadFull(from, text); err != nil {
		return e, io.ErrUnexpectedEOF
	}
	e.last = head[0] == 2
	return e, json.Unmarshal(text, &e)
}

// open opens a stream.
func (w *fixture) open(method, body string, header ...string) io.ReadCloser {
	w.Helper()
	resp := w.send("POST", "/"+method, enveloped(body), append(header, "Content-Type", streamType)...)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != streamType {
		text, _ := io.ReadAll(resp.Body)
		w.Fatalf("%s %s: %d %s", method, body, resp.StatusCode, text)
	}
	return resp.Body
}

// output is what a stream has told of a process.
type output struct {
	pid                 uint32
	stdout, stderr, pty bytes.Buffer
	code                int
	status              string
	ended               bool
	refused             string // the code of the last envelope
}

// add adds an event. It returns false behind the last one.
func (o *output) add(e *event) bool {
	switch {
	case e.Event.Start != nil:
		o.pid = e.Event.Start.PID
	case e.Event.Data != nil:
		o.stdout.Write(e.Event.Data.Stdout)
		o.stderr.Write(e.Event.Data.Stderr)
		o.pty.Write(e.Event.Data.Pty)
	case e.Event.End != nil:
		o.ended, o.code, o.status = true, e.Event.End.ExitCode, e.Event.End.Status
	case e.Error != nil:
		o.refused = e.Error.Code
	}
	return !e.last
}

// run makes a call with a stream and reads it to its end.
func (w *fixture) run(method, body string, header ...string) *output {
	w.Helper()
	from := w.open(method, body, header...)
	defer from.Close()
	o := &output{}
	for {
		e, err := readEvent(from)
		if err != nil {
			w.Fatalf("%s: the stream breaks off: %v", method, err)
		}
		if !o.add(&e) {
			return o
		}
	}
}

// shell is the message that starts a command as the SDKs do.
func shell(command, more string) string {
	text, err := json.Marshal(command)
	if err != nil {
		panic(err) // a string
	}
	return `{"process":{"cmd":"/bin/sh","args":["-c",` + string(text) + `]}` + more + `}`
}

// begin starts a command and returns its number and the rest of the stream.
func (w *fixture) begin(body string) (pid uint32, from io.ReadCloser) {
	w.Helper()
	from = w.open("process.Process/Start", body)
	e, err := readEvent(from)
	if err != nil || e.Event.Start == nil {
		w.Fatalf("the first event is %+v, %v", e, errors.Join(err))
	}
	return e.Event.Start.PID, from
}
