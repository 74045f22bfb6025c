package mcpserver

import (
	"strings"
	"testing"
)

// A program that has a prompt is named when it is started on pipes, and no other.
func TestHintForPrompts(t *testing.T) {
	for command, want := range map[string]bool{
		"python3 -i": true, "python3": true, "/usr/bin/python3.12 -q -u": true, "node": true, "node -i": true,
		"irb": true, "bash -i": true, "bash": false, "sh": false, "cat": false, "make": false, "": false,
		"python3 serve.py": false, "python3 -c 'print(1)'": false, "python3 -m http.server": false,
		"node --eval 1": false, "pythonic": false,
	} {
		in := startInput{StdinOpen: true}
		in.Command = command
		if got := in.hint() != ""; got != want {
			t.Errorf("%q: a hint is %v", command, got)
		}
		argv := startInput{StdinOpen: true}
		argv.Argv = strings.Fields(command)
		if got := argv.hint() != ""; got != want {
			t.Errorf("the words of %q: a hint is %v", command, got)
		}
		in.TTY = true
		if in.hint() != "" {
			t.Errorf("%q has a terminal", command)
		}
		if in = (startInput{}); in.hint() != "" {
			t.Error("nothing is asked for")
		}
	}
}
