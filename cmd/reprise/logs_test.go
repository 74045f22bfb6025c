package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRequestsAreLoggedAsJSON: both servers write one line a request, with its name, status and code.
func TestRequestsAreLoggedAsJSON(t *testing.T) {
	for _, verb := range []string{"serve", "gateway"} {
		t.Run(verb, func(t *testing.T) {
			dir := t.TempDir()
			args := []string{
				"reprise", verb, "--listen", "127.0.0.1:0", "--data", dir + "/data", "--log-format", "json",
			}
			if verb == "gateway" {
				args = append(args, "http://127.0.0.1:1/mcp")
			}
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			log := filepath.Join(dir, "log")
			d, err := startProgram(&daemonSpec{path: program, dir: dir, log: log, env: os.Environ(), args: args})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.kill() })
			url := "http://" + d.addr + "/mcp?ticket=secret"
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Request-Id", "mine")
			req.Header.Set("Authorization", "Bearer another-secret")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if got := res.Header.Get("X-Request-Id"); got != "mine" || res.StatusCode != http.StatusUnauthorized {
				t.Errorf("status %d of the request %q", res.StatusCode, got)
			}
			var line struct {
				Level, Msg, ID, Method, Path string
				Status                       int
			}
			var text string
			found := func() bool { // it comes after the answer
				read, _ := os.ReadFile(log)
				text = string(read)
				for l := range strings.Lines(text) {
					if json.Unmarshal([]byte(l), &line) == nil && line.Msg == "request" {
						return true
					}
				}
				return false
			}
			right := eventually(found) && line.ID == "mine" && line.Path == "/mcp" && line.Status == 401
			if !right || line.Level != "INFO" {
				t.Errorf("%+v in the log: %s", line, text)
			}
			if strings.Contains(text, "secret") {
				t.Errorf("a secret is in the log: %s", text)
			}
		})
	}
}
