package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a service and a source, and what the service tells.
type fixture struct {
	t       *testing.T
	service string // its URL
	source  *httptest.Server

	mu    sync.Mutex
	told  []message
	news  chan bool
	asked []*http.Request
	sent  []string // bodies
}

func newFixture(t *testing.T, answer func(i int, w http.ResponseWriter, r *http.Request)) *fixture {
	t.Helper()
	f := &fixture{t: t, news: make(chan bool, 1)}
	s := newService()
	service := httptest.NewServer(s)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /callback/{number}", f.callback)
	mux.HandleFunc("/source", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		i := len(f.asked)
		f.asked, f.sent = append(f.asked, r), append(f.sent, string(body))
		f.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		answer(i, w, r)
	})
	f.service, f.source = service.URL, httptest.NewServer(mux)
	t.Cleanup(func() {
		service.Close()
		f.source.CloseClientConnections()
		f.source.Close()
		s.loops.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	return f
}

// callback holds the numbers of the messages to the contract.
func (f *fixture) callback(_ http.ResponseWriter, r *http.Request) {
	var m message
	err := json.NewDecoder(r.Body).Decode(&m)
	f.mu.Lock()
	defer f.mu.Unlock()
	if number, _ := strconv.Atoi(r.PathValue("number")); err != nil || number != len(f.told)+1 {
		f.t.Errorf("message %s after %d: %v", r.PathValue("number"), len(f.told), err)
	}
	f.told = append(f.told, m)
	select {
	case f.news <- true:
	default:
	}
}

// start starts a client and returns its URL.
func (f *fixture) start(p params) string {
	f.t.Helper()
	p.StreamURL, p.CallbackURL = f.source.URL+"/source", f.source.URL+"/callback"
	none := 0
	p.InitialDelayMS = &none
	body, err := json.Marshal(p)
	if err != nil {
		f.t.Fatal(err)
	}
	res := f.post(f.service+"/", string(body))
	if res.StatusCode != http.StatusCreated {
		f.t.Fatal(res.Status)
	}
	client := f.service + res.Header.Get("Location")
	f.t.Cleanup(func() {
		req, _ := http.NewRequest(http.MethodDelete, client, nil)
		if res, err := http.DefaultClient.Do(req); err != nil || res.StatusCode != http.StatusOK {
			f.t.Errorf("close the client: %v, %v", res, err)
		} else {
			res.Body.Close()
		}
	})
	return client
}

func (f *fixture) post(url, body string) *http.Response {
	f.t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	res.Body.Close()
	return res
}

// await returns the first n messages.
func (f *fixture) await(n int) []message {
	f.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		f.mu.Lock()
		told := f.told
		f.mu.Unlock()
		if len(told) >= n {
			return told
		}
		select {
		case <-f.news:
		case <-deadline:
			f.t.Fatalf("%d messages of %d within 2 min: %+v", len(told), n, told)
		}
	}
}

