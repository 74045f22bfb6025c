package console_test

import (
	"testing"
)

// TestLoginThatReadsIsOfferedNothing: what a login may not do cannot be clicked.
func TestLoginThatReadsIsOfferedNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.run("runs", "echo here; read -r answer", map[string]any{"stdin_open": true})
	s.run("done", "echo done", nil)
	s.ended("done")
	made := s.call("POST", "/v1/keys", map[string]any{"name": "reader", "scopes": []string{"read"}})
	p := startBrowser(t).open(t, 1280, 800)
	p.visit(s.url + "/")
	p.fill("input[type=password]", made["key"].(string))
	p.press("Enter")
	p.until(`[...document.querySelectorAll("button")].find((b) => b.textContent === "New run")?.disabled === true`)
	p.eval(`location.hash = "#/executions/runs"`)
	p.output("here")
	p.until(`document.querySelector(".control .danger").matches(":disabled")`)
	p.until(`document.querySelector(".control select").matches(":disabled")`)
	p.until(`document.querySelector("fieldset:disabled").title === "This login does not have the scope control"`)
	p.until(`document.querySelector("[aria-label='A line for stdin']") === null`)
	p.eval(`location.hash = "#/executions/done"`)
	p.output("done")
	p.until(`["Run again", "Remove"].every((words) =>
		[...document.querySelectorAll("button")].find((b) => b.textContent === words)?.matches(":disabled"))`)
	p.eval(`location.hash = "#/start"`)
	p.until(`document.querySelector("textarea[name=command]")?.matches(":disabled")`)
	p.eval(`location.hash = "#/streams"`)
	p.until(`document.querySelector("[aria-label='Name of a new stream']")?.matches(":disabled")`)

	all := s.login(startBrowser(t), 1280, 800, "#/executions/runs")
	all.output("here")
	all.until(`document.querySelector(".control .danger").matches(":enabled")`)
	all.click("button", "Cancel run")
	all.until(`document.body.innerText.includes("Run again")`)
	p.clean(s.url)
	all.clean(s.url)
}
