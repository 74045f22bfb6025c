package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestColours: terminals get colours unless they are refused or dumb, and files get none unless they are forced.
func TestColours(t *testing.T) {
	const heading, failed = "\x1b[1mSETTING\x1b[0m", "\x1b[31mreprise:\x1b[0m"
	for _, c := range []struct {
		terminal bool
		env      string
		coloured bool
	}{
		{true, "A=b", true},
		{true, "NO_COLOR=1", false},
		{true, "TERM=dumb", false},
		{false, "A=b", false},
		{false, "CLICOLOR_FORCE=1", true},
		{false, "CLICOLOR_FORCE=0", false},
	} {
		for want, args := range map[string][]string{heading: {"config"}, failed: {"list", "--limit", "-1"}} {
			if want == heading && !c.terminal {
				continue // there is no heading
			}
			out := text(t, c.terminal, c.env, args...)
			if got := strings.Contains(out, want); got != c.coloured {
				t.Errorf("terminal %t, %s, %q: %q", c.terminal, c.env, args, out)
			}
			if !c.coloured && strings.Contains(out, "\x1b") {
				t.Errorf("terminal %t, %s, %q: %q", c.terminal, c.env, args, out)
			}
		}
	}
}

// text returns what reprise writes, to a terminal or not, with a variable besides ours.
func text(t *testing.T, terminal bool, env string, args ...string) string {
	t.Helper()
	if terminal {
		var out strings.Builder
		for _, frame := range onTerminal(t, 50, []string{env}, args...) {
			out.Write(frame.Data)
		}
		return out.String()
	}
	program, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Args = append([]string{"reprise"}, args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=", "CLICOLOR_FORCE=", env)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // wrong usage is one of the cases
	return out.String()
}

// TestTable: columns line up where characters are wide, and states have colours.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	rows := newTable(&out, "NAME", "STATUS")
	rows.palette.on = true
	rows.row("漢字", "exited 0")
	rows.row("a", "exited 3")
	rows.row("bc", "running")
	check(t, rows.flush())
	const want = "漢字  \x1b[32mexited 0\x1b[0m\na     \x1b[31mexited 3\x1b[0m\nbc    \x1b[36mrunning\x1b[0m\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
