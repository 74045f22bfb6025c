package resumetest_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/mcp/mcphttp/resumetest"
	"reprise/store/memstore"
)

// broken is a way to serve wrongly, and cases that find it.
type broken struct {
	name  string
	found []string
	// ask changes a request.
	ask func(*wrong, *http.Request)
	// status changes that of a response, block an event of one.
	status func(*http.Request, int) int
	block  func(r *http.Request, n int, block []byte) []byte
	// refuse answers in place of the server where it returns a status.
	refuse func(*wrong, *http.Request) int
}

func isResume(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Last-Event-Id") != ""
}

var brokens = []broken{
	{
		name:  "loses a replayed message",
		found: []string{"resume, then live", "resume from each id", "drop during replay"},
		block: func(r *http.Request, n int, block []byte) []byte {
			if isResume(r) && n == 2 { // behind the priming event
				return nil
			}
			return block
		},
	},
	{
		name: "sends a message twice", found: []string{"uncut", "resume, then live"},
		block: func(r *http.Request, n int, block []byte) []byte {
			if n == 3 && r.Header.Get("Mcp-Session-Id") != "" {
				return append(bytes.Clone(block), block...)
			}
			return block
		},
	},
	{
		name: "has no ids", found: []string{"uncut", "priming event"},
		block: func(_ *http.Request, _ int, block []byte) []byte {
			return bytes.ReplaceAll(block, []byte("id: "), []byte("xx: "))
		},
	},
	{
		name: "starts again from the beginning", found: []string{"resume from each id", "drop again and again"},
		ask: func(w *wrong, r *http.Request) {
			if isResume(r) {
				r.Header.Set("Last-Event-Id", w.first(r.Header.Get("Last-Event-Id")))
			}
		},
	},
	{
		name: "does as if nothing was missed", found: []string{"unknown id", "foreign session", "purged"},
		status: func(r *http.Request, status int) int {
			if isResume(r) && status >= 400 {
				return http.StatusOK
			}
			return status
		},
	},
	{
		name: "says that the session has gone", found: []string{"unknown id", "purged"},
		status: func(r *http.Request, status int) int {
			if isResume(r) && status >= 400 {
				return http.StatusNotFound
			}
			return status
		},
	},
	{
		name:  "looks at the id alone",
		found: []string{"foreign session", "foreign session, call under way", "no session"},
		ask: func(w *wrong, r *http.Request) {
			if s := w.owner(r.Header.Get("Last-Event-Id")); isResume(r) && s != "" {
				r.Header.Set("Mcp-Session-Id", s)
			}
		},
	},
	{
		name:  "refuses who comes back too early",
		found: []string{"takeover", "takeover ends the old response", "takeover of a resumed response"},
		refuse: func(w *wrong, r *http.Request) int {
			if isResume(r) && w.busy() {
				return http.StatusConflict
			}
			return 0
		},
	},
	{
		name: "gives another call's messages", found: []string{"only the stream that was cut"},
		block: func(r *http.Request, _ int, block []byte) []byte {
			if isResume(r) {
				return bytes.ReplaceAll(block, []byte("token-3"), []byte("token-4"))
			}
			return block
		},
	},
}

// TestSuiteFindsWhatIsBroken: what serves wrongly does not pass.
func TestSuiteFindsWhatIsBroken(t *testing.T) {
	for _, b := range brokens {
		for _, name := range b.found {
			t.Run(b.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := resumetest.CheckCase(t.Context(), serveBroken(t, b), name, "2025-11-25")
				if r.Outcome != resumetest.Failed {
					t.Fatalf("%s %s", r.Outcome, r.Detail)
				}
			})
		}
	}
}

