package console_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"reprise/internal/freeport"
)

// TestReadme follows the steps of docs/console.md as they stand there, from the first command to a page that was cut
// off and has resumed. The home directory and the port are others, and the program is built.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/console.md")
	check(t, err)
	readme := string(text)
	began := time.Now()
	home := t.TempDir()
	check(t, os.Mkdir(filepath.Join(home, "bin"), 0o700))
	check(t, os.Symlink(program, filepath.Join(home, "bin", "reprise")))
	addr, err := freeport.Address()
	check(t, err)
	own := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "REPRISE_") || strings.HasPrefix(variable, "XDG_STATE_HOME=")
	})
	env := append(own, "HOME="+home, "REPRISE_LISTEN="+addr, "REPRISE_URL=http://"+addr, "REPRISE_LOG_LEVEL=warn")
	typed := func(command string) string {
		t.Helper()
		if !strings.Contains(readme, command) {
			t.Fatalf("docs/console.md does not say %s", command)
		}
		shell := exec.CommandContext(t.Context(), "sh", "-c", command)
		shell.Dir, shell.Env, shell.Stderr = home, env, os.Stderr
		out, err := shell.Output()
		check(t, err)
		return strings.TrimSpace(string(out))
	}

	// go run ./cmd/reprise serve
	if !strings.Contains(readme, "./cmd/reprise serve\n") {
		t.Fatal("docs/console.md does not say how to start it")
	}
	s := &server{TB: t, addr: addr, env: env, bare: true}
	s.start()
	t.Cleanup(s.stop)

	// 1. Start something.
	id := typed(`bin/reprise run --detach -- sh -c 'for i in $(seq 1 6000); do echo line $i; sleep 0.1; done'`)
	defer func() { s.call("POST", "/v1/executions/"+id+"/cancel", nil) }()

	// 2. Open the console.
	address := regexp.MustCompile(`2\. Open the console, <http://127\.0\.0\.1:7070(/)>`).FindStringSubmatch(readme)
	if address == nil {
		t.Fatal("docs/console.md does not say where the console is")
	}
	p := startBrowser(t).open(t, 1280, 800)
	p.visit(s.url + address[1])
	p.text("Log in")
	s.token = typed("cat ~/.local/state/reprise/token")
	p.fill("input[type=password]", s.token)
	p.press("Enter")

	// 3. Click the run, and cut.
	p.click(".rows a", "line $i")
	p.until(phase + `.includes("phase-live")`)
	p.until(lineCount + " > 3")
	p.click("button", stepOf(t, readme, 3, "Cut the connection"))
	p.until(phase + `.includes("phase-cut")`)
	p.until(counted("missed while away") + " > 0") // what came before the cut is shown by then
	before := p.eval(lineCount)
	p.until(counted("missed while away") + " > 5")
	if after := p.eval(lineCount); after != before {
		t.Errorf("%v lines became %v over a connection that is cut", before, after)
	}

	// 4. Resume.
	p.click("button", stepOf(t, readme, 4, "Resume"))
	p.until(`document.querySelector('[data-count="missed while away"]').innerText.includes("all back")`)
	p.until(`document.querySelector(".verdict").innerText.includes("each event once")`)
	for _, name := range []string{"gaps", "duplicates"} {
		if n := p.eval(counted(name)); n != 0.0 {
			t.Errorf("%s: %v", name, n)
		}
	}
	p.clean(s.url)
	t.Logf("from the first command to a page that has resumed: %.1f s", time.Since(began).Seconds())
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("it takes %v", took)
	}
}

// stepOf returns the words of a button, which a step of the readme names.
func stepOf(t *testing.T, readme string, step int, words string) string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + string(rune('0'+step)) + `\. .*$`).FindString(readme)
	if !strings.Contains(line, "*"+words+"*") {
		t.Fatalf("step %d of docs/console.md does not name *%s*: %s", step, words, line)
	}
	return words
}