func (f *fixture) want(want ...message) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.await(len(want))); diff != "" {
		f.t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func eventOf(kind, data, id string) message {
	return message{Kind: "event", Event: &event{kind, data, id}}
}

// send writes text in pieces of n bytes and keeps the answer open.
func send(w http.ResponseWriter, r *http.Request, text string, n int) {
	for rest := text; len(rest) > 0; rest = rest[min(n, len(rest)):] {
		_, _ = io.WriteString(w, rest[:min(n, len(rest))])
		_ = http.NewResponseController(w).Flush()
	}
	<-r.Context().Done()
}

// Each way to break lines, in pieces of each size; with a byte order mark, comments, fields of no use, and blank lines.
func TestReadsEveryFormOfTheFormat(t *testing.T) {
	text := "\uFEFF:comment\ndata: \uFEFFone\n\nid: 7\nevent: note\ndata:two\ndata\ndata:  lines\nretry: 5\nunknown: x\n\n\n\ndata\n\n"
	want := []message{
		{Kind: "comment", Comment: "comment"},
		eventOf("message", "\uFEFFone", ""), eventOf("note", "two\n\n lines", "7"), eventOf("message", "", "7"),
	}
	for _, end := range []string{"\n", "\r\n", "\r"} {
		for _, n := range []int{1, 2, 3, 1 << 20} {
			t.Run(fmt.Sprintf("%q/%d", end, n), func(t *testing.T) {
				f := newFixture(t, func(_ int, w http.ResponseWriter, r *http.Request) {
					send(w, r, strings.ReplaceAll(text, "\n", end), n)
				})
				f.start(params{})
				f.want(want...)
			})
		}
	}
}

func TestReadsLongLine(t *testing.T) {
	long := strings.Repeat("0123456789", 1<<19)
	f := newFixture(t, func(_ int, w http.ResponseWriter, r *http.Request) { send(w, r, "data: "+long+"\n\n", 1<<16) })
	f.start(params{})
	if got := f.await(1)[0]; got.Event == nil || got.Event.Data != long {
		t.Errorf("%.200v", got)
	}
}

// Request and body are sent with each connection, and the last id of what was whole.
func TestReconnectRepeatsRequestAndLastEventID(t *testing.T) {
	f := newFixture(t, func(i int, w http.ResponseWriter, r *http.Request) {
		switch i {
		case 0:
			_, _ = io.WriteString(w, "id: abc\ndata: 1\n\nid: def\ndata: cut off")
		case 1:
			_, _ = io.WriteString(w, "id\ndata: 2\n\n")
		default:
			send(w, r, "data: 3\n\n", 100)
		}
	})
	f.start(params{Method: "REPORT", Body: `{"a":1}`, Headers: map[string]string{"x-own": "1"}, LastEventID: "given"})
	told := f.await(5)
	dropped := message{Kind: "error", Error: "the connection ended before the stream"}
	want := []message{
		eventOf("message", "1", "abc"), dropped, eventOf("message", "2", ""), dropped, eventOf("message", "3", ""),
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	for i, id := range []string{"given", "abc", ""} {
		r := f.asked[i]
		got := []string{r.Method, f.sent[i], r.Header.Get("X-Own"), strings.Join(r.Header.Values("Last-Event-ID"), ";")}
		if diff := cmp.Diff([]string{"REPORT", `{"a":1}`, "1", id}, got); diff != "" {
			t.Errorf("request %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestRestartsAndTimesOut(t *testing.T) {
	f := newFixture(t, func(i int, w http.ResponseWriter, r *http.Request) {
		if i == 2 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		send(w, r, fmt.Sprintf("data: %d\n\n", i), 100)
	})
	timeout := 300
	client := f.start(params{ReadTimeoutMS: &timeout})
	f.await(1)
	if res := f.post(client, `{"command":"restart"}`); res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
	f.want(eventOf("message", "0", ""), eventOf("message", "1", ""),
		message{Kind: "error", Error: "the connection was silent for too long"})
	if res := f.post(client, `{"command":"dance"}`); res.StatusCode != http.StatusBadRequest {
		t.Error(res.Status)
	}
	if res := f.post(f.service+"/streams/99", `{"command":"restart"}`); res.StatusCode != http.StatusNotFound {
		t.Error(res.Status)
	}
}

// What ends a client for good is told.
func TestFinalErrorIsReported(t *testing.T) {
	f := newFixture(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) })
	f.start(params{})
	if got := f.await(1)[0]; got.Kind != "error" || !strings.Contains(got.Error, "redirect") {
		t.Errorf("%+v", got)
	}
}

func TestStatusNamesCapabilities(t *testing.T) {
	f := newFixture(t, nil)
	res, err := http.Get(f.service + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var status struct{ Capabilities []string }
	if err := json.NewDecoder(res.Body).Decode(&status); err != nil || !cmp.Equal(status.Capabilities, capabilities) {
		t.Errorf("%+v, %v", status, err)
	}
	if res := f.post(f.service+"/", `{"streamUrl":"nowhere"}`); res.StatusCode != http.StatusBadRequest {
		t.Error(res.Status)
	}
}
