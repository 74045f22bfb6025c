package console_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// board is the text on the terminal of the page.
const board = `[...document.querySelectorAll(".xterm-rows > div")]
	.map(row => row.textContent.replaceAll("\u00a0", " ").trimEnd()).join("\n").trimEnd()`

// onBoard waits until the terminal shows a text.
func (p *page) onBoard(want string) {
	p.Helper()
	p.until(fmt.Sprintf("(%s).includes(%q)", board, want))
}

// ctrl presses a letter together with Ctrl.
func (p *page) ctrl(letter string) {
	p.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		p.call("Input.dispatchKeyEvent", map[string]any{
			"type": kind, "key": strings.ToLower(letter), "code": "Key" + letter, "modifiers": 2,
			"windowsVirtualKeyCode": int(letter[0]),
		})
	}
}

// resized waits until the terminal of an execution no longer has so many columns, and returns its size.
func (s *server) resized(id string, cols int) map[string]any {
	s.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		size := s.call("GET", "/v1/executions/"+id, nil)["tty"].(map[string]any)
		if size["cols"] != float64(cols) {
			return size
		}
	}
	s.Fatalf("the terminal of %s still has %d columns after %v", id, cols, patience)
	return nil
}

// TestTerminalIsTypedInto: a person types into a shell, interrupts what runs, and the window says how large it is.
func TestTerminalIsTypedInto(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	s.run("shell", "exec sh", map[string]any{
		"stdin_open": true, "tty": map[string]int{"cols": 70, "rows": 20}, "env": map[string]string{"PS1": "$ "},
	})
	p.eval(`location.hash = "#/executions/shell"`)
	p.onBoard("$")
	p.text("70×20")
	p.text("Click to type into it.")
	p.until(`(document.querySelector(".xterm-helper-textarea").focus(), true)`)
	p.text("All keys go to the program")
	p.call("Input.insertText", map[string]any{"text": "stty size; echo 日本 $((40+2)); sleep 1000"})
	p.press("Enter")
	p.onBoard("日本 42")
	p.ctrl("C")
	p.call("Input.insertText", map[string]any{"text": "echo back $((1+1))"})
	p.press("Enter")
	p.onBoard("back 2")
	size := s.resized("shell", 70)
	p.text(fmt.Sprintf("%v×%v", size["cols"], size["rows"]))

	// Cuts lose no key and show nothing twice.
	p.click("button", "Cut")
	p.until(`(document.querySelector(".xterm-helper-textarea").focus(), true)`)
	p.call("Input.insertText", map[string]any{"text": "echo while $((3*3)) away"})
	p.press("Enter")
	p.click("button", "Resume")
	p.onBoard("while 9 away")
	p.until(`(document.querySelector(".xterm-helper-textarea").focus(), true)`)
	p.call("Input.insertText", map[string]any{"text": "exit 7"})
	p.press("Enter")
	p.text("What was on the screen at the end.")
	if x := s.ended("shell"); x["exit_code"] != 7.0 {
		t.Errorf("it ended with %v", x["exit_code"])
	}
	shown := s.call("GET", fmt.Sprintf("/v1/executions/shell/screen?cols=%v&rows=%v", size["cols"], size["rows"]), nil)
	p.until(fmt.Sprintf("(%s) === %q", board, shown["text"]))
	p.clean(s.url)
}

// TestTerminalDrawsAsTheServer: the page, and so xterm.js, draws what the server draws of the same output.
func TestTerminalDrawsAsTheServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	path := filepath.Join(t.TempDir(), "drawn")
	const cols, rows = 40, 12
	for seed := range uint64(12) {
		check(t, os.WriteFile(path, drawing(rand.New(rand.NewPCG(seed, 1)), cols, rows), 0o600))
		id := fmt.Sprintf("drawing%d", seed)
		s.run(id, "stty raw -echo; cat "+path, map[string]any{"tty": map[string]int{"cols": cols, "rows": rows}})
		s.ended(id)
		want := s.call("GET",
			fmt.Sprintf("/v1/executions/%s/screen?cols=%d&rows=%d", id, cols, rows), nil)["text"].(string)
		p.eval(fmt.Sprintf(`location.hash = "#/executions/%s"`, id))
		p.until(fmt.Sprintf("document.querySelector('.facts')?.innerText.includes(%q)", id))
		lines := strings.Split(want, "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " ")
		}
		want = strings.TrimRight(strings.Join(lines, "\n"), "\n ")
		p.until(fmt.Sprintf("(%s) === %q", board, want)) // once a frame was drawn
	}
	p.clean(s.url)
}

// drawing is output that uses what terminals can do, at random. What terminals differ in is left out: edits while the
// next character would wrap, wide characters at the right margin, origin mode, and regions of the other screen.
func drawing(r *rand.Rand, cols, rows int) []byte {
	var b strings.Builder
	n := func(most int) int { return r.IntN(most) }
	column := func() { fmt.Fprintf(&b, "\x1b[%dG", 1+n(cols)) }
	pieces := []func(){
		func() { fmt.Fprintf(&b, "text%d ", n(1000)) },
		func() { b.WriteString("\r日本語 wörld é́ ✓") },
		func() { b.WriteString(strings.Repeat("=", n(2*cols))) },
		func() { fmt.Fprintf(&b, "\x1b[%d;%dH", n(rows+2), n(cols+2)) },
		func() { fmt.Fprintf(&b, "\x1b[%d%c", n(6), "ABCDEFGdIZ"[n(10)]) },
		func() { fmt.Fprintf(&b, "\x1b[%d%c", n(3), "@PXLMST"[n(7)]) },
		func() { fmt.Fprintf(&b, "\x1b[%d%c", n(3), "KKKKKJ"[n(6)]) },
		func() { fmt.Fprintf(&b, "\x1b[%d;%dr", 1+n(rows), 1+n(rows)) },
		func() { fmt.Fprintf(&b, "\x1b[%d;38;5;%d;48;2;1;2;3;4:3m", n(8), n(256)) },
		func() { fmt.Fprintf(&b, "\x1b[?%d%c\x1b[r", []int{25, 47, 1047, 1048, 1049}[n(5)], "hl"[n(2)]) },
		func() { fmt.Fprintf(&b, "\x1b[%d%c", []int{4, 20}[n(2)], "hl"[n(2)]) },
		func() { b.WriteString([]string{"\x1b7", "\x1b8", "\x1bD", "\x1bE", "\x1bM", "\x1bH", "\x1b[g"}[n(7)]) },
		func() {
			b.WriteString([]string{"\r", "\n", "\b", "\t", "\v", "\r\n", "\x1b[s", "\x1b[u", "e\x1b[2b"}[n(9)])
		},
		func() {
			b.WriteString([]string{"\x1b(0lqqk\x1b(B", "\x1b)0\x0eabc\x0f", "\x1b]0;title\a", "\x1bP1q\x1b\\"}[n(4)])
		},
	}
	for range 40 {
		piece := n(len(pieces))
		if piece > 3 {
			column()
		}
		pieces[piece]()
	}
	b.WriteString("\x1b[?25h")
	return []byte(b.String())
}
