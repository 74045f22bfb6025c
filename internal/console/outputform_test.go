package console_test

import (
	"os"
	"testing"
)

// TestOutputIsShownAsAsked: lines with their times, wrapped, from the start or the end, searched by an expression, and
// saved with both channels in their order.
func TestOutputIsShownAsAsked(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.run("long", `for i in $(seq 1 300); do echo "line $i"; done
		echo problem >&2; printf 'wide %.0s' $(seq 1 200); echo; echo last`, nil)
	s.ended("long")
	p := s.login(startBrowser(t), 1280, 800, "#/executions/long")
	p.output("last")
	choose := func(value string) {
		p.eval(`(() => {
			const times = document.querySelector("[aria-label=Times]")
			times.value = "` + value + `"
			times.dispatchEvent(new Event("change", { bubbles: true }))
		})()`)
	}
	choose("relative")
	p.until(`/^\+\d+\.\d{3}$/.test(document.querySelector(".term-row:not([hidden]) .term-stamp").textContent)`)
	choose("absolute")
	p.until(`/^\d\d:\d\d:\d\d\.\d{3}$/.test(document.querySelector(".term-row:not([hidden]) .term-stamp").textContent)`)
	p.click("label", "Wrap")
	p.until(`(() => {
		const term = document.querySelector(".term")
		const rows = [...term.querySelectorAll(".term-row:not([hidden])")]
		const wide = rows.find((row) => row.innerText.includes("wide"))
		const last = rows.find((row) => row.querySelector(".term-text").textContent === "last").getBoundingClientRect()
		return wide.offsetHeight > 38 && term.scrollWidth <= term.clientWidth && last.bottom <= term.getBoundingClientRect().bottom
	})()`)
	if dir := *screenshots; dir != "" {
		check(t, os.WriteFile(dir+"/run-wrapped.png", p.screenshot(), 0o600))
	}
	p.click("[aria-label='To the start']", "⤒")
	p.output("line 1")
	p.click("[aria-label='To the end']", "⤓")
	p.output("last")
	p.click("[aria-label='Regular expression']", ".*")
	p.fill("[aria-label='Search output']", "^line [12]0$")
	p.until(`document.querySelector(".search [role=status]").textContent === "2 lines"`)
	p.press("Enter")
	p.until(`[...document.querySelectorAll(".term mark")].some((mark) => mark.textContent === "line 10")`)
	p.fill("[aria-label='Search output']", "(")
	p.until(`document.querySelector(".search [role=status]").textContent === "not an expression"`)
	p.fill("[aria-label='Search output']", "")
	p.eval(`URL.createObjectURL = (blob) => (void blob.text().then((text) => (window.text = text)), "#")
		HTMLAnchorElement.prototype.click = function () { window.named = this.download }`)
	p.click("button", "both")
	p.until(`window.named === "long.log" && text.startsWith("line 1\nline 2\n") &&
		text.includes("problem\n") && text.endsWith("\nlast\n")`)
	p.reload() // the browser remembers how
	p.output("last")
	p.until(`document.querySelector("[aria-label=Times]").value === "absolute"`)
	p.clean(s.url)
}
