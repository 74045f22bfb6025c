package conventions_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// maxProgramLines bounds the lines of the program that are neither blank nor comment.
const maxProgramLines = 9_750

// TestProgramHoldsVerbs: what a server is made of belongs to internal/node, and what it does to the packages of its
// capabilities. The program has verbs, flags and words.
func TestProgramHoldsVerbs(t *testing.T) {
	top(t)
	lines := 0
	for path := range goFiles(t) {
		if filepath.ToSlash(filepath.Dir(path)) != "cmd/reprise" || strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		check(t, err)
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
				lines++
			}
		}
	}
	if lines == 0 || lines >= maxProgramLines {
		t.Errorf("cmd/reprise has %d lines, fewer than %d are allowed", lines, maxProgramLines)
	}
	for _, path := range imports(t, "cmd/reprise") {
		switch path {
		case "reprise/internal/api", "reprise/internal/webhook", "reprise/internal/roster",
			"reprise/internal/mcpserver":
			t.Errorf("cmd/reprise imports %s", path)
		}
	}
}
