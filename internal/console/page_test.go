package console_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// counted is a JavaScript expression for a number of the strip by its name.
func counted(name string) string {
	return fmt.Sprintf(
		`Number(document.querySelector('[data-count="%s"] dd').firstChild.textContent.replaceAll(",", ""))`, name)
}

// phase is a JavaScript expression for what the page says of its connection.
const phase = `document.querySelector('.strip').className`

// lineCount is a JavaScript expression for the number of lines of output.
const lineCount = `Number(document.querySelector('[data-count="lines"]').textContent.replace(/\D/g, ""))`

// output waits until a line of output is shown.
func (p *page) output(want string) {
	p.Helper()
	p.until(fmt.Sprintf(`[...document.querySelectorAll(".term-row:not([hidden]) .term-text")].some(e => e.textContent === %q)`,
		want))
}

// whole waits for the proof that every event up to last came once.
func (p *page) whole(last int) {
	p.Helper()
	p.until(fmt.Sprintf(`%s === %d`, counted("received"), last))
	p.until(fmt.Sprintf(`document.querySelector('.verdict').innerText.includes("seq 1 to %s: each event once")`,
		grouped(last)))
	for _, name := range []string{"gaps", "duplicates"} {
		if n := p.eval(counted(name)); n != 0.0 {
			p.Errorf("%s: %v", name, n)
		}
	}
}

// grouped is n as the page writes it.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func TestLoginWithToken(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := startBrowser(t).open(t, 1280, 800)
	p.visit(s.url + "/")
	p.text("Log in")
	p.fill("input[type=password]", "not-the-token-of-this-server")
	p.press("Enter")
	p.text("That is not the token of this server")
	p.fill("input[type=password]", s.token)
	p.press("Enter")
	p.text("Nothing has run yet")
	p.visit(s.url + "/") // the tab has the secret
	p.text("Nothing has run yet")
	p.click("button", "Log out")
	p.until(`document.querySelector("input[type=password]")`)
	p.visit(s.url + "/")
	p.text("Log in")

	p.visit(s.url + "/?wrong#token=wrong-wrong-wrong-wrong")
	p.text("That is not the token of this server")
	p.clean(s.url)
}

// TestOpenServerAsksForNoToken: with --auth none the console is there at once.
func TestOpenServerAsksForNoToken(t *testing.T) {
	t.Parallel()
	s := startOpenServer(t)
	p := startBrowser(t).open(t, 1280, 800)
	p.visit(s.url + "/")
	p.text("Nothing has run yet")
}

// TestAddressChangesWhileThePageBegins: an address that changes between the first drawing and the effects that follow
// it is not missed.
func TestAddressChangesWhileThePageBegins(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	p.text("Nothing has run yet")
	p.call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `
		new MutationObserver((_, observer) => {
			if (!document.querySelector("nav")) return
			observer.disconnect()
			location.hash = "#/streams"
		}).observe(document, {childList: true, subtree: true})`})
	p.reload()
	p.text("No streams yet")
	p.clean(s.url)
}

