package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reprise/internal/testserver"
)

// statusOf is the status of a GET with the token of the server, 0 for none.
func statusOf(t *testing.T, d *daemon, path, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	res.Body.Close()
	if (res.StatusCode == http.StatusServiceUnavailable) != (res.Header.Get("Retry-After") != "") {
		t.Errorf("%s: status %d with Retry-After %q", path, res.StatusCode, res.Header.Get("Retry-After"))
	}
	return res.StatusCode
}

// TestServeWaitsForItsStore: a server whose store is away at the start is alive and not ready, and goes on by itself
// when the store comes.
func TestServeWaitsForItsStore(t *testing.T) {
	t.Parallel()
	type engine interface {
		URL() string
		Kill() error
		Start() error
	}
	for name, start := range map[string]func(testing.TB) engine{
		"postgres": func(tb testing.TB) engine { return testserver.Postgres(tb, nil) },
		"redis":    func(tb testing.TB) engine { return testserver.Redis(tb, nil) },
		"nats":     func(tb testing.TB) engine { return testserver.NATS(tb, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			store := start(t)
			if err := store.Kill(); err != nil {
				t.Fatal(err)
			}
			dir := testserver.TempDir(t)
			d, err := startDaemon(os.Environ(), dir, dir+"/log",
				"--listen", "127.0.0.1:0", "--data", dir+"/data", "--store", store.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.kill() }()
			text, err := os.ReadFile(dir + "/data/token")
			if err != nil {
				t.Fatal(err)
			}
			token := strings.TrimSpace(string(text))
			for path, want := range map[string]int{
				"/healthz": 200, "/readyz": 503, "/v1/executions": 503,
				"/mcp": 503,
			} {
				if got := statusOf(t, d, path, token); got != want {
					t.Errorf("%s while the store is away: status %d, want %d", path, got, want)
				}
			}
			if err := store.Start(); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"/readyz", "/v1/executions"} {
				if !eventually(func() bool { return statusOf(t, d, path, token) == 200 }) {
					log, _ := os.ReadFile(dir + "/log")
					t.Fatalf("%s: no status 200 after the store has come:\n%s", path, log)
				}
			}
			if err := d.signal(unix.SIGTERM); err != nil || d.err != nil {
				t.Errorf("SIGTERM: %v, %v", err, d.err)
			}
		})
	}
}

// TestServeFailsWhenItsStoreRefusesTheLogin: waiting does not help against wrong credentials.
func TestServeFailsWhenItsStoreRefusesTheLogin(t *testing.T) {
	t.Parallel()
	withPassword := func(url, userinfo string) string {
		scheme, rest, _ := strings.Cut(url, "://")
		if _, host, ok := strings.Cut(rest, "@"); ok {
			rest = host
		}
		return scheme + "://" + userinfo + "@" + rest
	}
	for name, url := range map[string]func(testing.TB) string{
		"redis": func(tb testing.TB) string {
			return withPassword(testserver.Redis(tb, &testserver.RedisOptions{Password: "right"}).URL(), ":not-it")
		},
		"nats": func(tb testing.TB) string {
			return withPassword(testserver.NATS(tb, &testserver.NATSOptions{User: "u", Password: "right"}).URL(),
				"u:not-it")
		},
		"postgres": func(tb testing.TB) string {
			return withPassword(testserver.Postgres(tb, &testserver.PostgresOptions{Password: "right"}).URL(),
				"reprise:not-it")
		},
	} {
		t.Run(name, func(t *testing.T) {
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, program)
			data := testserver.TempDir(t)
			cmd.Args = []string{"reprise", "serve", "--listen", "127.0.0.1:0", "--data", data, "--store", url(t)}
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); err == nil || code != exitFailed {
				t.Errorf("exit code %d: %s", code, out)
			}
			if strings.Contains(string(out), "not-it") || strings.Contains(string(out), "waiting") {
				t.Errorf("output: %s", out)
			}
		})
	}
}
