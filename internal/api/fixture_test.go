package api_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/apikey"
	"reprise/internal/audit"
	"reprise/internal/drain"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/identity"
	"reprise/internal/journal"
	"reprise/internal/mcpapi"
	"reprise/internal/park"
	"reprise/internal/quota"
	"reprise/internal/schedule"
	"reprise/internal/upkeep"
	"reprise/internal/webhook"
	"reprise/mcp/mcptask"
	"reprise/store/memstore"
)

// parkAll makes fixtures park every response that can be parked, as soon as it has nothing to send.
var parkAll bool

const token = "a-token-for-tests-0123456789"

// setup is what a test wants to be different. The zero value is a server over a
// memory store with a token.
type setup struct {
	store reprise.Store
	log   reprise.Options
	host  execution.Options
	gate  identity.Options
	api   api.Options
	open  bool // no token is needed
	audit bool // what is done is recorded
	quiet bool // what the server logs is not kept
	// refusedEvery is how long refusals are gathered for the audit log. Default: 20 ms.
	refusedEvery time.Duration
	// logLog gives the Log the logger of the server.
	logLog bool
	temp   string                             // of backups
	keys   *reprise.Keyset                    // of a server before
	lot    **park.Lot                         // is set to where responses are parked, if it is not nil
	mcp    func(*reprise.Log) mcpapi.Sessions // nil for none
}

// fixture is a complete server and a client that checks every response against the contract.
type fixture struct {
	testing.TB
	url    string
	log    *reprise.Log
	host   *execution.Host
	server *api.Server
	files  string // the directory of the root "work"
	http   *httptest.Server
	client *http.Client
	token  string
	keys   *apikey.Registry
	hooks  *webhook.Hooks
	timed  *schedule.Schedules
	trail  *audit.Trail
	mcp    http.Handler // of the tool "wait", whose calls become tasks
	tasks  *mcptask.Tasks
	logged *safeBuffer
}

