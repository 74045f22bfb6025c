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
	p.until(`(() => { // two marks beside the scroll bar, of lines that are near the start
		const { width, height, hidden } = document.querySelector(".term-marks canvas")
		const pixels = document.querySelector(".term-marks canvas").getContext("2d").getImageData(0, 0, width, height).data
		const rows = [...Array(height).keys()].filter((y) => pixels[y * width * 4 + 3] > 0)
		const marks = rows.filter((y) => !rows.includes(y - 1))
		return !hidden && marks.length === 2 && marks[1] < height / 10
	})()`)
	p.press("Enter")
	p.until(`[...document.querySelectorAll(".term mark")].some((mark) => mark.textContent === "line 10")`)
	p.fill("[aria-label='Search output']", "(")
	p.until(`document.querySelector(".search [role=status]").textContent === "not an expression"`)
	p.fill("[aria-label='Search output']", "")
	p.until(`document.querySelector(".term-marks canvas").hidden`)
	p.eval(`URL.createObjectURL = (blob) => (void blob.text().then((text) => (window.text = text)), "#")
		HTMLAnchorElement.prototype.click = function () { window.named = this.download }`)
	p.click("button", "both")
	p.until(`(() => {
		const [stdout, found] = [window.text?.replace("problem\n", ""), window.text?.includes("problem\n")]
		return window.named === "long.log" && found && stdout.startsWith("line 1\nline 2\n") && stdout.endsWith("\nlast\n")
	})()`)
	p.reload() // the browser remembers how
	p.output("last")
	p.until(`document.querySelector("[aria-label=Times]").value === "absolute"`)
	p.clean(s.url)
}

// TestGroupsAreFolded: a click on the line of a group folds what is in it, and a match in it unfolds it again.
func TestGroupsAreFolded(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.run("grouped", `echo before; for g in build test; do echo "::group::$g"; seq -f "$g line %g" 50; echo ::endgroup::; done
		echo after`, nil)
	s.ended("grouped")
	p := s.login(startBrowser(t), 1280, 800, "#/executions/grouped")
	p.output("after")
	p.click("button", "Fold groups")
	shown := func(want string) {
		p.until(`[...document.querySelectorAll(".term-row:not([hidden]) .term-text")].map((e) => e.textContent).join() === "` +
			want + `"`)
	}
	shown("before,::group::build,::group::test,after,")
	p.eval(`[...document.querySelectorAll(".term-text")].find((e) => e.textContent === "::group::build").click()`)
	p.output("build line 20")
	p.eval(`[...document.querySelectorAll(".term-text")].find((e) => e.textContent === "::group::build").click()`)
	shown("before,::group::build,::group::test,after,")
	if dir := *screenshots; dir != "" {
		check(t, os.WriteFile(dir+"/run-folded.png", p.screenshot(), 0o600))
	}
	p.fill("[aria-label='Search output']", "test line 33")
	p.text("1 line")
	p.press("Enter")
	p.until(`[...document.querySelectorAll(".term mark")].some((mark) => mark.textContent === "test line 33")`)
	p.clean(s.url)
}
