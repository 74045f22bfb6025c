package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcphttp/resumetest"
	"reprise/store/memstore"
)

// countingServer serves a tool that counts, to those who have the token.
func countingServer(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "counter", Version: "7"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "up"}, countUp)
	store := memstore.New(nil)
	log, err := reprise.Open(context.Background(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := mcphttp.New(log, mcphttp.Server(func(*http.Request) *mcp.Server { return server }), nil)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(wrap(handler))
	t.Cleanup(func() {
		err := errors.Join(handler.Close(), log.Close(), store.Close())
		ts.Close()
		if err != nil {
			t.Error(err)
		}
	})
	return ts.URL + "/mcp"
}

type upInput struct {
	Steps int `json:"steps"`
}

func countUp(ctx context.Context, req *mcp.CallToolRequest, in upInput) (*mcp.CallToolResult, any, error) {
	token := req.Params.GetProgressToken()
	for i := range in.Steps {
		progress := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1)}
		if err := req.Session.NotifyProgress(ctx, progress); err != nil {
			return nil, nil, err
		}
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "counted"}}}, nil, nil
}

// guarded lets those pass who have the token, answers /html with a page, and with 404 whoever resumes at /lost.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/mcp/html"):
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html>hello</html>"))
		case r.Header.Get("Authorization") != "Bearer right":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/mcp/lost") && r.Header.Get("Last-Event-Id") != "":
			w.WriteHeader(http.StatusNotFound)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// checkMCP runs "reprise check-mcp" and returns what it printed and its exit code.
func checkMCP(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	cmd := exec.Command(program)
	cmd.Args = append([]string{"reprise", "check-mcp"}, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	if err := cmd.Run(); err != nil {
		if _, exited := errors.AsType[*exec.ExitError](err); !exited {
			t.Fatal(err)
		}
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

var rightToken = []string{"--header", "Authorization: Bearer right", "--tool", "up", "--arguments", `{"steps":STEPS}`}

func TestCheckMCPReportsEachCase(t *testing.T) {
	t.Parallel()
	url := countingServer(t, guarded)
	only := append(rightToken, "--only", "^(uncut|resume from each id|priming event|restart, session)$", "--json")
	out, errs, code := checkMCP(t, append(only, "--protocol", "2025-06-18", url)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	var report mcpReport
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Server != (resumetest.Server{Name: "counter", Version: "7"}) || report.URL != url {
		t.Errorf("the report is of %v at %s", report.Server, report.URL)
	}
	outcomes := map[string]resumetest.Outcome{}
	for _, r := range report.Results {
		outcomes[r.Case] = r.Outcome
		if r.Rule == "" || r.Source == "" {
			t.Errorf("%s has no rule or no source: %+v", r.Case, r)
		}
	}
	want := map[string]resumetest.Outcome{
		"uncut": resumetest.Passed, "resume from each id": resumetest.Passed,
		"priming event": resumetest.NotApplicable, "restart, session": resumetest.NotRun,
	}
	for name, outcome := range want {
		if outcomes[name] != outcome || report.Counts[outcome] == 0 {
			t.Errorf("%s: %s, want %s; counts %v", name, outcomes[name], outcome, report.Counts)
		}
	}
}

func TestCheckMCPExitsOneWhenACaseFails(t *testing.T) {
	t.Parallel()
	url := countingServer(t, guarded)
	only := append(rightToken, "--only", "^resume from each id$", "--protocol", "2025-11-25")
	out, errs, code := checkMCP(t, append(only, url+"/lost")...)
	if code != 1 || errs != "" {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
	for _, want := range []string{
		"FAILED", "status 404", "rule: every id", "source: MCP", "counter 7: 0 passed, 1 failed",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}

func TestCheckMCPSaysWhyItCannotBegin(t *testing.T) {
	t.Parallel()
	url := countingServer(t, guarded)
	const gone = "http://127.0.0.1:1"
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{gone}, 1, "nothing answers at " + gone},
		{[]string{url + "/html"}, 1, "no MCP server at " + url + "/html"},
		{[]string{url}, 1, "wants other credentials: status 401"},
		{append(rightToken[:2:2], url), 1, `no tool "count"; it has up`},
		{append(rightToken, "--arguments", `{"steps":1}`, url), 1, `the tool "up" does not count to 2`},
		{append(rightToken, "--only", "nonsense", url), 2, "no case has such a name"},
		{[]string{"--arguments", "{", url}, 2, "--arguments {"},
		{[]string{"--header", "secret", url}, 2, "--header: the line has no colon"},
		{[]string{"--protocol", "2026-07-28", url}, 2, "not one of 2025-03-26"},
		{[]string{"--fault-on", "true", url}, 2, "go together"},
		{[]string{"ftp://example.org"}, 2, "is not the URL of a server"},
	} {
		out, errs, code := checkMCP(t, c.args...)
		if code != c.code || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q; want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
}
