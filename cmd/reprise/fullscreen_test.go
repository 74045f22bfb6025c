//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"reprise/internal/cutproxy"
)

// program returns the first of these programs that is installed. Without one the test is skipped, and fails in CI.
func program(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("none of %q is installed", names)
	}
	t.Skipf("none of %q is installed", names)
	return ""
}

// TestEditorOutlivesConnections: vim is typed into while its connections are cut, while there is no network and after
// the server was killed. A second terminal shows the same screen, and the file has what was typed.
func TestEditorOutlivesConnections(t *testing.T) {
	t.Parallel()
	vim := program(t, "vim.tiny", "vim")
	o := startOutliving(t)
	proxy, err := cutproxy.Listen(o.daemon.addr, nil)
	check(t, err)
	defer proxy.Close()
	file := filepath.Join(o.dir, "text")
	check(t, os.WriteFile(file, []byte("first\nsecond\nthird\n"), 0o600))

	p := sit(t, o, "http://"+proxy.Addr(), 80, 24,
		"run", "-t", "--id", "vim", "--", vim, "-u", "NONE", "-i", "NONE", "-n", file)
	p.shows("third")
	p.types("Gotyped with a connection\x1b")
	p.shows("typed with a connection")
	proxy.Cut()
	p.types("otyped after a cut\x1b")
	p.shows("typed after a cut")
	proxy.SetPlan(cutproxy.Every(cutproxy.Fault{Kind: cutproxy.Refuse}))
	proxy.Cut()
	p.types("otyped without a network\x1b")
	p.shows("reprise: no connection since")
	proxy.SetPlan(nil)
	p.shows("typed without a network")
	check(t, o.daemon.kill())
	p.types("ggddP")
	o.start()
	p.waits("screen without the notice", func() bool { return !strings.Contains(p.screen.Text(), "no connection") })

	other := sit(t, o, "http://"+proxy.Addr(), 80, 24, "attach", "vim")
	other.shows("typed without a network")
	sameScreen(p, other)
	p.types(":wq\r")
	p.leaves(0)
	other.leaves(0)
	text, err := os.ReadFile(file)
	check(t, err)
	const want = "first\nsecond\nthird\ntyped with a connection\ntyped after a cut\ntyped without a network\n"
	if string(text) != want {
		t.Errorf("vim wrote\n%s\nwant\n%s", text, want)
	}
}

// sameScreen waits until two people see the same text.
func sameScreen(a, b *person) {
	a.t.Helper()
	a.waits("screen that both have", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return a.screen.Text() == b.screen.Text()
	})
}

// TestTopIsShownAgain: top draws in place, on the main screen. It is there again after a lost connection, when it has
// drawn again, and takes keys from two terminals.
func TestTopIsShownAgain(t *testing.T) {
	t.Parallel()
	top := program(t, "top")
	o := startOutliving(t)
	proxy, err := cutproxy.Listen(o.daemon.addr, nil)
	check(t, err)
	defer proxy.Close()
	p := sit(t, o, "http://"+proxy.Addr(), 100, 30, "run", "-t", "--id", "top", "--", top, "-d", "1")
	p.shows("load average")
	proxy.SetPlan(cutproxy.Every(cutproxy.Fault{Kind: cutproxy.Refuse}))
	proxy.Cut()
	p.shows("reprise: no connection since")
	proxy.SetPlan(nil)
	p.sees("connected again", 1)
	p.shows("load average") // the notices have moved it
	other := sit(t, o, "http://"+proxy.Addr(), 100, 30, "attach", "top")
	other.shows("load average")
	other.types("h")
	p.shows("Help for Interactive Commands")
	other.shows("Help for Interactive Commands")
	p.types("q")
	p.shows("load average")
	other.shows("load average")
	p.types("q") // top drops keys that come while it changes its screen
	p.leaves(0)
	other.leaves(0)
}
