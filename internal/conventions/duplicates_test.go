package conventions_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"hash/maphash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxTwice bounds the lines of code of a block that stands in two places. Blank lines and comments are not counted.
const maxTwice = 14

// TestNoBlockStandsTwice: a fault that is mended in one of two copies lives on in the other. Tests and examples are
// left out: each is read by itself, and an example is copied by itself. Lines are compared without their indentation;
// blank lines, comments and imports do not count.
func TestNoBlockStandsTwice(t *testing.T) {
	top(t)
	var files [][]codeLine
	paths := goFiles(t)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(filepath.ToSlash(path), "examples/") {
			files = append(files, codeLines(t, path, paths[path]))
		}
	}
	for _, found := range standTwice(files, maxTwice+1) {
		t.Error(found)
	}
}

// codeLine is a line of code and where it stands.
type codeLine struct {
	text, path string
	number     int
}

// codeLines are the lines of a file that say what is done.
func codeLines(t *testing.T, path string, f goFile) (lines []codeLine) {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	silent := map[int]bool{}
	for _, decl := range f.file.Decls {
		if imports, ok := decl.(*ast.GenDecl); ok && imports.Tok == token.IMPORT {
			for n := f.line(imports.Pos()); n <= f.line(imports.End()); n++ {
				silent[n] = true
			}
		}
	}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "//") && !silent[i+1] {
			lines = append(lines, codeLine{line, path, i + 1})
		}
	}
	return lines
}

// standTwice describes the longest runs of at least that many lines that stand in two places.
func standTwice(files [][]codeLine, least int) (found []string) {
	type place struct{ file, line int }
	seed := maphash.MakeSeed()
	places := map[uint64][]place{}
	for i, lines := range files {
		for j := range max(0, len(lines)-least+1) {
			key := hashOf(seed, lines[j:j+least])
			places[key] = append(places[key], place{i, j})
		}
	}
	for i, lines := range files {
		for j := 0; j+least <= len(lines); j++ {
			longest, with := 0, place{}
			for _, p := range places[hashOf(seed, lines[j:j+least])] {
				if p.file < i || p.file == i && p.line <= j {
					continue
				}
				n := 0
				for j+n < len(lines) && p.line+n < len(files[p.file]) &&
					lines[j+n].text == files[p.file][p.line+n].text && (p.file != i || j+n < p.line) {
					n++
				}
				if n > longest {
					longest, with = n, p
				}
			}
			if longest >= least {
				other := files[with.file][with.line]
				found = append(found, fmt.Sprintf("%d lines stand twice: %s:%d and %s:%d",
					longest, lines[j].path, lines[j].number, other.path, other.number))
				j += longest
			}
		}
	}
	return found
}

func hashOf(seed maphash.Seed, lines []codeLine) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, line := range lines {
		h.WriteString(line.text)
		h.WriteByte('\n')
	}
	return h.Sum64()
}

func TestRepeatedLinesAreFound(t *testing.T) {
	top(t)
	file := func(path, text string) (lines []codeLine) {
		for i, line := range strings.Fields(text) {
			lines = append(lines, codeLine{line, path, i + 1})
		}
		return lines
	}
	files := [][]codeLine{file("x", "1 a b c d 2 a b c 3"), file("y", "a b c d 4 5 6 7"), file("z", "5 6 a b 7")}
	want := []string{
		"4 lines stand twice: x:2 and y:1",
		"3 lines stand twice: x:7 and y:1",
	}
	if got := standTwice(files, 3); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := standTwice([][]codeLine{file("x", "a a a a a a")}, 3); len(got) != 1 { // a run does not overlap itself
		t.Errorf("got %q", got)
	}
}
