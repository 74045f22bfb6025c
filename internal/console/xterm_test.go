package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// maxFirst bounds the files that the first page loads, together and compressed.
const maxFirst = 165_000

// atBoard opens the terminal of a new execution that runs script, once it shows ready.
func (p *page) atBoard(s *server, id, script string) {
	p.Helper()
	s.run(id, script, map[string]any{"stdin_open": true, "tty": map[string]int{"cols": 120, "rows": 20}})
	p.eval(fmt.Sprintf("location.hash = %q", "#/executions/"+id))
	p.onBoard("ready")
}

// focusBoard gives the keyboard to the terminal.
func (p *page) focusBoard() {
	p.Helper()
	p.until(`(document.querySelector(".xterm-helper-textarea").focus(), true)`)
	p.text("All keys go to the program")
}

// settled waits until the terminal that was focused has the size of its window.
func (p *page) settled(s *server, id string) {
	p.Helper()
	size := s.resized(id, 120)
	p.text(fmt.Sprintf("%v×%v", size["cols"], size["rows"]))
	p.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
}

// cell is the middle of a place on the terminal, in pixels of the page.
func (p *page) cell(column, row int) (x, y float64) {
	p.Helper()
	at := func(side, size string, n, of string) float64 {
		return p.eval(fmt.Sprintf(`(() => {
			const box = document.querySelector(".xterm-screen").getBoundingClientRect()
			return box.%s + box.%s / %s * (%s + 0.5) })()`, side, size, of, n)).(float64)
	}
	cols := `Number(/(\d+)×\d+/.exec(document.querySelector(".statusline").innerText)[1])`
	rows := `document.querySelectorAll(".xterm-rows > div").length`
	return at("left", "width", fmt.Sprint(column), cols), at("top", "height", fmt.Sprint(row), rows)
}

// mouse moves, presses or releases the mouse at a place of the terminal.
func (p *page) mouse(kind string, column, row int) {
	p.Helper()
	x, y := p.cell(column, row)
	event := map[string]any{"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
	p.call("Input.dispatchMouseEvent", event)
}

// TestTerminalComesWithTheFirstTerminal: the program that draws is not loaded before a page has a terminal.
func TestTerminalComesWithTheFirstTerminal(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	const loaded = `performance.getEntriesByType("resource").filter(e => e.name.includes("/console/terminal-")).length`
	s.run("plain", "echo lines", nil)
	p.eval(`location.hash = "#/executions/plain"`)
	p.output("lines")
	if n := p.eval(loaded); n != 0.0 {
		t.Errorf("the page without a terminal loaded %v files of the terminal", n)
	}
	p.atBoard(s, "tty", "echo ready; cat")
	if n := p.eval(loaded); n != 1.0 {
		t.Errorf("the page with a terminal loaded %v files of the terminal", n)
	}
	later, err := filepath.Glob("dist/terminal-*.js")
	check(t, err)
	if sum := zippedSize(t, "dist/*") - zippedSize(t, later...); len(later) != 1 || sum > maxFirst {
		t.Errorf("the first page has %d bytes compressed, at most %d are allowed", sum, maxFirst)
	}
	p.clean(s.url)
}

// TestTerminalSendsTheMouse: clicks reach a program that asks for them, in the form of today and in the older one,
// whose bytes are no text.
func TestTerminalSendsTheMouse(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	for _, test := range []struct{ id, modes, first, second string }{
		{"sgr", `\033[?1000h\033[?1006h`, "^[[<0;4;6M^[[<0;4;6m", "^[[<0;121;6M"},
		{"x10", `\033[?1000h`, "^[[M $&^[[M#$&", "^[[M M-^Y&"},
	} {
		p.atBoard(s, test.id, "stty raw -echo; printf 'ready"+test.modes+"'; exec cat -v")
		p.focusBoard()
		p.settled(s, test.id)
		p.mouse("mousePressed", 3, 5)
		p.mouse("mouseReleased", 3, 5)
		p.onBoard(test.first)
		p.mouse("mousePressed", 120, 5)
		p.mouse("mouseReleased", 120, 5)
		p.onBoard(test.second)
	}
	p.clean(s.url)
}

// TestTerminalLinksAndSelection: addresses of the web in output open in a tab that knows nothing of this one, whatever
// text stands for them, and lines are picked with the mouse and copied.
func TestTerminalLinksAndSelection(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	p.eval(`window.open = (...call) => { (window.opened ??= []).push(call.join(" ")) }
		document.addEventListener("copy", event => { window.copied = event.clipboardData.getData("text/plain") }); 0`)
	p.atBoard(s, "links", `printf 'https://example.org/plain\r\n`+
		`\033]8;;https://example.org/named\033\\a name\033]8;;\033\\\r\n`+
		`\033]8;;javascript:alert(1)\033\\a trap\033]8;;\033\\\r\nready'; exec cat`)
	p.focusBoard()
	p.settled(s, "links")
	for row := range 3 {
		p.mouse("mouseMoved", 2, row)
		switch row {
		case 0:
			p.until(`document.querySelector(".xterm-cursor-pointer")`)
		case 1:
			p.until(`document.querySelector(".terminal-host").title === "https://example.org/named"`)
		}
		p.mouse("mousePressed", 2, row)
		p.mouse("mouseReleased", 2, row)
	}
	const flags = " _blank noopener,noreferrer"
	want := "https://example.org/plain" + flags + "\nhttps://example.org/named" + flags
	p.until(fmt.Sprintf(`window.opened?.join("\n") === %q`, want))

	p.mouse("mousePressed", 0, 3)
	p.mouse("mouseMoved", 3, 3)
	p.mouse("mouseMoved", 5, 3)
	p.mouse("mouseReleased", 5, 3)
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		p.call("Input.dispatchKeyEvent", map[string]any{
			"type": kind, "key": "C", "code": "KeyC", "modifiers": 2 | 8, "windowsVirtualKeyCode": 'C',
		})
	}
	p.until(`window.copied === "ready"`)
	p.clean(s.url)
}