// TestRunIsStartedAndShown goes the way of somebody who is new: the list, a form, the output as a terminal shows it.
func TestRunIsStartedAndShown(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	p.click("a", "New run")
	p.fill("textarea[name=command]",
		`printf '\033[31mred\033[0m\n1%%\r99%%\r100%%\n日本|\n'; echo "$WHO $PWD" >&2; exit 3`)
	p.fill("input[name=labels]", "branch=main team=core")
	p.fill("input[name=cwd]", "/")
	p.fill("textarea[name=env]", "WHO=me")
	p.click("button", "Run")
	p.text("exited 3")
	p.output("me /")
	rows := p.eval(`[...document.querySelectorAll(".term-row:not([hidden]) .term-text")].map(e => e.textContent).join("\n")`)
	// Two pipes have no common order.
	if out, err := "red\n100%\n日本|\n", "me /\n"; rows != out+err && rows != err+out {
		t.Errorf("the page shows %q, want %q and %q", rows, out, err)
	}
	p.until(`document.querySelector(".term-text .fg1").textContent === "red"`)
	p.until(`document.querySelector(".term-row.is-stderr .te").textContent.startsWith("me")`)
	two := p.eval(`document.querySelector(".w2").getBoundingClientRect().width`).(float64)
	ten := p.eval(`(() => { const e = document.createElement("span"); e.textContent = "0".repeat(10);
		document.querySelector(".term-text").append(e); return e.getBoundingClientRect().width })()`).(float64)
	if math.Abs(two-ten/5) > 0.1 {
		t.Errorf("a wide character takes %v pixels, and ten others %v", two, ten)
	}
	p.click("[role=tab]", "Events")
	p.text("started")
	p.click("[role=tab]", "Details")
	p.text("Exit code")
	p.eval(`location.hash = "#/executions"`)
	p.text("exited 3")
	p.fill("input[type=search]", "team=core")
	p.until(`document.querySelectorAll(".rows .row").length === 1`)
	p.fill("input[type=search]", "no such run")
	p.text("Nothing matches")
	p.clean(s.url)
}

// TestListIsLive: runs appear, go on and end without a reload, and filters hold.
func TestListIsLive(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	p.text("Nothing has run yet")
	s.run("sleeper", "read line", map[string]any{"stdin_open": true})
	p.text("running")
	p.click(".segments button", "Failed")
	p.text("Nothing matches")
	p.click(".segments button", "Running")
	p.until(`document.querySelectorAll(".rows .row").length === 1`)
	p.click(".segments button", "All")
	s.call("POST", "/v1/executions/sleeper/cancel", nil)
	p.text("cancelled")
	p.click(".segments button", "Failed")
	p.text("cancelled")
}

func TestInputSignalAndCancel(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	s.run("echo", `while read line; do echo "got $line"; done; trap 'echo usr1' USR1; echo over; while :; do sleep 0.05; done`,
		map[string]any{"stdin_open": true})
	p.eval(`location.hash = "#/executions/echo"`)
	p.fill(".input input", "one")
	p.press("Enter")
	p.output("got one")
	p.until(`document.querySelector(".input input").value === ""`)
	p.fill(".input input", "two")
	p.click(".input button", "Send")
	p.output("got two")
	p.click(".input button", "End of input")
	p.output("over")
	p.until(`document.querySelector(".input") === null`)
	p.eval(`(() => { const s = document.querySelector("[aria-label='Send a signal']"); s.value = "USR1";
		s.dispatchEvent(new Event("change", {bubbles: true})) })()`)
	p.output("usr1")
	p.click("button", "Cancel run")
	p.text("cancelled")
	p.click("button", "Remove")
	p.click("button", "Remove for good")
	p.text("Nothing has run yet")
	p.eval(`location.hash = "#/executions/echo"`)
	p.text("not_found")
	p.clean(s.url)
}

// TestCutAndResume: a connection that is cut misses nothing and brings nothing twice, and the page proves it.
// (G1, G2, G3)
func TestCutAndResume(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	gate := t.TempDir() + "/gate"
	s.run("cut", fmt.Sprintf(`for i in $(seq 1 40); do echo $i; sleep 0.01; done
		while [ ! -e %s ]; do sleep 0.01; done; for i in $(seq 41 100); do echo $i; sleep 0.01; done`, gate), nil)
	p.eval(`location.hash = "#/executions/cut"`)
	p.until(lineCount + " === 40")
	p.click("button", "Cut the connection")
	p.until(phase + `.includes("phase-cut")`)
	before := p.eval(counted("received")).(float64)
	check(t, os.WriteFile(gate, nil, 0o600))
	tail := s.ended("cut")["window"].(map[string]any)["tail"].(string)
	var last int
	_, err := fmt.Sscanf(tail, "%d.", &last)
	check(t, err)
	missed := last - int(before)
	p.until(fmt.Sprintf("%s === %d", counted("missed while away"), missed))
	if n := p.eval(lineCount); n != 40.0 {
		t.Errorf("%v lines have come over a connection that is cut", n)
	}
	p.click("button", "Resume")
	p.whole(last)
	p.until(phase + `.includes("phase-ended")`)
	p.until(lineCount + " === 100")
	p.until(fmt.Sprintf(
		`document.querySelector('[data-count="missed while away"]').innerText.includes("%d · all back")`, missed,
	))
	if n := p.eval(counted("connections")); n != 2.0 {
		t.Errorf("%v connections", n)
	}

	p.reload() // all of it is replayed
	p.whole(last)
	if n := p.eval(counted("replayed")); n != float64(last) {
		t.Errorf("%v of %d were replayed after a reload", n, last)
	}
	p.clean(s.url)
}

