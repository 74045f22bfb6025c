package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/datadir"
	"reprise/internal/testserver"
)

// holdingUpstream is an upstream at a URL whose tool "hold" does not return before its call is cancelled. It reports
// that it has begun if the call asks for progress.
type holdingUpstream struct {
	*httptest.Server
	begun, cancelled atomic.Int64 // calls
}

func newHoldingUpstream(t *testing.T) *holdingUpstream {
	up := &holdingUpstream{}
	server := mcp.NewServer(&mcp.Implementation{Name: "upstream", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "hold"},
		func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			if token := r.Params.GetProgressToken(); token != nil {
				progress := &mcp.ProgressNotificationParams{ProgressToken: token, Message: "holding"}
				if err := r.Session.NotifyProgress(ctx, progress); err != nil {
					return nil, nil, err
				}
			}
			up.begun.Add(1)
			<-ctx.Done()
			up.cancelled.Add(1)
			return nil, nil, ctx.Err()
		})
	up.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() {
		up.CloseClientConnections()
		up.Close()
	})
	return up
}

// gatewaysOf starts two gateways before one upstream, which share a store.
func gatewaysOf(t *testing.T, up *holdingUpstream) (one, two *outliving) {
	t.Helper()
	store := "redis://" + testserver.Redis(t, nil).Addr()
	start := func(secrets string) *outliving {
		o := &outliving{t: t, dir: testserver.TempDir(t), listen: freeAddress(t)}
		data := filepath.Join(o.dir, "data")
		check(t, os.Mkdir(data, 0o700))
		for _, name := range []string{datadir.TokenFile, datadir.KeysFile} {
			text, err := os.ReadFile(filepath.Join(secrets, name))
			check(t, err)
			check(t, os.WriteFile(filepath.Join(data, name), text, 0o600))
		}
		o.startGateway("--store", store, up.URL)
		t.Cleanup(func() { _ = o.daemon.kill() })
		return o
	}
	secrets := t.TempDir()
	check(t, makeSecrets(secrets))
	one, two = start(secrets), start(secrets)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return one, two
}

// TestRevokedKeyEndsWhatIsOpenAtTheGateway: a key that is revoked at one gateway ends its responses, calls, session and
// task at another one, and those of no other key.
func TestRevokedKeyEndsWhatIsOpenAtTheGateway(t *testing.T) {
	up := newHoldingUpstream(t)
	one, two := gatewaysOf(t, up)
	const scopes = " --scope run --scope read --scope control"
	key := func(name string) string {
		return strings.TrimSpace(one.verbs(t)(strings.Fields("key add " + name + scopes)...))
	}
	revoked, kept := key("revoked"), key("kept")
	if !eventually(func() bool { status, _ := two.as(kept, "GET", "/v1/tasks"); return status == http.StatusOK }) {
		t.Fatal("the other gateway does not know the key")
	}
	open := map[string]*openAtGateway{}
	for _, token := range []string{revoked, kept} {
		open[token] = openAll(two, token)
	}
	if !eventually(func() bool { return up.begun.Load() == 6 }) {
		t.Fatalf("%d calls of 6 have reached the upstream", up.begun.Load())
	}

	one.verbs(t)("key", "revoke", strings.Split(revoked, "_")[1])
	ended, other := open[revoked], open[kept]
	// A fault is reported before the time limit of the test binary: the waits are short, and the first fault is fatal.
	const limit = 20 * time.Second
	for name, res := range ended.responses {
		late := time.AfterFunc(limit, func() { res.Body.Close() })
		_, _ = io.Copy(io.Discard, res.Body) // whether it is cut off or ends in order
		if !late.Stop() {
			t.Fatalf("the %s goes on", name)
		}
	}
	for _, want := range []struct {
		of     *openAtGateway
		status string
	}{{ended, "cancelled"}, {other, "working"}} {
		if !happensWithin(limit, func() bool { return two.statusOf(want.of.task) == want.status }) {
			t.Fatalf("a task is %s, want %s", two.statusOf(want.of.task), want.status)
		}
	}
	if !happensWithin(limit, func() bool { return up.cancelled.Load() == 3 }) {
		t.Fatalf("%d calls of the upstream were cancelled, want 3", up.cancelled.Load())
	}
	two.want(two.token(), "GET", "/v1/mcp/sessions/"+ended.session, http.StatusNotFound, "not_found")
	two.want(two.token(), "GET", "/v1/mcp/sessions/"+other.session, http.StatusOK, other.session)
	two.want(revoked, "GET", "/v1/tasks", http.StatusUnauthorized, "unauthenticated")
	caller := mcpCaller{T: t, url: two.url() + "/mcp"}
	caller.want("a request with the revoked key", caller.send(revoked, ended.session, pingServer),
		http.StatusUnauthorized, "Bearer", "")
	caller.want("a request with the other key", caller.send(kept, other.session, pingServer),
		http.StatusOK, "", "result")
	if got := up.cancelled.Load(); got != 3 {
		t.Errorf("%d calls of the upstream were cancelled, want 3", got)
	}
}

// openAtGateway is what a key has open.
type openAtGateway struct {
	session, task string
	responses     map[string]*http.Response
}

// openAll opens a session, the stream of its messages, a call in it and one without a session, and a task. No call ends
// by itself.
func openAll(o *outliving, token string) *openAtGateway {
	o.t.Helper()
	caller := mcpCaller{T: o.t, url: o.url() + "/mcp", tool: "hold"}
	begun := caller.send(token, "", beginSession)
	caller.want("initialize", begun, http.StatusOK, "", "result")
	caller.want("initialized", caller.send(token, begun.session,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`), http.StatusAccepted, "", "")
	call := func(body string) string {
		body = strings.Replace(body, "execute_code", "hold", 1)
		body = strings.Replace(body, `"command":"echo it runs"`, "", 1)
		return strings.Replace(body, `"_meta":{`, `"_meta":{"progressToken":"p",`, 1) // the answer begins at once
	}
	open := &openAtGateway{session: begun.session, responses: map[string]*http.Response{
		"stream":                 caller.open(token, begun.session, ""),
		"call of a session":      caller.open(token, begun.session, call(legacyCall)),
		"call without a session": caller.open(token, "", call(modernCall)),
	}}
	for name, res := range open.responses {
		if res.StatusCode != http.StatusOK {
			o.t.Fatalf("the %s is answered with %s", name, res.Status)
		}
		o.t.Cleanup(func() { res.Body.Close() })
	}
	open.task = o.askAs(token, "tools/call", "hold", `"name":"hold","arguments":{}`).TaskID
	if open.task == "" {
		o.t.Fatal("the call did not become a task")
	}
	return open
}

// statusOf returns the status of a task, as the admin sees it.
func (o *outliving) statusOf(task string) string {
	o.t.Helper()
	return strings.Join(member(o.answered(o.t, "/v1/tasks/"+task, ""), "status"), " ")
}
