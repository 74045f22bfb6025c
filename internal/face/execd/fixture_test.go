package execd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/face/execd"
	"reprise/internal/files"
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
	runner   = "runs-and-administers-nothing-012345"
	bounded  = "only-of-the-sessions-of-team-012345"
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
	client   *http.Client
	token    string
}

func start(tb testing.TB, logOptions *reprise.Options) *fixture {
	tb.Helper()
	w := &fixture{TB: tb, dir: tb.TempDir(), token: owner}
	keys := reprise.NewKeyset()
	if logOptions == nil {
		logOptions = &reprise.Options{}
	}
	logOptions.Keys = keys
	log, err := reprise.Open(context.Background(), memstore.New(nil), logOptions)
	w.ok(err)
	host, err := execution.Open(context.Background(), log, &execution.Options{
		Dir: w.dir, StateDir: tb.TempDir(), Drive: interpreter.Drive,
	})
	w.ok(err)
	roots, err := files.Open(map[string]string{"work": w.dir}, nil)
	w.ok(err)
	opts := &api.Options{
		Metrics: api.NewMetrics(), Logger: slog.New(slog.DiscardHandler), Quotas: quota.New(nil),
	}
	opts.Reads = api.NewReads(log, opts)
	opts.Parts = []web.Part{execd.API{
		Prefix: "/execd", Host: host, Reads: opts.Reads, Dir: w.dir, Home: w.dir, Shell: "bash",
		Files: files.API{Roots: roots, Reads: opts.Reads, Quotas: opts.Quotas},
	}}
	w.server, err = api.New(log, host, identity.NewGate(keys, senders{}, nil), opts)
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
		w.ok(roots.Close())
		w.ok(host.Close())
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

// send sends a request to the face.
func (w *fixture) send(method, path, body string, header ...string) *http.Response {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, w.url+path, strings.NewReader(body))
	w.ok(err)
	r.Header.Set("X-EXECD-ACCESS-TOKEN", w.token)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	res, err := w.client.Do(r)
	w.ok(err)
	return res
}

// do sends a request and returns the whole answer.
func (w *fixture) do(method, path, body string, header ...string) (status int, text string, h http.Header) {
	w.Helper()
	res := w.send(method, "/execd"+path, body, header...)
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	w.ok(err)
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
		w.ok(json.Unmarshal([]byte(one), &f))
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
	w.ok(err)
	var f frame
	w.ok(json.Unmarshal([]byte(line), &f))
	return f, in
}

func (w *fixture) write(name, text string) {
	w.Helper()
	w.ok(os.WriteFile(w.dir+"/"+name, []byte(text), 0o600))
}

// quoted is text as JSON.
func quoted(text string) string {
	var b bytes.Buffer
	_ = json.NewEncoder(&b).Encode(text)
	return strings.TrimSpace(b.String())
}

// makeFIFO makes a pipe with a name.
func makeFIFO(path string) error { return exec.Command("mkfifo", path).Run() }
