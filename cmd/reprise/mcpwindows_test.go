package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/datadir"
	"reprise/internal/node"
	"reprise/internal/testserver"
)

// window is a "reprise mcp" that a desktop host has started, and its client.
type window struct {
	*mcp.ClientSession
	client  *mcp.Client
	command *exec.Cmd
}

// openWindow starts "reprise mcp" on a data directory, as the documented configuration does.
func openWindow(t *testing.T, data, version string) *window {
	t.Helper()
	return openWindowIn(t, "", data, version)
}

// openWindowIn is openWindow with the working directory dir.
func openWindowIn(t *testing.T, dir, data, version string, roots ...func(*mcp.Client)) *window {
	t.Helper()
	us, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "reprise")
	if err := os.Symlink(us, binary); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, "mcp", "--data", data)
	command.Env = append(os.Environ(), "REPRISE_URL=", "REPRISE_TOKEN=")
	command.Stderr, command.Dir = t.Output(), dir
	client := mcp.NewClient(&mcp.Implementation{Name: "window", Version: "1"}, nil)
	for _, add := range roots {
		add(client)
	}
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: command, TerminateDuration: patience},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	w := &window{session, client, command}
	t.Cleanup(func() { _ = session.Close() })
	return w
}

// kill ends the process of a window as nothing else can, and waits until it is dead.
func (w *window) kill(t *testing.T) {
	t.Helper()
	if err := w.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the process is dead", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.command.Process.Pid))
		_, state, _ := strings.Cut(string(stat), ") ")
		return err != nil || strings.HasPrefix(state, "Z")
	})
}

// holder is the process that holds a data directory.
func holder(t *testing.T, data string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, datadir.LockFile))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// must calls a tool, whatever process answers.
func (w *window) must(t *testing.T, tool string, arguments map[string]any) string {
	t.Helper()
	result, err := w.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Errorf("%s %v: %v", tool, arguments, err)
		return ""
	}
	text, _ := result.Content[0].(*mcp.TextContent)
	if result.IsError {
		t.Errorf("%s %v: %s", tool, arguments, text.Text)
	}
	return text.Text
}

// runID is the execution_id in what execute_code_async says.
func runID(text string) string {
	_, rest, _ := strings.Cut(text, "execution ")
	id, _, _ := strings.Cut(rest, " ")
	return id
}

// TestFiveMCPClientsShareOneServer: five windows with the documented configuration run at once and see the same
// executions. When the one that holds the data directory is killed, another takes its place, and the other windows and
// its executions continue.
func TestFiveMCPClientsShareOneServer(t *testing.T) {
	t.Parallel()
	data := filepath.Join(testserver.TempDir(t), strings.Repeat("long", 30), "data") // no path of a socket is that long
	windows := make([]*window, 5)
	var opening sync.WaitGroup
	for i := range windows {
		opening.Go(func() { windows[i] = openWindow(t, data, []string{"2025-11-25", "2026-07-28"}[i%2]) })
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	for i, w := range windows {
		if got := w.must(t, "execute_code", map[string]any{
			"command": fmt.Sprintf("echo window %d", i),
		}); !strings.HasPrefix(got, fmt.Sprintf("window %d\n", i)) {
			t.Errorf("window %d: %q", i, got)
		}
	}
	for _, w := range windows {
		if got := w.must(t, "list_executions", nil); strings.Count(got, "exited with code 0") != len(windows) {
			t.Errorf("a window sees %q", got)
		}
	}
	gate := filepath.Join(t.TempDir(), "gate")
	run := runID(windows[0].must(t, "execute_code_async", map[string]any{
		"command": fmt.Sprintf("echo begun; while [ ! -e %s ]; do sleep 0.05; done; echo done; exit 3", gate),
	}))
	windows[1].must(t, "get_execution_output", map[string]any{"execution_id": run, "match": "begun"})
	for len(windows) > 1 {
		pid := holder(t, data)
		rest := windows[:0]
		for _, w := range windows {
			if w.command.Process.Pid != pid {
				rest = append(rest, w)
				continue
			}
			w.kill(t)
		}
		if len(rest) == len(windows) {
			t.Fatalf("process %d holds the data directory, and is no window", pid)
		}
		windows = rest
		for i, w := range windows {
			want := fmt.Sprintf("%d of %d\n", i, len(windows))
			if got := w.must(t, "execute_code", map[string]any{
				"command": "echo " + want,
			}); !strings.HasPrefix(got, want) {
				t.Errorf("after a kill: %q, want %q", got, want)
			}
		}
	}
	// The run has seen four processes killed that held it, and goes on.
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := windows[0].must(t, "get_execution_output", map[string]any{"execution_id": run, "until": "end", "wait": 30})
	if !strings.HasPrefix(got, "begun\ndone\n") || !strings.Contains(got, "exit code 3") {
		t.Errorf("the run of windows that were killed: %q", got)
	}
}

// TestCallWhileTheHolderGoes: a call whose process was killed is answered, with an error, and the next one works.
func TestCallWhileTheHolderGoes(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			data := testserver.TempDir(t)
			first, second := openWindow(t, data, version), openWindow(t, data, version)
			answered := make(chan error, 1)
			go func() {
				_, err := second.CallTool(t.Context(), &mcp.CallToolParams{
					Name: "execute_code", Arguments: map[string]any{"command": "sleep 60", "session": "under-way"},
				})
				answered <- err
			}()
			waitUntil(t, "the call has begun", func() bool {
				return strings.Contains(first.must(t, "list_executions",
					map[string]any{"session": "under-way"}), "is running")
			})
			first.kill(t)
			select {
			case err := <-answered:
				if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInternalError {
					t.Errorf("the call is answered with %v", err)
				}
			case <-time.After(patience):
				t.Fatal("the call is not answered")
			}
			second.must(t, "execute_code", map[string]any{"command": "true"})
			got := second.must(t, "list_executions", map[string]any{"session": "under-way"})
			if !strings.Contains(got, "execution ") {
				t.Errorf("the run is forgotten: %q", got)
			}
		})
	}
}

