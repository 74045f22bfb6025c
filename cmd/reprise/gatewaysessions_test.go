package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearing sends a token with each request.
type bearing string

func (token bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// openSession opens a session of version 2025-11-25 at a path of the gateway.
func (o *outliving) openSession(path string) *mcp.ClientSession {
	o.t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "at " + path, Version: "7"}, nil)
	s, err := c.Connect(o.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: o.url() + path, HTTPClient: &http.Client{Transport: bearing(o.token())},
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	check(o.t, err)
	o.t.Cleanup(func() { _ = s.Close() })
	return s
}

// as sends a request with a token and returns the status and the body of the answer.
func (o *outliving) as(token, method, path string) (status int, body string) {
	o.t.Helper()
	r, err := http.NewRequestWithContext(o.t.Context(), method, o.url()+path, http.NoBody)
	check(o.t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(r)
	check(o.t, err)
	text, err := io.ReadAll(res.Body)
	check(o.t, errors.Join(err, res.Body.Close()))
	return res.StatusCode, string(text)
}

// want fails the test if a request with a token is answered with another status or without a text.
func (o *outliving) want(token, method, path string, status int, text string) {
	o.t.Helper()
	if got, body := o.as(token, method, path); got != status || !strings.Contains(body, text) {
		o.t.Errorf("%s %s: %d, want %d with %q: %s", method, path, got, status, text, body)
	}
}

// member returns the values of a member of objects.
func member(objects []any, name string) (values []string) {
	for _, o := range objects {
		values = append(values, fmt.Sprint(o.(map[string]any)[name]))
	}
	return values
}

// TestGatewayShowsSessionsAndTasks: the sessions, calls and tasks of all upstreams of a gateway are listed, shown and
// ended, as those of serve, with the same verbs, by those who may.
func TestGatewayShowsSessionsAndTasks(t *testing.T) {
	config := filepath.Join(t.TempDir(), "gateway.yaml")
	check(t, os.WriteFile(config, fmt.Appendf(nil, "upstreams:\n  one: {path: /mcp, url: %q}\n  two: {url: %q}\n",
		newHoldingUpstream(t).URL, newHoldingUpstream(t).URL), 0o600))
	o := outliveGateway(t, "--config", config)
	one, two := o.openSession("/mcp"), o.openSession("/two")
	task := o.startToolTask("hold", "{}")
	calling, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = one.CallTool(calling, &mcp.CallToolParams{Name: "hold"}) }()
	calls := "/v1/mcp/sessions/" + one.ID() + "/calls"
	if !eventually(func() bool { return len(o.answered(t, calls, "calls")) == 1 }) {
		t.Fatal("the call is not listed")
	}
	keys := map[string]string{}
	for name, flags := range map[string]string{
		"reader": "--scope read --scope control", "runner": "--scope run",
		"prefixed": "--scope read:a- --scope control:a-",
		"stranger": "--scope read --scope control --tenant acme",
	} {
		keys[name] = strings.TrimSpace(o.verbs(t)(strings.Fields("key add " + name + " " + flags)...))
	}

	o.testVerbs(one, two, task)
	o.testRights(keys, one.ID(), task)
	for _, endpoint := range []string{"one", "two"} {
		o.want(o.token(), "GET", "/metrics", 200, fmt.Sprintf("reprise_mcp_sessions{endpoint=%q} 1\n", endpoint))
	}

	before := o.answered(t, "/v1/mcp/sessions", "sessions")
	o.killGateway("--config", config)
	after := o.answered(t, "/v1/mcp/sessions", "sessions")
	for _, name := range []string{"id", "endpoint", "client", "version", "principal", "created", "links"} {
		if !slices.Equal(member(before, name), member(after, name)) {
			t.Errorf("after a restart there are %v, before it %v", after, before)
		}
	}

	o.verbs(t)("remove", "--mcp", one.ID())
	if left := o.answered(t, "/v1/mcp/sessions", "sessions"); !slices.Equal(member(left, "id"), []string{two.ID()}) {
		t.Errorf("left are %v", left)
	}
	if _, err := one.ListTools(t.Context(), nil); err == nil {
		t.Error("the session that was ended is used")
	}
	o.want(o.token(), "GET", "/v1/mcp/sessions/"+one.ID(), 404, "not_found")
	o.want(o.token(), "DELETE", "/v1/mcp/sessions/"+one.ID(), 204, "")
}

