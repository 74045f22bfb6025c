package console_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"reprise/internal/freeport"
	"reprise/internal/testserver"
)

// program is the reprise binary: the one that REPRISE_BIN names, or else one that is built for the tests.
var program = os.Getenv("REPRISE_BIN")

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "console")
	if err == nil {
		defer os.RemoveAll(dir)
		shared.dir = dir
	}
	if err == nil && program == "" {
		program = filepath.Join(dir, "reprise")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", program, "reprise/cmd/reprise").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if shared.browser != nil {
		shared.browser.close()
	}
	return code
}

// server is a reprise that serves, with a data directory and an address that outlive it.
type server struct {
	testing.TB
	dir   string
	addr  string
	flags []string
	env   []string // of the process, nil for that of the test
	bare  bool     // it is started without any flag
	cmd   *exec.Cmd
	url   string
	token string
}

// startServer starts a server that ends with the test.
func startServer(t testing.TB, flags ...string) *server {
	t.Helper()
	addr, err := freeport.Address()
	check(t, err)
	s := &server{TB: t, dir: testserver.TempDir(t), addr: addr, flags: flags}
	s.start()
	t.Cleanup(s.stop)
	return s
}

// startOpenServer starts a server that asks for no token.
func startOpenServer(t testing.TB) *server {
	t.Helper()
	return startServer(t, "--auth", "none")
}

// start starts it, at the address that it had before.
func (s *server) start() {
	s.Helper()
	args := append([]string{
		"serve", "--listen", s.addr, "--data", s.dir, "--log-level", "warn", "--stop-executions",
	}, s.flags...)
	if s.bare {
		args = []string{"serve"}
	}
	s.cmd = exec.Command(program, args...)
	s.cmd.Stderr = os.Stderr
	s.cmd.Env = append(os.Environ(), "REPRISE_URL=", "REPRISE_TOKEN=")
	if s.env != nil {
		s.cmd.Env = s.env
	}
	out, err := s.cmd.StdoutPipe()
	check(s, err)
	check(s, s.cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "listening on http://"); ok {
			s.addr, s.url = address, "http://"+address
			go func() { _, _ = io.Copy(io.Discard, out) }()
			if s.bare {
				return // who has started it looks for the token
			}
			token, err := os.ReadFile(filepath.Join(s.dir, "token"))
			if !errors.Is(err, fs.ErrNotExist) { // an open server has none
				check(s, err)
			}
			s.token = strings.TrimSpace(string(token))
			return
		}
	}
	s.Fatal("the server does not listen")
}

// stop ends the server and the commands that it runs.
func (s *server) stop() {
	if s.cmd == nil {
		return
	}
	check(s, s.cmd.Process.Signal(syscall.SIGTERM))
	late := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	if err := s.cmd.Wait(); err != nil {
		s.Errorf("the server ended with %v", err)
	}
	s.cmd = nil
}

// kill ends the server as nothing else can.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// call sends a request with the token and returns the answer to it.
func (s *server) call(method, path string, body any) map[string]any {
	s.Helper()
	text, err := json.Marshal(body)
	check(s, err)
	if body == nil {
		text = nil
	}
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, bytes.NewReader(text))
	check(s, err)
	r.Header.Set("Authorization", "Bearer "+s.token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	check(s, err)
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	check(s, err)
	if answer.StatusCode >= 300 {
		s.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	var result map[string]any
	if len(text) > 0 {
		check(s, json.Unmarshal(text, &result))
	}
	return result
}

// initialize begins a session of an MCP client and returns its id.
func (s *server) initialize(client string) string {
	s.Helper()
	_, header := s.mcp(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
		"capabilities":{},"clientInfo":{"name":%q,"version":"1.0"}}}`, client))
	id := header.Get("Mcp-Session-Id")
	if id == "" {
		s.Fatal("initialize: there is no session")
	}
	return id
}

// task makes a task of an MCP client that runs a shell command, which has to take more than two seconds. It returns the
// id of the task.
func (s *server) task(command string) string {
	s.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code",
		"arguments":{"command":%q,"wait_seconds":50},"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28",
		"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},
		"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, command)
	text, _ := s.mcp(body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "execute_code")
	_, rest, _ := strings.Cut(text, `"taskId":"`)
	id, _, ok := strings.Cut(rest, `"`)
	if !ok {
		s.Fatalf("the call has become no task: %s", text)
	}
	return id
}

// mcp sends a message of an MCP client, with headers as names and values in turns.
func (s *server) mcp(body string, headers ...string) (string, http.Header) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), "POST", s.url+"/mcp", strings.NewReader(body))
	check(s, err)
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	check(s, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check(s, err)
	if answer.StatusCode >= 300 {
		s.Fatalf("%s: %s %s", body, answer.Status, text)
	}
	return string(text), answer.Header
}

// run starts a shell command under an id.
func (s *server) run(id, command string, members map[string]any) {
	s.Helper()
	body := map[string]any{"id": id, "command": command}
	maps.Copy(body, members)
	s.call("POST", "/v1/executions", body)
}

// ended waits for the end of an execution.
func (s *server) ended(id string) map[string]any {
	s.Helper()
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline); {
		page := s.call("GET", "/v1/executions/"+id+"/events?types=end&wait=5s", nil)
		if page["ended"] == true && page["has_more"] == false {
			return s.call("GET", "/v1/executions/"+id, nil)
		}
	}
	s.Fatal(errors.New("the execution " + id + " does not end"))
	return nil
}

// login opens the page and logs in by the fragment, as the page asks.
func (s *server) login(b *browser, width, height int, hash string) *page {
	s.Helper()
	p := b.open(s, width, height)
	p.visit(s.url + "/#token=" + url.QueryEscape(s.token))
	p.click("button", "Log in as")
	p.until(`document.querySelector("nav")`)
	p.eval(fmt.Sprintf("location.hash = %q", hash))
	return p
}