// TestCaseWithoutHookIsReportedAsNotRun: a case whose hook is missing is reported as not run, with a reason.
func TestCaseWithoutHookIsReportedAsNotRun(t *testing.T) {
	target := serveBroken(t, broken{})
	target.Kept = 0
	for _, name := range []string{
		"purged", "foreign principal", "restart, session", "replica, call ended", "store fails in the middle",
	} {
		if r := resumetest.CheckCase(t.Context(), target, name, "2025-11-25"); r.Outcome != resumetest.NotRun ||
			r.Detail == "" {
			t.Errorf("%s: %s %s", name, r.Outcome, r.Detail)
		}
	}
	r := resumetest.CheckCase(t.Context(), target, "priming event", "2025-06-18")
	if r.Outcome != resumetest.NotApplicable {
		t.Errorf("a matter of a newer version: %s", r.Outcome)
	}
	if r := resumetest.CheckCase(t.Context(), target, "uncut", "2025-06-18"); r.Outcome != resumetest.Passed {
		t.Errorf("uncut: %s %s", r.Outcome, r.Detail)
	}
}

// wrong is a server that serves wrongly.
type wrong struct {
	broken
	inner http.Handler

	mu     sync.Mutex
	owners map[string]string // the session of each id
	firsts map[string]string // the first id of the stream of each id
	calls  int               // that are being answered
}

func serveBroken(t *testing.T, b broken) resumetest.Target {
	store := memstore.New(nil)
	log, err := reprise.Open(context.Background(), store, nil)
	check(t, err)
	inner := ours(&replicaOf{log: log})
	ts := httptest.NewServer(&wrong{broken: b, inner: inner, owners: map[string]string{}, firsts: map[string]string{}})
	t.Cleanup(func() {
		ts.CloseClientConnections()
		check(t, inner.(interface{ Close() error }).Close())
		ts.Close()
		check(t, log.Close())
		check(t, store.Close())
	})
	return resumetest.Target{URL: ts.URL + "/mcp", Kept: kept, Patience: 2 * time.Second}
}

func (w *wrong) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if w.refuse != nil {
		if status := w.refuse(w, r); status != 0 {
			rw.WriteHeader(status)
			return
		}
	}
	if w.ask != nil {
		w.ask(w, r)
	}
	w.mu.Lock()
	w.calls++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.calls--
		w.mu.Unlock()
	}()
	w.inner.ServeHTTP(&wrongWriter{ResponseWriter: rw, wrong: w, r: r}, r)
}

func (w *wrong) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls > 0
}

func (w *wrong) owner(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owners[id]
}

func (w *wrong) first(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first := w.firsts[id]; first != "" {
		return first
	}
	return id
}

// wrongWriter changes a response event by event.
type wrongWriter struct {
	http.ResponseWriter
	wrong *wrong
	r     *http.Request
	n     int
	first string
	buf   []byte
}

func (w *wrongWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *wrongWriter) WriteHeader(status int) {
	if w.wrong.status != nil {
		to := w.wrong.status(w.r, status)
		if to == http.StatusOK && to != status {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Del("Content-Length")
		}
		status = to
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *wrongWriter) Write(p []byte) (int, error) {
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		return w.ResponseWriter.Write(p)
	}
	w.buf = append(w.buf, p...)
	for {
		end := bytes.Index(w.buf, []byte("\n\n"))
		if end < 0 {
			return len(p), nil
		}
		block := w.buf[:end+2]
		w.buf = w.buf[end+2:]
		w.n++
		w.note(block)
		if w.wrong.block != nil {
			block = w.wrong.block(w.r, w.n, block)
		}
		if _, err := w.ResponseWriter.Write(block); err != nil {
			return 0, err
		}
	}
}

// note remembers whose the id of a block is.
func (w *wrongWriter) note(block []byte) {
	for line := range strings.Lines(string(block)) {
		id, ok := strings.CutPrefix(strings.TrimSpace(line), "id: ")
		if !ok {
			continue
		}
		if w.first == "" {
			w.first = w.wrong.first(id)
		}
		w.wrong.mu.Lock()
		w.wrong.owners[id], w.wrong.firsts[id] = w.r.Header.Get("Mcp-Session-Id"), w.first
		w.wrong.mu.Unlock()
	}
}