// TestWindowsRunInTheirOwnDirectories: each call of a window runs in the directory of that window, whichever process
// holds the data directory, and each answer names it.
func TestWindowsRunInTheirOwnDirectories(t *testing.T) {
	t.Parallel()
	top, data := t.TempDir(), filepath.Join(testserver.TempDir(t), "data")
	windows := make([]*window, 8)
	dirs := make([]string, len(windows))
	var opening sync.WaitGroup
	for i := range windows {
		dirs[i] = filepath.Join(top, fmt.Sprintf("project é%d", i))
		check(t, os.MkdirAll(filepath.Join(dirs[i], "sub"), 0o755))
		opening.Go(func() {
			windows[i] = openWindowIn(t, dirs[i], data, []string{"2025-11-25", "2026-07-28"}[i%2])
		})
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	runs := func(w *window, dir string) {
		for sub, arguments := range map[string]map[string]any{
			"":        {"command": "pwd"},
			"/sub":    {"command": "pwd", "cwd": "sub"},
			"/code":   {"code": "import os; os.makedirs('code', exist_ok=True); os.chdir('code'); print(os.getcwd())"},
			"/sub/..": {"command": "pwd", "cwd": filepath.Dir(filepath.Join(dir, "sub"))},
		} {
			got := w.must(t, "execute_code", arguments)
			first, rest, _ := strings.Cut(got, "\n")
			if first != filepath.Clean(dir+sub) || !strings.Contains(rest, " in "+dir) {
				t.Errorf("%v in %s: %q", arguments, dir, got)
			}
		}
		remember := map[string]any{"code": "import os; here = os.getcwd(); print(here)", "interpreter": "one"}
		if got := "\n" + w.must(t, "execute_code", remember); !strings.Contains(got, "\n"+dir+"\n") {
			t.Errorf("an interpreter in %s: %q", dir, got)
		}
	}
	for i, w := range windows {
		runs(w, dirs[i])
	}
	for i, w := range windows {
		if w.command.Process.Pid == holder(t, data) {
			w.kill(t)
			windows[i] = nil
			break
		}
	}
	for i, w := range windows {
		if w != nil {
			runs(w, dirs[i])
		}
	}
}

// waitUntil waits for a condition.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("it is not so that %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestWindowBesideAServer: a window uses the server of the data directory, on whatever port that listens, and takes its
// place when it has gone. The server replaces empty secrets, as a loss of power left them.
func TestWindowBesideAServer(t *testing.T) {
	dir := testserver.TempDir(t)
	data := filepath.Join(dir, "data")
	check(t, os.Mkdir(data, 0o700))
	for _, name := range []string{datadir.SecretFile, datadir.TakeOverSecretFile} {
		check(t, os.WriteFile(filepath.Join(data, name), nil, 0o600))
	}
	server, err := startDaemon(os.Environ(), dir, filepath.Join(dir, "log"), "--listen", "127.0.0.1:0", "--data", data)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.kill() }()
	w := openWindow(t, data, "2025-11-25")
	w.must(t, "execute_code", map[string]any{"command": "echo in the server", "session": "s"})
	if pid := holder(t, data); pid != server.cmd.Process.Pid {
		t.Errorf("%d holds the data directory, not the server %d", pid, server.cmd.Process.Pid)
	}
	for path, mode := range map[string]os.FileMode{
		datadir.SocketFile: os.ModeSocket | 0o600, datadir.SecretFile: 0o600,
	} {
		if info, err := os.Stat(filepath.Join(data, path)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	strangers := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(data, datadir.SocketFile))
		},
	}}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "ping"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, node.WindowsURL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.Repeat("x", 26)) // a guess
	response, err := strangers.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	strangers.CloseIdleConnections()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the secret: status %d", response.StatusCode)
	}
	if err := server.kill(); err != nil {
		t.Fatal(err)
	}
	got := w.must(t, "list_executions", map[string]any{"session": "s"})
	if !strings.Contains(got, "exited with code 0") {
		t.Errorf("after the server: %q", got)
	}
	if pid := holder(t, data); pid != w.command.Process.Pid {
		t.Errorf("%d holds the data directory, not the window %d", pid, w.command.Process.Pid)
	}
}
