package conventions_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLibraryPageWorksOutsideRepository runs the lines of docs/library.md in a module of its own.
func TestLibraryPageWorksOutsideRepository(t *testing.T) {
	top(t)
	text, err := os.ReadFile("docs/library.md")
	check(t, err)
	_, section, _ := strings.Cut(string(text), "## A first program\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 || blocks[0][1] != "sh" || blocks[1][1] != "go" {
		t.Fatalf("want a block of shell and one of Go: %q", blocks)
	}
	command := regexp.MustCompile("`(GOFLAGS=[^`]*)` prints `([^`]*)`").FindStringSubmatch(section)
	if command == nil {
		t.Fatal("the command and what it prints are missing")
	}
	checkout, err := filepath.Abs(".")
	check(t, err)
	parent := t.TempDir()
	shell := func(dir, script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(script, "../reprise", checkout))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off") // what is needed is in the module cache
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s\n%v: %s", script, err, out)
		}
		return string(out)
	}
	shell(parent, blocks[0][2])
	dir := filepath.Join(parent, "hello")
	check(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(blocks[1][2]), 0o600))
	if got := shell(dir, command[1]); got != command[2]+"\n" {
		t.Errorf("it prints %q, want %q", got, command[2])
	}
}
