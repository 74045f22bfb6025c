package console_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// TestOutputHasMostOfThePage: three fifths of the height at least are output, also where stdin can be typed into, on a
// phone, and at twice the size of everything.
func TestOutputHasMostOfThePage(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.run("talks", "for i in $(seq 1 100); do echo line $i; done; echo problem >&2; read -r answer; echo got $answer",
		map[string]any{"stdin_open": true, "session": "build-7", "labels": map[string]string{"branch": "main"}})
	p := s.login(startBrowser(t), 1280, 800, "#/executions/talks")
	for _, size := range []struct {
		name          string
		width, height int
		mobile        bool
	}{{"desk", 1280, 800, false}, {"phone", 390, 844, true}, {"zoom", 640, 400, false}} {
		p.size(size.width, size.height, size.mobile)
		p.reload()
		p.output("problem")
		p.until(`document.querySelector("[aria-label='A line for stdin']") !== null`)
		p.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
		if dir := *screenshots; dir != "" {
			check(t, os.WriteFile(dir+"/run-"+size.name+".png", p.screenshot(), 0o600))
		}
		shown := p.eval(`(() => {
			const { top, bottom } = document.querySelector(".term").getBoundingClientRect()
			return (Math.min(bottom, innerHeight) - Math.max(top, 0)) / innerHeight
		})()`).(float64)
		if shown < 0.6 {
			t.Errorf("%s: %.0f%% of the height are output", size.name, 100*shown)
		}
		p.until(fmt.Sprintf(`document.documentElement.scrollWidth <= %d`, size.width))
		for _, button := range []string{"Cut the connection", "Resume"} { // one click each
			p.click(".cut", button)
		}
	}
	p.fill("[aria-label='A line for stdin']", "yes")
	p.press("Enter")
	p.output("got yes")
	p.clean(s.url)
}

// TestRunThatWroteNothing: the place of the output says why there is none, and nothing looks as if it had gone well.
func TestRunThatWroteNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.call("POST", "/v1/executions", map[string]any{"id": "missing", "argv": []string{"/no/such/program"}})
	s.ended("missing")
	s.run("silent", "true", nil)
	p := s.login(startBrowser(t), 1280, 800, "#/executions/missing")
	p.until(`document.querySelector(".blank.tone-bad")?.innerText.startsWith("It failed to start: ")`)
	p.until(`!document.querySelector(".strip").innerText.includes("Complete")`)
	p.eval(`location.hash = "#/executions/silent"`)
	p.until(`document.querySelector(".blank.tone-good")?.innerText === "It exited 0 and wrote nothing."`)
	p.clean(s.url)
}

// TestRunAgain: the form has what the run had; unchanged it starts the same, and changed another.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	dir := t.TempDir()
	s.call("POST", "/v1/executions", map[string]any{
		"id": "first", "argv": []string{"printf", "%s|", "a b", "it's", "$HOME"}, "cwd": dir, "timeout": "90s",
		"env": map[string]string{"SECRET": "x"}, "labels": map[string]string{"branch": "main"}, "session": "s1",
		"limits": map[string]any{"output_bytes": 1_000_000}, "grace": "3s",
	})
	s.ended("first")
	p := s.login(startBrowser(t), 1280, 800, "#/executions/first")
	p.click("a", "Run again")
	p.until(`document.querySelector("[name=cwd]")?.value === ` + strconv.Quote(dir))
	p.text("The earlier run had SECRET, whose values are not shown.")
	p.click("button", "Run")
	p.output("a b|it's|$HOME|")
	id := p.eval(`location.hash.split("/").pop()`).(string)
	again, first := s.ended(id), s.ended("first")
	for _, member := range []string{"argv", "cwd", "timeout", "labels", "session"} {
		if fmt.Sprint(again[member]) != fmt.Sprint(first[member]) || again["id"] == "first" {
			t.Errorf("%s: %v, and again %v", member, first[member], again[member])
		}
	}
	asked := func(id string) string {
		return fmt.Sprint(s.call("GET", "/v1/executions/"+id+"/request", nil)["request"])
	}
	if got, want := asked(id), asked("first"); got != want {
		t.Errorf("asked for again: %s, first %s", got, want)
	}
	p.click("a", "Run again")
	p.until(`document.querySelector("[name=command]")?.value.includes("printf")`)
	p.fill("[name=command]", "echo changed")
	p.eval(`document.querySelector("[name=session]").focus()`)
	p.call("Input.dispatchKeyEvent", map[string]any{ // in whichever field
		"type": "rawKeyDown", "key": "Enter", "code": "Enter", "modifiers": 2, "windowsVirtualKeyCode": 13,
	})
	p.output("changed")
	p.clean(s.url)
}