// testVerbs compares what the verbs print with what the gateway answers and with what there is.
func (o *outliving) testVerbs(one, two *mcp.ClientSession, task string) {
	t := o.t
	verb := o.verbs(t)
	session := "/v1/mcp/sessions/" + one.ID()
	for _, c := range []struct {
		line, path, list string
		want             map[string][]string
	}{
		{"list --mcp --json", "/v1/mcp/sessions", "sessions", map[string][]string{
			"id": {one.ID(), two.ID()}, "endpoint": {"one", "two"}, "version": {"2025-11-25", "2025-11-25"},
			"principal": {"token", "token"},
		}},
		{"show --mcp --json " + two.ID(), "/v1/mcp/sessions/" + two.ID(), "", map[string][]string{
			"endpoint": {"two"}, "client": {"map[name:at /two version:7]"}, "running": {"0"},
		}},
		{"list --json --calls " + one.ID(), session + "/calls", "calls", map[string][]string{
			"method": {"tools/call"}, "name": {"hold"}, "status": {"running"},
		}},
		{"list --tasks --json", "/v1/tasks", "tasks", map[string][]string{
			"id": {task}, "endpoint": {"one"}, "tool": {"hold"}, "status": {"working"}, "execution": {"<nil>"},
		}},
		{"show --task --json " + task, "/v1/tasks/" + task, "", map[string][]string{"endpoint": {"one"}}},
	} {
		var printed, answered []any
		if !eventually(func() bool { // the last activity may change
			printed, answered = jsonLines(t, verb(strings.Fields(c.line)...)), o.answered(t, c.path, c.list)
			return reflect.DeepEqual(printed, answered)
		}) {
			t.Errorf("%s prints %v, answered is %v", c.line, printed, answered)
		}
		for name, want := range c.want {
			if got := member(answered, name); !slices.Equal(got, want) {
				t.Errorf("%s: %s is %q, want %q", c.path, name, got, want)
			}
		}
	}
	verb("cancel", "--task", task)
	o.untilTask(task, "cancelled")
	if shown := verb("list", "--tasks"); !strings.Contains(shown, "cancelled") {
		t.Errorf("after the cancel there is %s", shown)
	}
	next := o.answered(t, "/v1/mcp/sessions?limit=1", "")[0].(map[string]any)["next_cursor"]
	second := o.answered(t, fmt.Sprint("/v1/mcp/sessions?limit=1&cursor=", next), "sessions")
	if ids := member(second, "id"); !slices.Equal(ids, []string{two.ID()}) {
		t.Errorf("the second page has %v", ids)
	}
}

// testRights: who may not see a session or a task is answered as if there were none.
func (o *outliving) testRights(keys map[string]string, session, task string) {
	shown, calls := "/v1/mcp/sessions/"+session, "/v1/mcp/sessions/"+session+"/calls"
	for _, path := range []string{"/v1/mcp/sessions", shown, calls, "/v1/tasks", "/v1/tasks/" + task} {
		o.want("", "GET", path, 401, "unauthenticated")
		o.want(keys["runner"], "GET", path, 403, "forbidden")
	}
	o.want(keys["reader"], "GET", shown, 200, session) // of its tenant
	for _, name := range []string{"reader", "prefixed", "stranger"} {
		o.want(keys[name], "GET", "/v1/tasks", 200, `"tasks":[]`)
		o.want(keys[name], "GET", "/v1/tasks/"+task, 404, "not_found")
		o.want(keys[name], "POST", "/v1/tasks/"+task+"/cancel", 404, "not_found")
	}
	for _, name := range []string{"prefixed", "stranger"} {
		o.want(keys[name], "GET", "/v1/mcp/sessions", 200, `"sessions":[]`)
		o.want(keys[name], "GET", shown, 404, "not_found")
		o.want(keys[name], "GET", calls, 404, "not_found")
		o.want(keys[name], "DELETE", shown, 204, "") // as for one that does not exist
	}
	o.want(o.token(), "GET", shown, 200, session)
}