// TestRepeatedCutsLoseNoEvent cuts connections while events arrive: every third one after its first events, the others
// at any moment, perhaps before the response. (G1, G2, G3)
func TestRepeatedCutsLoseNoEvent(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	dir := t.TempDir()
	s.run("cuts", `i=0; while [ ! -e enough ]; do i=$((i+1)); echo $i; sleep 0.01; done; echo $i >lines`,
		map[string]any{"cwd": dir})
	p.eval(`location.hash = "#/executions/cuts"`)
	connections, received := 0.0, 0.0
	soon := func() { p.eval("new Promise(done => setTimeout(done, Math.random() * 150))") }
	for round := range 15 {
		if round%3 == 0 {
			p.until(fmt.Sprintf("%s > %v && %s > %v", counted("connections"), connections,
				counted("received"), received))
			connections, received = p.eval(counted("connections")).(float64), p.eval(counted("received")).(float64)
		}
		p.click(".cut", "Cut the connection")
		p.until(phase + `.includes("phase-cut")`)
		soon()
		p.click(".cut", "Resume")
		p.until("!" + phase + `.includes("phase-cut")`)
		soon()
	}
	check(t, os.WriteFile(filepath.Join(dir, "enough"), nil, 0o600))
	var last int
	_, err := fmt.Sscanf(s.ended("cuts")["window"].(map[string]any)["tail"].(string), "%d.", &last)
	check(t, err)
	p.whole(last)
	lines, err := os.ReadFile(filepath.Join(dir, "lines"))
	check(t, err)
	p.until(lineCount + " === " + strings.TrimSpace(string(lines)))
	p.until(phase + `.includes("phase-ended")`)
}

// TestServerIsKilled: the page says that the server is gone, and goes on by itself when it is back.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	s.call("PUT", "/v1/streams/news", map[string]any{})
	publish := func(from, to int) {
		for i := from; i <= to; i++ {
			s.call("POST", "/v1/streams/news/events",
				map[string]any{"type": "note", "data": map[string]int{"number": i}})
		}
	}
	publish(1, 5)
	p.eval(`location.hash = "#/streams/news"`)
	p.whole(5)
	s.kill()
	p.text("Connection lost")
	s.start()
	publish(6, 10)
	p.whole(10)
	p.text(`{"number":10}`)
	s.kill()
	p.eval(`location.hash = "#/executions"`)
	p.text("The server does not answer")
	s.start()
	p.text("Nothing has run yet")
	p.clean(s.url)
}

// TestConsoleReportsUnreachableStore: a server that waits for its store serves the page, which reports the state.
func TestConsoleReportsUnreachableStore(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--store", "redis://127.0.0.1:1")
	p := startBrowser(t).open(t, 1280, 800)
	p.visit(s.url + "/")
	p.text("The server cannot reach its store.")
	p.text("store_unavailable")
	p.clean(s.url)
}

