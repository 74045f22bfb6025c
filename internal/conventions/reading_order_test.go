package conventions_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRootIsReadInOrder: docs/internals/design.md names every file of the root package in an order in which a file
// refers mostly to those before it. References ahead are at most one in six: a Log and what it is made of must name
// each other.
func TestRootIsReadInOrder(t *testing.T) {
	top(t)
	text, err := os.ReadFile("docs/internals/design.md")
	check(t, err)
	_, section, _ := strings.Cut(string(text), "## Where things live, in reading order\n")
	section, _, _ = strings.Cut(section, "\n2. ")
	place, owner := map[string]int{}, map[string]string{}
	for i, m := range regexp.MustCompile("`([a-z]+\\.go)`").FindAllStringSubmatch(section, -1) {
		if place[m[1]] != 0 {
			t.Errorf("docs/internals/design.md names %s twice", m[1])
		}
		place[m[1]] = i + 1
	}
	root := map[string]*ast.File{}
	for path, f := range goFiles(t) {
		if filepath.Dir(path) != "." || strings.HasSuffix(path, "_test.go") {
			continue
		}
		if place[path] == 0 {
			t.Errorf("docs/internals/design.md's reading order lacks %s", path)
		}
		root[path] = f.file
		for name := range declarations(t, path) {
			owner[name] = path // methods have a dot in their name and are referred to through their type
		}
	}
	back, ahead := 0, []string(nil)
	for path, file := range root {
		for _, name := range file.Unresolved { // in this file, so they are of another one, of Go, or packages
			switch to := owner[name.Name]; {
			case to == "":
			case place[to] > place[path]:
				ahead = append(ahead, path+": "+name.Name+" of "+to)
			default:
				back++
			}
		}
	}
	if len(place) != len(root) || back < 100 {
		t.Errorf("%d files in the reading order, %d in the root; %d references back", len(place), len(root), back)
	}
	if 6*len(ahead) > back+len(ahead) {
		slices.Sort(ahead)
		t.Errorf("%d of %d references are to files that come later:\n%s",
			len(ahead), back+len(ahead), strings.Join(ahead, "\n"))
	}
}