// safeBuffer is what the server has logged.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func start(tb testing.TB, s setup) *fixture {
	tb.Helper()
	w := &fixture{TB: tb, token: token, logged: &safeBuffer{}}
	if s.store == nil {
		s.store = memstore.New(nil)
	}
	if s.api.Metrics == nil {
		s.api.Metrics = api.NewMetrics()
	}
	s.api.Logger = slog.New(slog.NewTextHandler(w.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if s.quiet {
		s.api.Logger = slog.New(slog.DiscardHandler)
	}
	keys := s.keys
	if keys == nil {
		keys = reprise.NewKeyset()
	}
	if s.logLog {
		s.log.Logger = s.api.Logger
	}
	s.log.Keys, s.log.Hooks = keys, s.api.Metrics.LogHooks()
	if s.host.Hooks == nil {
		s.host.Hooks = s.api.Metrics.ExecutionHooks()
	}
	s.host.Dir, s.host.StateDir = tb.TempDir(), tb.TempDir()
	var err error
	w.log, err = reprise.Open(context.Background(), s.store, &s.log)
	w.ok(err)
	var verifier identity.Verifier
	if !s.open {
		verifier = w.knowKeys()
	}
	if s.api.Issuers != nil {
		verifier = s.api.Issuers.Before(verifier)
	}
	s.host.Drive = interpreter.Drive
	w.host, err = execution.Open(context.Background(), w.log, &s.host)
	w.ok(err)
	s.api.Token = token
	if s.audit {
		s.api.Audit, err = audit.Open(context.Background(), w.log, keys,
			&audit.Options{
				NoteEvery: 10 * time.Millisecond, RefusedEvery: cmp.Or(s.refusedEvery, 20*time.Millisecond),
			})
		w.ok(err)
		w.trail = s.api.Audit
	}
	if s.api.Quotas == nil {
		s.api.Quotas = quota.New(nil)
	}
	s.api.Reads = api.NewReads(w.log, &s.api)
	if w.trail != nil {
		s.api.Parts = append(s.api.Parts, audit.API{Trail: w.trail, Log: w.log, Reads: s.api.Reads})
	}
	closeFiles := w.openFiles(&s.api)
	var sessions mcpapi.Sessions
	if s.mcp != nil {
		sessions = s.mcp(w.log)
	}
	s.api.Parts = append(s.api.Parts, sessions, upkeep.API{Log: w.log, Store: s.store, Temp: s.temp},
		drain.API{Drain: drain.New(w.host, func() int { return 0 }, slog.New(slog.DiscardHandler))})
	closeTasks := w.openTasks(&s.api)
	if parkAll {
		s.api.Parking, err = park.New(&park.Options{After: time.Nanosecond, Logger: s.api.Logger})
		w.ok(err)
		if s.lot != nil {
			*s.lot = s.api.Parking
		}
	}
	gate := identity.NewGate(keys, verifier, &s.gate)
	w.hooks, err = webhook.Open(context.Background(), w.log, &webhook.Options{
		Principal: gate.Named, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		LookEvery: 10 * time.Millisecond,
	})
	w.ok(err)
	w.timed, err = schedule.Open(context.Background(), w.log, &schedule.Options{
		Start: func(ctx context.Context, who *identity.Principal, q execution.Request) (
			execution.Execution, bool, error,
		) {
			return w.host.StartFor(ctx, who.Holder(), q)
		}, Show: w.host.Show, Principal: gate.Named,
	})
	w.ok(err)
	s.api.Parts = append(s.api.Parts, webhook.API{Hooks: w.hooks}, schedule.API{Schedules: w.timed})
	if w.keys != nil {
		s.api.Parts = append(s.api.Parts, apikey.API{Keys: w.keys})
	}
	w.server, err = api.New(w.log, w.host, gate, &s.api)
	w.ok(err)
	w.http = httptest.NewUnstartedServer(nil)
	w.http.Config = api.NewHTTPServer(w.server)
	w.http.Start()
	if parkAll {
		config := w.http.Config
		go func() { _ = s.api.Parking.Serve(config) }()
	}
	w.url = w.http.URL
	transport := &http.Transport{}
	w.client = &http.Client{
		Transport:     &checkedTransport{tb, transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	tb.Cleanup(func() {
		w.server.Drain()
		transport.CloseIdleConnections()
		w.http.Close()
		w.ok(s.api.Parking.Close())
		closeFiles()
		closeTasks()
		w.hooks.Close()
		w.timed.Close()
		s.api.Audit.Close()
		if w.keys != nil {
			w.keys.Close()
		}
		w.ok(w.host.Close())
		w.ok(w.log.Close())
		w.ok(s.store.Close())
	})
	return w
}

// knowKeys opens the API keys, in a stream where replicas share the store.
func (w *fixture) knowKeys() identity.Verifier {
	w.Helper()
	known, err := identity.NewToken(token)
	w.ok(err)
	journal := journal.File(filepath.Join(w.TempDir(), "api-keys"))
	if w.log.Shared() {
		journal = apikey.Stream(w.log)
	}
	w.keys, err = apikey.Open(context.Background(), journal, nil)
	w.ok(err)
	return identity.Verifiers{known, w.keys}
}

func (w *fixture) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// answer is a response that was read to its end.
type answer struct {
	w      *fixture
	what   string
	status int
	header http.Header
	body   string
}

// open sends a request and leaves the body of the response to the caller. Each of headers
// is "Name: value".
func (w *fixture) open(method, path, body string, headers ...string) *http.Response {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, w.url+path, strings.NewReader(body))
	w.ok(err)
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Del(name)
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := w.client.Do(req)
	w.ok(err)
	return res
}

func (w *fixture) do(method, path, body string, headers ...string) *answer {
	w.Helper()
	res := w.open(method, path, body, headers...)
	text, err := io.ReadAll(res.Body)
	w.ok(errors.Join(err, res.Body.Close()))
	return &answer{w, fmt.Sprintf("%s %.200s", method, path), res.StatusCode, res.Header, string(text)}
}

// login returns the headers of a login from the answer to it: its cookie and its secret.
func (a *answer) login() []string {
	a.w.Helper()
	cookie, _, _ := strings.Cut(a.is(200).header.Get("Set-Cookie"), ";")
	return []string{"Cookie: " + cookie, identity.LoginHeader + ": " + a.text("secret")}
}

func (a *answer) is(status int) *answer {
	a.w.Helper()
	if a.status != status {
		a.w.Fatalf("%s: status %d, want %d: %s", a.what, a.status, status, a.body)
	}
	return a
}

// refused checks that the answer is a problem with a status and a code.
func (a *answer) refused(status int, code string) *answer {
	a.w.Helper()
	a.is(status)
	if got := a.text("code"); got != code {
		a.w.Fatalf("%s: code %q, want %q: %s", a.what, got, code, a.body)
	}
	return a
}

// member finds a value in the JSON of the answer.
func (a *answer) member(path ...string) any {
	a.w.Helper()
	var v any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		a.w.Fatalf("%s: %v in %q", a.what, err, a.body)
	}
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func (a *answer) text(path ...string) string {
	s, _ := a.member(path...).(string)
	return s
}

func (a *answer) number(path ...string) int64 {
	n, _ := a.member(path...).(float64)
	return int64(n)
}

// ended waits until an execution has ended and returns how it is shown then.
func (w *fixture) ended(id string) *answer {
	w.Helper()
	w.do("GET", "/v1/executions/"+id+"/events", "", "Accept: application/x-ndjson")
	return w.do("GET", "/v1/executions/"+id, "").is(200)
}

// stream makes a stream with events of these data.
func (w *fixture) stream(name string, data ...string) *reprise.Stream {
	w.Helper()
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}
	s, _, err := w.log.Create(w.Context(), key, reprise.StreamConfig{})
	w.ok(err)
	for _, d := range data {
		_, err := s.Append(w.Context(), reprise.Event{Type: "note", Data: []byte(d)})
		w.ok(err)
	}
	return s
}

// eventually waits for a condition that another goroutine brings about.
func (w *fixture) eventually(what string, condition func() bool) {
	w.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			w.Fatalf("condition not met: %s", what)
		}
	}
}