func TestStreamsOfConsole(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "#/streams")
	p.text("No streams yet")
	p.fill("[aria-label='Name of a new stream']", "builds/42")
	p.press("Enter")
	p.fill("[aria-label='Data of the event']", `{"percent": 40}`)
	p.press("Enter")
	p.text(`{"percent":40}`)
	p.fill("[aria-label='Type of the event']", "end")
	p.fill("[aria-label='Data of the event']", `done`)
	p.press("Enter")
	p.until(`document.querySelector(".problem-code").textContent.includes("invalid")`)
	p.fill("[aria-label='Type of the event']", "note")
	p.click(".input button", "Publish")
	p.text(`"done"`)
	p.click("[aria-label='Event 1']", "")
	p.text(`"percent": 40`)
	p.eval(`(() => { const s = document.querySelector("[aria-label='End the stream']"); s.value = "completed";
		s.dispatchEvent(new Event("change", {bubbles: true})) })()`)
	p.until(phase + `.includes("phase-ended")`)
	p.text("completed")
	p.eval(`location.hash = "#/streams"`)
	p.text("builds/42")
	p.eval(`location.hash = "#/sessions"`)
	p.text("No sessions")
	s.run("one", "true", map[string]any{"session": "nightly"})
	p.text("nightly")
	p.click("a", "nightly")
	p.until(`document.querySelectorAll(".rows .row").length === 1`)
	p.eval(`location.hash = "#/server"`)
	p.text("ready: the store can be read and written")
	p.text("events committed")
	p.text("tenant default")
	p.clean(s.url)
}

// TestMCPSessions: sessions of MCP clients are listed, and ended.
func TestMCPSessions(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "#/mcp")
	p.text("No client has a session")
	s.initialize("an agent")
	p.text("an agent")
	p.text("2025-11-25")
	p.click(".mcp button", "End")
	p.text("No client has a session")
	if sessions := s.call("GET", "/v1/mcp/sessions", nil)["sessions"].([]any); len(sessions) > 0 {
		t.Errorf("there are still %v", sessions)
	}
	p.clean(s.url)
}

// TestMCPTool: a person calls a tool of the server as an agent would, and is told what is wrong with a call.
func TestMCPTool(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "#/mcp")
	p.click("button", "Try a tool")
	p.until(`document.querySelector(".try select").options.length > 3`)
	p.until(`document.querySelector(".try select").value === "execute_code"`)
	p.fill(".try textarea", `{"language": "sh", "code": "echo from a tool; exit 3"}`)
	p.click(".try button", "Call")
	p.until(`document.querySelector(".answer").innerText.includes("from a tool")`)
	p.text("Reprise console") // its session is among the others
	p.fill(".try textarea", `{"code":`)
	p.click(".try button", "Call")
	p.text("The arguments are no JSON")
	p.fill(".try textarea", `{"nosuch": "argument"}`)
	p.click(".try button", "Call")
	p.until(`document.querySelector(".try .problem, .answer.is-error")?.innerText.includes("nosuch")`)
	p.click("a", "Executions")
	p.text("sh code")
	p.eval(`location.hash = "#/mcp"`)
	p.text("No client has a session")
	p.clean(s.url)
}

// TestLateAnswerKeepsTypedText: a late response clears the text that was sent, not what was typed since.
func TestLateAnswerKeepsTypedText(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	s.call("PUT", "/v1/streams/typed", map[string]any{})
	s.run("typed", "cat", map[string]any{"stdin_open": true})
	for _, form := range []struct{ hash, field, button string }{
		{"#/streams/typed", "[aria-label='Data of the event']", "Publish"},
		{"#/executions/typed", "[aria-label='A line for stdin']", "Send"},
	} {
		p.eval(fmt.Sprintf("location.hash = %q", form.hash))
		p.fill(form.field, "first")
		p.eval(`(() => { const real = window.fetch; let held; answer = () => (window.fetch = real, held())
			window.sent = false
			const hold = new Promise(go => { held = go })
			window.fetch = async (...request) => {
				const response = await real(...request)
				if (request[1]?.method === "POST") { window.sent = true; await hold }
				return response
			} })()`)
		p.click(".input button", form.button)
		p.until("window.sent")
		p.fill(form.field, "second")
		if form.button == "Publish" {
			p.fill("[aria-label='Type of the event']", "note")
		}
		p.eval("answer()")
		p.text("first")
		p.until(`!document.querySelector(".input button").disabled`) // the first is answered
		if at := p.eval(`document.activeElement.ariaLabel`); form.button == "Publish" && at != "Type of the event" {
			t.Errorf("the answer has moved the caret to %v", at)
		}
		p.click(".input button", form.button)
		p.text("second")
		p.until(fmt.Sprintf(`document.querySelector(%q).value === ""`, form.field))
	}
	p.clean(s.url)
}

