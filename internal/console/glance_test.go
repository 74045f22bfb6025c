package console_test

import (
	"os"
	"testing"
)

// TestGlance: the first page says in one line what runs, what has failed today and what is kept, and leads to it.
func TestGlance(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.run("runs", "read -r answer", map[string]any{"stdin_open": true})
	for _, id := range []string{"bad-1", "bad-2"} {
		s.run(id, "exit 3", nil)
		s.ended(id)
	}
	s.run("good", "true", nil)
	s.ended("good")
	p := s.login(startBrowser(t), 1280, 800, "")
	p.until(`/^1 running\s+2 failed today\s+[\d.]+ KiB kept in \d+ streams$/.test(
		document.querySelector(".glance")?.innerText.replaceAll("\n", " "))`)
	if dir := *screenshots; dir != "" {
		check(t, os.WriteFile(dir+"/glance.png", p.screenshot(), 0o600))
	}
	p.click(".glance button", "2 failed today")
	p.until(`!document.body.innerText.includes("good") && document.querySelectorAll(".cell-command a").length === 2`)
	p.click(".glance button", "1 running")
	p.until(`[...document.querySelectorAll(".cell-command a")].map((a) => a.title).join() === "read -r answer"`)
	p.clean(s.url)
}