// metric is the value of one line of /metrics, for example "reprise_readers".
func (w *fixture) metric(name string) string {
	w.Helper()
	for line := range strings.Lines(w.do("GET", "/metrics", "").is(200).body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// follower reads a response that goes on, line by line.
type follower struct {
	w    *fixture
	body io.ReadCloser
	in   *bufio.Reader
}

func (w *fixture) follow(path string, headers ...string) *follower {
	w.Helper()
	res := w.open("GET", path, "", headers...)
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		w.Fatalf("GET %s: status %d: %s", path, res.StatusCode, text)
	}
	return &follower{w, res.Body, bufio.NewReader(res.Body)}
}

// line is the next line that is not blank; "" when the response has ended.
func (f *follower) line() string {
	for {
		line, err := f.in.ReadString('\n')
		if err != nil {
			return ""
		}
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			return line
		}
	}
}

func (f *follower) close() { _ = f.body.Close() }

// faultyStore fails its calls as it is told to.
type faultyStore struct {
	reprise.Store
	fault atomic.Pointer[func() error]
}

func (s *faultyStore) fail(f func() error) { s.fault.Store(&f) }

func (s *faultyStore) err() error {
	if f := s.fault.Load(); f != nil {
		return (*f)()
	}
	return nil
}

func (s *faultyStore) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if err := s.err(); err != nil {
		return reprise.StreamInfo{}, err
	}
	return s.Store.Create(ctx, info)
}

func (s *faultyStore) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if err := s.err(); err != nil {
		errs := make([]error, len(reqs))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return s.Store.Append(ctx, reqs)
}

func (s *faultyStore) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	if err := s.err(); err != nil {
		return reprise.ListPage{}, err
	}
	return s.Store.List(ctx, q)
}
