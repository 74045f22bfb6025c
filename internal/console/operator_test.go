package console_test

import (
	"fmt"
	"testing"
)

// rowCount is a JavaScript expression for the number of rows of a list.
const rowCount = `document.querySelectorAll(".rows .row").length`

// TestTasksPage: tasks of MCP clients are listed, searched, filtered and cancelled, and lead to their executions.
func TestTasksPage(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := s.login(startBrowser(t), 1280, 800, "#/tasks")
	p.text("No tasks")
	id := s.task("echo begun; sleep 600")
	p.until(`document.querySelector(".tasks .state")?.innerText === "working"`)
	p.fill("[aria-label='Search tasks']", "no such")
	p.text("Nothing matches")
	p.fill("[aria-label='Search tasks']", "execute_code")
	p.until(rowCount + " === 1")
	p.click("button", "Completed")
	p.text("Nothing matches")
	p.click("button", "Running")
	p.until(rowCount + " === 1")
	p.click(".tasks a", "")
	p.output("begun")
	p.eval(`location.hash = "#/tasks"`)
	p.click(fmt.Sprintf("[aria-label='Cancel the task %s']", id), "Cancel")
	p.until(`document.querySelector(".tasks .state")?.innerText === "cancelled"`)
	p.click("button", "Failed")
	p.until(rowCount + " === 1")
	if status := s.call("GET", "/v1/tasks/"+id, nil)["status"]; status != "cancelled" {
		t.Errorf("the task is %v", status)
	}
	p.clean(s.url)
}

// TestReplicasPage: the server is listed with what it does, and found by its name.
func TestReplicasPage(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.run("busy", "sleep 600", nil)
	p := s.login(startBrowser(t), 1280, 800, "#/replicas")
	p.until(rowCount + " === 1")
	p.until(`document.querySelector(".replicas .rows .number").innerText === "1"`)
	p.text("this page · " + s.url)
	p.click("button", "Silent")
	p.text("Nothing matches")
	p.click("button", "Answering")
	p.until(rowCount + " === 1")
	p.fill("[aria-label='Search replicas']", "no such")
	p.text("Nothing matches")
	p.fill("[aria-label='Search replicas']", s.url)
	p.until(rowCount + " === 1")
	p.clean(s.url)
}

// TestMCPSessionPage: the page of a session has its kept calls.
func TestMCPSessionPage(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	session := s.initialize("an agent")
	p := s.login(startBrowser(t), 1280, 800, "#/mcp")
	p.click(".mcp a", "an agent")
	p.text("No calls are kept")
	s.mcp(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code",
		"arguments":{"command":"sleep 1; echo done"}}}`,
		"Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25")
	p.until(`document.querySelector(".mcp-calls .rows")?.innerText.includes("execute_code")`)
	p.until(`document.querySelector(".mcp-calls .state").innerText === "answered"`)
	p.fill("[aria-label='Search calls']", "no such")
	p.text("Nothing matches")
	p.fill("[aria-label='Search calls']", "tools/call")
	p.until(rowCount + " === 1")
	p.click("a", "All sessions")
	p.click(".mcp button", "End")
	p.text("No client has a session")
	p.eval(fmt.Sprintf(`location.hash = "#/mcp/%s"`, session))
	p.text("not_found")
}

// TestTimeline: the strip has what both channels wrote by time, a click shows the line of that time, and so do keys.
func TestTimeline(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.run("timed", `for i in 1 2 3; do
		echo "out $i"; sleep 0.2; echo "err $i" >&2; sleep 0.2; seq -f "filler %.0f of $i" 500; sleep 0.2; done`, nil)
	s.ended("timed")
	p := s.login(startBrowser(t), 1280, 800, "#/executions/timed")
	p.until(lineCount + " === 1506")
	p.until(`document.querySelectorAll(".timeline path").length === 2`)
	bars := func(channel string) string {
		return fmt.Sprintf(
			`(document.querySelector(".timeline-%s").getAttribute("d").match(/M/g) ?? []).length`, channel)
	}
	p.until(bars("stdout") + " >= 4 && " + bars("stderr") + " === 3")
	p.eval(`document.querySelector(".timeline-box").focus()`)
	p.press("Home")
	p.output("out 1")
	p.press("End")
	p.until(`document.querySelector("[data-timeline]").innerText.includes("stdout")`)
	p.until(`document.querySelector(".term-row.is-picked .term-text")?.textContent.startsWith("filler")`)
	// The last bar of stderr, in the middle of its width.
	p.eval(`(() => {
		const box = document.querySelector(".timeline-box"), area = box.getBoundingClientRect()
		const bars = document.querySelector(".timeline-stderr").getAttribute("d").split("M")
		const from = Number(bars.at(-1).split(" ")[0])
		const length = document.querySelector(".timeline svg").viewBox.baseVal.width
		const at = {clientX: area.left + (from + 0.5) / length * area.width, clientY: area.top + 4, bubbles: true}
		box.dispatchEvent(new PointerEvent("pointermove", at))
		box.dispatchEvent(new MouseEvent("click", at))
	})()`)
	p.until(`document.querySelector("[data-timeline]").innerText.includes("stderr")`)
	p.output("err 3")
	p.until(`document.querySelector("[role=slider]").ariaValueText.includes("stderr")`)
	p.clean(s.url)
}
