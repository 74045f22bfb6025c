package mcptask_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/mcp/mcptask"
	"reprise/store/memstore"
)

// TestConformanceWithPublicSuite runs the scenarios for tasks of the public suite, npm
// @modelcontextprotocol/conformance 0.2.0-alpha.12. MCP_CONFORMANCE is a folder in which it and npm node@22 are
// installed.
func TestConformanceWithPublicSuite(t *testing.T) {
	dir := os.Getenv("MCP_CONFORMANCE")
	if dir == "" {
		t.Skip("MCP_CONFORMANCE is not set")
	}
	conform(t, dir, newFixture(t, nil).url)
}

// conform runs the scenarios against a server at url.
func conform(t *testing.T, dir, url string) {
	for _, scenario := range []string{
		"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal",
		"tasks-mrtr-input",
		"tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-status-notifications",
		"tasks-required-task-error", "tasks-mrtr-composition",
	} {
		t.Run(scenario, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			out := t.TempDir()
			suite := exec.CommandContext(ctx, filepath.Join(dir, "node_modules/node/bin/node"),
				filepath.Join(dir, "node_modules/@modelcontextprotocol/conformance/dist/index.js"),
				"server", "--url", url, "--scenario", scenario, "--spec-version", "2026-07-28", "--force",
				"--output-dir", out)
			suite.WaitDelay = time.Second
			text, err := suite.CombinedOutput()
			if err != nil {
				t.Errorf("the suite: %v\n%s", err, text)
			}
			checkResults(t, out)
		})
	}
}

// checkResults reads what the suite has written, for it takes warnings for success.
func checkResults(t *testing.T, dir string) {
	t.Helper()
	count := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "checks.json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var checks []struct{ ID, Status, ErrorMessage string }
		if err := json.Unmarshal(text, &checks); err != nil {
			return err
		}
		for _, c := range checks {
			count++
			if c.Status != "SUCCESS" && c.Status != "SKIPPED" && c.Status != "INFO" {
				t.Errorf("%s: %s: %s", c.ID, c.Status, c.ErrorMessage)
			}
		}
		return nil
	})
	if err != nil || count == 0 {
		t.Errorf("%d checks, %v", count, err)
	}
	t.Logf("%d checks", count)
}

// TestConformanceOfTheSDK runs the same with the HTTP handler of the SDK in place of mcphttp.
func TestConformanceOfTheSDK(t *testing.T) {
	dir := os.Getenv("MCP_CONFORMANCE")
	if dir == "" {
		t.Skip("MCP_CONFORMANCE is not set")
	}
	log := newLog(t, memstore.New(nil))
	defer log.Close()
	tasks, err := mcptask.New(log, &mcptask.Options{Poll: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	addTools(server, tasks)
	if err := tasks.Install(server); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true}))
	defer web.Close()
	defer http.DefaultClient.CloseIdleConnections()
	conform(t, dir, web.URL)
}
