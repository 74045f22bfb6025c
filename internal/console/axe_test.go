package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"testing"
)

// axe is the program that finds what makes a page hard to use for people with impairments. "make console-check"
// installs it and names it in CONSOLE_AXE.
func axe(t *testing.T) string {
	t.Helper()
	path := os.Getenv("CONSOLE_AXE")
	if path == "" {
		t.Skip("CONSOLE_AXE names no axe.min.js: make console-check")
	}
	program, err := os.ReadFile(path)
	check(t, err)
	return string(program)
}

// TestAxeFindsNothingSerious looks at every page, light and dark, on a desk and on a phone.
func TestAxeFindsNothingSerious(t *testing.T) {
	program := axe(t)
	s := startServer(t)
	fill(s)
	b := startBrowser(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{1280, 400} {
			p := b.open(t, width, 800)
			p.scheme(scheme)
			p.visit(s.url + "/")
			p.text("Log in")
			p.inspect(program, scheme, width, "login")
			p.fill("input[type=password]", s.token)
			p.press("Enter")
			p.until(`document.querySelector("nav")`)
			for _, view := range []struct{ hash, ready string }{
				{"#/executions", "running"},
				{"#/executions/build", "exited 2"},
				{"#/executions/tests", "Cut the connection"},
				{"#/executions/shell", "Click to type into it."},
				{"#/executions/none", "not_found"},
				{"#/start", "New run"},
				{"#/streams", "deploys"},
				{"#/streams/deploys", "each event once"},
				{"#/sessions", "nightly"},
				{"#/schedules", "report.sh"},
				{"#/schedules/" + s.listed("schedules"), "None has come yet."},
				{"#/webhooks", "example.org"},
				{"#/webhooks/" + s.listed("webhooks"), "Send a test"},
				{"#/mcp", "desktop"},
				{"#/mcp/" + s.listed("mcp/sessions"), "No calls are kept"},
				{"#/tasks", "execute_code"},
				{"#/replicas", "this page"},
				{"#/server", "events committed"},
			} {
				p.eval(fmt.Sprintf("location.hash = %q", view.hash))
				p.text(view.ready)
				p.inspect(program, scheme, width, view.hash)
			}
			for page, button := range map[string]string{
				"schedules": "New schedule", "webhooks": "New webhook", "mcp": "Try a tool",
			} {
				p.eval(fmt.Sprintf("location.hash = %q", "#/"+page))
				p.click("button", button)
				p.until(`document.querySelector(".card .primary:not(:disabled)")`)
				p.inspect(program, scheme, width, button)
			}
			p.click("a", "Executions")
			p.eval(`location.hash = "#/executions/build"`)
			for _, tab := range []string{"Events", "Details"} {
				p.click("[role=tab]", tab)
				p.inspect(program, scheme, width, tab)
			}
		}
	}
}

// inspect fails the test for everything serious that axe finds.
func (p *page) inspect(program, scheme string, width int, name string) {
	p.Helper()
	if wide := p.eval("document.documentElement.scrollWidth").(float64); wide > float64(width) {
		p.Errorf("%s, %s: it is %v pixels wide on a screen of %d", name, scheme, wide, width)
	}
	p.eval(program + "; 0")
	text := p.eval(`axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => JSON.stringify(violations
		.filter(v => v.impact === "serious" || v.impact === "critical")
		.map(v => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary)}))))`)
	var found []struct {
		ID, Help string
		Nodes    []string
	}
	check(p, json.Unmarshal([]byte(text.(string)), &found))
	for _, violation := range found {
		p.Errorf("%s, %s, %d wide: %s: %s\n%q", name, scheme, width, violation.ID, violation.Help, violation.Nodes)
	}
}

// listed is the id of the first of a list.
func (s *server) listed(kind string) string {
	s.Helper()
	return s.call("GET", "/v1/"+kind, nil)[path.Base(kind)].([]any)[0].(map[string]any)["id"].(string)
}

// fill gives a server something to show.
func fill(s *server) {
	s.Helper()
	s.run("hello", "echo hello", nil)
	s.run("cancelled", "sleep 60", map[string]any{"labels": map[string]string{"branch": "retry"}})
	s.call("POST", "/v1/executions/cancelled/cancel", nil)
	dir := s.TempDir()
	for name, text := range map[string]string{"build.sh": build, "tests.sh": tests} {
		check(s, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s.run("build", "sh build.sh --all",
		map[string]any{"cwd": dir, "labels": map[string]string{"branch": "main"}, "session": "nightly"})
	s.run("lint", "test -d /nowhere", map[string]any{"session": "nightly"})
	s.run("tests", "sh tests.sh -race ./...",
		map[string]any{"cwd": dir, "labels": map[string]string{"branch": "main", "team": "core"}})
	s.run("chat", `while read -r line; do echo "you said $line"; done`, map[string]any{"stdin_open": true})
	s.run("shell", "exec sh", map[string]any{
		"stdin_open": true,
		"tty":        map[string]int{"cols": 100, "rows": 24},
		"cwd":        dir,
		"env":        map[string]string{"PS1": "$ "},
		"grace":      "100ms", // a shell at a terminal ignores TERM
	})
	s.initialize("desktop")
	s.task("sleep 600")
	s.call("POST", "/v1/schedules", map[string]any{
		"cron": "30 5 * * 1", "zone": "Europe/Berlin", "execution": map[string]any{"command": "./report.sh --weekly"},
	})
	s.call("POST", "/v1/webhooks", map[string]any{
		"url": "https://hooks.example.org/reprise", "source": "streams", "prefix": "deploys/",
	})
	s.call("PUT", "/v1/streams/deploys", map[string]any{"labels": map[string]string{"env": "staging"}})
	s.call("POST", "/v1/streams/deploys/events", map[string]any{"events": []map[string]any{
		{"type": "progress", "data": map[string]any{"step": "upload", "percent": 40}},
		{"type": "progress", "data": map[string]any{"step": "upload", "percent": 100}},
		{"type": "note", "data": "waiting for approval"},
	}})
	for _, id := range []string{"hello", "cancelled", "build", "lint"} {
		s.ended(id)
	}
}

// build looks like a build that fails; tests like tests that go on.
const (
	build = `printf '\033[1m==> compile\033[0m\n'
for f in cursor reader stream commit live; do printf '  \033[2mgo build\033[0m %s.go\n' $f; done
printf '\033[1m==> vet\033[0m\n'
echo 'reader.go:41:2: result of Append is not used' >&2
printf '\033[31mFAIL\033[0m  2 of 214 packages\n'; exit 2`
	tests = `i=0; while [ $i -lt 4000 ]; do i=$((i + 1))
case $((i % 9)) in
0) printf 'TestTorture/%d is slow: took %d ms\n' $i $((i * 7 % 900 + 100)) >&2 ;;
4) printf '\033[36m=== RUN\033[0m   TestReplica/%d\n' $i ;;
*) printf '\033[32m--- PASS:\033[0m TestCut/%d \033[2m(%d ms)\033[0m\n' $i $((i * 13 % 90)) ;;
esac
sleep 0.02; done`
)
