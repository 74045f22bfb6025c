package durable_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/execution"
	"reprise/internal/face/durable"
	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/internal/web"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The credentials of the senders of the tests.
const (
	owner    = "the-owner-of-the-server-0123456789"
	reader   = "reads-and-does-nothing-0123456789"
	writer   = "publishes-and-does-nothing-else-0123"
	bounded  = "only-below-team-0123456789-0123456"
	stranger = "of-another-tenant-01234567890123456"
)

// senders verifies them.
type senders struct{}

func (senders) Verify(_ context.Context, credential string) (identity.Principal, error) {
	p := identity.Principal{
		Name: credential, Credential: credential, Tenant: reprise.DefaultTenant, Grants: identity.AllGrants(),
	}
	switch credential {
	case owner:
	case reader:
		p.Grants = []identity.Grant{{Scope: identity.ScopeRead}}
	case writer:
		p.Grants = []identity.Grant{{Scope: identity.ScopePublish}}
	case bounded:
		p.Grants = nil
		for _, scope := range []identity.Scope{identity.ScopeRead, identity.ScopePublish, identity.ScopeControl} {
			p.Grants = append(p.Grants, identity.Grant{Scope: scope, Prefix: "team/"})
		}
	case stranger:
		p.Tenant = "other"
	default:
		return identity.Principal{}, &identity.GuessError{Reason: "unknown"}
	}
	return p, nil
}

func (s senders) Current(ctx context.Context, credential string) (identity.Principal, error) {
	return s.Verify(ctx, credential)
}

func (s senders) Named(ctx context.Context, _ reprise.Tenant, name string) (identity.Principal, error) {
	return s.Verify(ctx, name)
}

// fixture is a server with the face, and a client of it.
type fixture struct {
	testing.TB
	url    string
	log    *reprise.Log
	server *api.Server
	client *http.Client
	token  string
}

func start(tb testing.TB, logOptions *reprise.Options) *fixture {
	tb.Helper()
	w := &fixture{TB: tb, token: owner}
	keys := reprise.NewKeyset()
	if logOptions == nil {
		logOptions = &reprise.Options{}
	}
	logOptions.Keys = keys
	var err error
	w.log, err = reprise.Open(context.Background(), memstore.New(nil), logOptions)
	w.ok(err)
	host, err := execution.Open(context.Background(), w.log, &execution.Options{
		Dir: tb.TempDir(), StateDir: tb.TempDir(),
	})
	w.ok(err)
	opts := &api.Options{Metrics: api.NewMetrics(), Logger: slog.New(slog.DiscardHandler), Quotas: quota.New(nil)}
	opts.Reads = api.NewReads(w.log, opts)
	opts.Parts = []web.Part{durable.API{
		Prefix: "/v1/stream", Log: w.log, Reads: opts.Reads, Heartbeat: 10 * time.Millisecond,
	}}
	w.server, err = api.New(w.log, host, identity.NewGate(keys, senders{}, nil), opts)
	w.ok(err)
	served := httptest.NewUnstartedServer(nil)
	served.Config = api.NewHTTPServer(w.server)
	served.Start()
	transport := &http.Transport{}
	w.url, w.client = served.URL, &http.Client{Transport: transport}
	tb.Cleanup(func() {
		w.server.Drain()
		transport.CloseIdleConnections()
		served.Close()
		w.ok(host.Close())
		w.ok(w.log.Close())
	})
	return w
}

func (w *fixture) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// send sends a request; path is below the prefix unless it begins with a slash. header is names and values.
func (w *fixture) send(method, path, body string, header ...string) *http.Response {
	w.Helper()
	if !strings.HasPrefix(path, "/") {
		path = "/v1/stream/" + path
	}
	r, err := http.NewRequestWithContext(w.Context(), method, w.url+path, strings.NewReader(body))
	w.ok(err)
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := w.client.Do(r)
	w.ok(err)
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
	w.ok(err)
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
	s, err := w.log.Stream(w.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name})
	w.ok(err)
	return s
}

// control is the data of a control event.
type control struct {
	StreamNextOffset, StreamCursor, StreamOutcome string
	UpToDate, StreamClosed                        bool
}

func (w *fixture) control(f frame) (c control) {
	w.Helper()
	w.ok(json.Unmarshal([]byte(f.data), &c))
	return c
}

// decoded returns the content of a data event of a stream.
func (w *fixture) decoded(data string) string {
	w.Helper()
	text, err := base64.StdEncoding.DecodeString(data)
	w.ok(err)
	return string(text)
}
