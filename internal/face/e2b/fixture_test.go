package e2b_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
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
	"reprise/internal/execution/interpreter"
	"reprise/internal/face/e2b"
	"reprise/internal/files"
	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/internal/testserver"
	"reprise/internal/web"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The credentials of the senders of the tests.
const (
	owner    = "the-owner-of-the-server-0123456789"
	reader   = "reads-and-does-nothing-0123456789"
	runner   = "runs-and-administers-nothing-012345"
	bounded  = "only-of-the-sandboxes-of-team-01234"
	stranger = "of-another-tenant-01234567890123456"
)

// senders verifies them.
type senders struct{}

func (senders) Verify(_ context.Context, credential string) (identity.Principal, error) {
	p := identity.Principal{Name: credential, Tenant: reprise.DefaultTenant, Grants: identity.AllGrants()}
	switch credential {
	case owner:
	case reader:
		p.Grants = []identity.Grant{{Scope: identity.ScopeRead}}
	case runner, bounded:
		p.Grants = nil
		for _, scope := range []identity.Scope{identity.ScopeRead, identity.ScopeRun, identity.ScopeControl} {
			p.Grants = append(p.Grants, identity.Grant{Scope: scope})
			if credential == bounded {
				p.Grants[len(p.Grants)-1].Prefix = "team-"
			}
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
	url, dir string
	server   *api.Server
	host     *execution.Host
	client   *http.Client
	// token and sandbox are what the client shows.
	token, sandbox string
}

func start(tb testing.TB, logOptions *reprise.Options) *fixture {
	tb.Helper()
	w := &fixture{TB: tb, dir: testserver.TempDir(tb), token: owner, sandbox: "team-1"}
	keys := reprise.NewKeyset()
	if logOptions == nil {
		logOptions = &reprise.Options{}
	}
	logOptions.Keys = keys
	log, err := reprise.Open(context.Background(), memstore.New(nil), logOptions)
	w.ok(err)
	w.host, err = execution.Open(context.Background(), log, &execution.Options{
		Dir: w.dir, StateDir: tb.TempDir(), Drive: interpreter.Drive,
	})
	w.ok(err)
	roots, err := files.Open(map[string]string{"work": w.dir}, nil)
	w.ok(err)
	watches, err := files.OpenWatches(log, roots, tb.TempDir(), &files.WatchOptions{Interval: 5 * time.Millisecond})
	w.ok(err)
	opts := &api.Options{Metrics: api.NewMetrics(), Logger: slog.New(slog.DiscardHandler), Quotas: quota.New(nil)}
	opts.Reads = api.NewReads(log, opts)
	opts.Parts = []web.Part{e2b.API{
		Prefix: "/e2b", Log: log, Host: w.host, Reads: opts.Reads, Dir: w.dir, Home: w.dir,
		Files: files.API{Roots: roots, Watches: watches, Reads: opts.Reads, Quotas: opts.Quotas},
	}}
	w.server, err = api.New(log, w.host, identity.NewGate(keys, senders{}, nil), opts)
	w.ok(err)
	served := httptest.NewUnstartedServer(nil)
	served.Config = api.NewHTTPServer(w.server)
	served.Start()
	transport := &http.Transport{}
	w.url, w.client = served.URL+"/e2b", &http.Client{Transport: transport}
	tb.Cleanup(func() {
		w.server.Drain()
		transport.CloseIdleConnections()
		served.Close()
		w.ok(watches.Close())
		w.ok(roots.Close())
		w.ok(w.host.Close())
		w.ok(log.Close())
	})
	return w
}

func (w *fixture) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// send sends a request; header is names and values.
func (w *fixture) send(method, path, body string, header ...string) *http.Response {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, w.url+path, strings.NewReader(body))
	w.ok(err)
	if w.token != "" {
		r.Header.Set("X-Access-Token", w.token)
	}
	r.Header.Set("E2b-Sandbox-Id", w.sandbox)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := w.client.Do(r)
	w.ok(err)
	return resp
}

// do sends a request and reads the answer.
func (w *fixture) do(method, path, body string, header ...string) (status int, text string) {
	w.Helper()
	resp := w.send(method, path, body, header...)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	w.ok(err)
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
