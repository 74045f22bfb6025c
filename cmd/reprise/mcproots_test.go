package main

//lint:file-ignore SA1019 the versions before 2026-07-28 have roots

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"reprise/internal/testserver"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestRunsWorkInRoots: a host that starts each window in the same directory says by roots in which project it works.
// The process that holds the data directory learns it, that of a window, and the next one, and that they have changed.
func TestRunsWorkInRoots(t *testing.T) {
	t.Parallel()
	start, data := t.TempDir(), filepath.Join(testserver.TempDir(t), "data")
	var windows []*window
	var dirs []string
	project := func(name string) (dir string, root *mcp.Root) {
		dir = filepath.Join(start, name)
		check(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
		return dir, &mcp.Root{Name: name, URI: (&url.URL{Scheme: "file", Path: dir}).String()}
	}
	for i := range 3 {
		dir, root := project(fmt.Sprintf("the project é%d", i))
		_, second := project("unrelated") // which its client sends last
		elsewhere := &mcp.Root{Name: "elsewhere", URI: "https://example.org/project"}
		dirs = append(dirs, dir)
		windows = append(windows, openWindowIn(t, start, data, "2025-11-25", func(c *mcp.Client) {
			c.AddRoots(elsewhere, root, second)
		}))
	}
	works := func(w *window, dir string, arguments map[string]any) {
		t.Helper()
		arguments["command"] = "pwd"
		if got, _, _ := strings.Cut(w.must(t, "execute_code", arguments), "\n"); got != dir {
			t.Errorf("%v runs in %s, not in %s", arguments, got, dir)
		}
	}
	for range 2 {
		for i, w := range windows {
			works(w, dirs[i], map[string]any{})
			works(w, dirs[i]+"/sub", map[string]any{"cwd": "sub"})
			works(w, start, map[string]any{"cwd": start})
		}
		dir, root := project("another")
		last := len(windows) - 1
		windows[last].client.RemoveRoots("file://" + (&url.URL{Path: dirs[last]}).EscapedPath())
		windows[last].client.AddRoots(root)
		dirs[last] = dir
		waitUntil(t, "the change is known", func() bool {
			got := windows[last].must(t, "execute_code", map[string]any{"command": "pwd"})
			return strings.HasPrefix(got, dir+"\n")
		})
		for i, w := range windows {
			if w.command.Process.Pid == holder(t, data) {
				w.kill(t)
				windows, dirs = slices.Delete(windows, i, i+1), slices.Delete(dirs, i, i+1)
				break
			}
		}
	}
}