// TestTerminalInputMethods: what an input method composes arrives once, as a whole, and a paste cannot end itself.
func TestTerminalInputMethods(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	p.atBoard(s, "input", `printf 'ready\033[?2004h\r\n'; stty raw -echo; exec od -An -c`)
	p.focusBoard()
	for _, text := range []string{"に", "にh", "にほ", "日本"} {
		n := len([]rune(text))
		p.call("Input.imeSetComposition", map[string]any{"text": text, "selectionStart": n, "selectionEnd": n})
	}
	p.call("Input.insertText", map[string]any{"text": "日本"})
	p.until(`(() => {
		const pasted = new DataTransfer()
		pasted.setData("text/plain", "one\x1b[201~\ntwo")
		const event = new ClipboardEvent("paste", {clipboardData: pasted, bubbles: true, cancelable: true})
		document.querySelector(".xterm-helper-textarea").dispatchEvent(event)
		return true })()`)
	p.call("Input.insertText", map[string]any{"text": strings.Repeat(".", 16)}) // od writes lines of 16 bytes
	p.onBoard("346 227 245 346 234 254 033   [   2   0   0   ~   o   n   e   [")
	p.onBoard("2   0   1   ~  \\r   t   w   o 033   [   2   0   1   ~   .   .")
	p.clean(s.url)
}

// TestTerminalIsReadAloud: with the switch for screen readers, the screen is there for them, and stays so.
func TestTerminalIsReadAloud(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	p.atBoard(s, "spoken", "echo ready; cat")
	if p.eval(`document.querySelector(".xterm-accessibility")`) != nil {
		t.Error("the lines are there twice before anybody asks for it")
	}
	p.until(`(document.querySelector(".statusline input").click(), true)`)
	const lines = `document.querySelector(".xterm-accessibility-tree")?.innerText`
	p.until(lines + `.includes("ready")`)
	p.focusBoard()
	for _, key := range "spoken" { // xterm.js takes no inserted text in this mode
		p.call("Input.dispatchKeyEvent", map[string]any{
			"type": "keyDown", "key": string(key), "text": string(key), "windowsVirtualKeyCode": key - 'a' + 'A',
		})
	}
	p.press("Enter")
	p.until(lines + `.includes("spoken\nspoken")`)
	p.until(`document.querySelector(".xterm-accessibility .live-region")?.getAttribute("aria-live") === "assertive"`)
	p.reload()
	p.until(lines + `.includes("spoken\nspoken")`)
	p.clean(s.url)
}

// TestTerminalAnswersOnlyWhatIsAskedNow: a question that a program asked while the page was away is not answered late,
// where a shell would take the answer for something typed.
func TestTerminalAnswersOnlyWhatIsAskedNow(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "asks"), []byte(`echo ready
until [ -e `+dir+`/away ]; do sleep 0.02; done
printf 'asked\033[6n'; read line; echo "got[$line]" | cat -v
stty raw -echo; printf '\033[6n'; exec cat -v`), 0o600))
	p.atBoard(s, "asks", "exec sh "+filepath.Join(dir, "asks"))
	p.focusBoard()
	p.click("button", "Cut")
	check(t, os.WriteFile(filepath.Join(dir, "away"), nil, 0o600))
	p.until(counted("missed while away") + " > 0")
	p.click("button", "Resume")
	p.onBoard("asked")
	p.focusBoard()
	p.call("Input.insertText", map[string]any{"text": "typed"})
	p.press("Enter")
	p.onBoard("got[typed]")
	p.onBoard("^[[4;1R")
	p.clean(s.url)
}

// TestTerminalIsChangedWhereItIsBuilt: colours are drawn although the policy of the page forbids the styles that
// xterm.js makes, and output goes on after an erasure up to the end of the last line; build.mjs changes it for both.
func TestTerminalIsChangedWhereItIsBuilt(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	p.atBoard(s, "changed",
		`printf '\033[20;120Hx\033[1J\033[H\033[38;2;120;0;1mdark\033[0m \033[31mred\033[0m ready'; exec cat`)
	const colour = `getComputedStyle([...document.querySelectorAll(".xterm-rows span")].find(e => e.textContent === %q)).color`
	for text, want := range map[string]string{"dark": "rgb(120, 0, 1)", "red": "rgb(179, 38, 30)"} {
		p.until(fmt.Sprintf(colour+" === %q", text, want))
	}
	p.clean(s.url)
}
