package execd_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/face/execd"
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
		return execd.API{
			Prefix: "/execd", Host: w.Host, Reads: w.Reads, Dir: w.Dir, Home: w.Dir, Shell: "bash", Files: w.Files,
		}
	})}
}

// send sends a request to the face.
func (w *fixture) send(method, path, body string, header ...string) *http.Response {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, w.URL+path, strings.NewReader(body))
	w.OK(err)
	r.Header.Set("X-EXECD-ACCESS-TOKEN", w.token)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	res, err := w.Client.Do(r)
	w.OK(err)
	return res
}

// do sends a request and returns the whole answer.
func (w *fixture) do(method, path, body string, header ...string) (status int, text string, h http.Header) {
	w.Helper()
	res := w.send(method, "/execd"+path, body, header...)
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	w.OK(err)
	return res.StatusCode, string(all), res.Header
}

// frame is one event as a client reads it.
type frame struct {
	Type           string                     `json:"type"`
	Text           string                     `json:"text"`
	Timestamp      int64                      `json:"timestamp"`
	ExecutionCount int                        `json:"execution_count"`
	Results        map[string]json.RawMessage `json:"results"`
	Error          *struct {
		Name      string   `json:"ename"`
		Value     string   `json:"evalue"`
		Traceback []string `json:"traceback"`
	} `json:"error"`
	EID       int64  `json:"eid"`
	Execution string `json:"execution_id"`
}

// String shows what matters of a frame.
func (f frame) String() string {
	switch {
	case f.Error != nil:
		return fmt.Sprintf("%s %s %s", f.Type, f.Error.Name, f.Error.Value)
	case f.Type == "init":
		return "init"
	case f.Text != "":
		return fmt.Sprintf("%s %q", f.Type, f.Text)
	}
	return f.Type
}

// parse returns the frames that are whole in text, without pings.
func (w *fixture) parse(text string) (frames []frame) {
	w.Helper()
	for {
		one, rest, whole := strings.Cut(text, "\n\n")
		if !whole {
			return frames
		}
		var f frame
		w.OK(json.Unmarshal([]byte(one), &f))
		if f.Timestamp == 0 {
			w.Errorf("a frame without a time: %s", one)
		}
		if f.Type != "ping" {
			frames = append(frames, f)
		}
		text = rest
	}
}

// run sends a request for a response that goes on, and returns its frames.
func (w *fixture) run(path, body string) []frame {
	w.Helper()
	status, text, _ := w.do("POST", path, body)
	if status != http.StatusOK {
		w.Fatalf("%s %s: %d %s", path, body, status, text)
	}
	return w.parse(text)
}

func (w *fixture) want(what string, frames []frame, want ...string) {
	w.Helper()
	var got []string
	for _, f := range frames {
		got = append(got, f.String())
	}
	if !slices.Equal(got, want) {
		w.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// untilInit reads a response up to its first frame.
func (w *fixture) untilInit(res *http.Response) (frame, *bufio.Reader) {
	w.Helper()
	in := bufio.NewReader(res.Body)
	line, err := in.ReadString('\n')
	w.OK(err)
	var f frame
	w.OK(json.Unmarshal([]byte(line), &f))
	return f, in
}

func (w *fixture) write(name, text string) {
	w.Helper()
	w.OK(os.WriteFile(w.Dir+"/"+name, []byte(text), 0o600))
}

// quoted is text as JSON.
func quoted(text string) string {
	var b bytes.Buffer
	_ = json.NewEncoder(&b).Encode(text)
	return strings.TrimSpace(b.String())
}

// makeFIFO makes a pipe with a name.
func makeFIFO(path string) error { return exec.Command("mkfifo", path).Run() }