// TestLineLinks: the address of a line leads to that line, also when all was loaded anew.
func TestLineLinks(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	s.run("lines", "seq 1 5000", nil)
	p.eval(`location.hash = "#/executions/lines"`)
	p.until(lineCount + " === 5000")
	p.fill("[aria-label='Search output']", "2345")
	p.text("1 line")
	p.press("Enter")
	row := `[...document.querySelectorAll(".term-row:not([hidden])")].find(e => e.querySelector(".term-text").textContent === "2345")`
	p.until(row)
	p.until(`document.querySelector(".term mark").textContent === "2345"`)
	p.eval(row + `.children[0].click()`)
	p.until(`document.querySelector(".is-picked .term-text").textContent === "2345"`)
	address := p.eval("location.href").(string)
	if !strings.Contains(address, "line=") {
		t.Fatalf("the address is %s", address)
	}
	p.visit(s.url + "/?elsewhere")
	p.visit(address)
	p.until(`document.querySelector(".is-picked .term-text")?.textContent === "2345"`)
	p.until(row + `.getBoundingClientRect().top < innerHeight`)
	p.clean(s.url)
}

// TestGapIsTold: what is no longer kept is counted and shown as a gap, not passed over.
func TestGapIsTold(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "")
	s.call("PUT", "/v1/streams/short", map[string]any{"retention": map[string]int{"max_events": 10}})
	events := make([]map[string]any, 100)
	for i := range events {
		events[i] = map[string]any{"type": "tick", "data": i + 1}
	}
	for range 3 {
		s.call("POST", "/v1/streams/short/events", map[string]any{"events": events})
	}
	window := s.call("GET", "/v1/streams/short", nil)
	kept := int(window["events"].(float64))
	p.eval(`location.hash = "#/streams/short"`)
	p.until(fmt.Sprintf("%s === %d", counted("received"), kept))
	p.until(counted("gaps") + " === 1")
	p.text(fmt.Sprintf("%d earlier events are gone", 300-kept))
	p.text(fmt.Sprintf("seq 1 to 300: each event once, but for the %d that were told gone", 300-kept))

	p.click("button", "Cut the connection") // and more goes by than is kept
	p.until(phase + `.includes("phase-cut")`)
	for range 3 {
		s.call("POST", "/v1/streams/short/events", map[string]any{"events": events})
	}
	kept += int(s.call("GET", "/v1/streams/short", nil)["events"].(float64))
	p.click("button", "Resume")
	p.until(fmt.Sprintf("%s === %d", counted("received"), kept))
	p.until(counted("gaps") + " === 2")
	p.text(fmt.Sprintf("seq 1 to 600: each event once, but for the %d that were told gone", 600-kept))
	s.call("POST", "/v1/streams/short/events", map[string]any{"type": "tick", "data": "last"})
	p.text(`"last"`)
	// two gaps, and a heading
	p.until(fmt.Sprintf(`document.querySelector(".events-table").ariaRowCount === "%d"`, kept+1+2+1))
	p.until(fmt.Sprintf("%s === 600 - %d", counted("missed while away"), 300))
}
