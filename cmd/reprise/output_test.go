package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/creack/pty"

	"reprise/client"
	"reprise/cmd/reprise/internal/printable"
)

// TestPublishedTextDoesNotControlTerminal: text of publishers is printable on a terminal, and unchanged in a file. The
// output of a command is unchanged in both.
func TestPublishedTextDoesNotControlTerminal(t *testing.T) {
	hostile := "a\x1b]52;c;ZXZpbA==\a\u202eb\u009b31m\x9b31m\x7f\r\nfine\tüß"
	quoted, err := json.Marshal(hostile + "\u0085\u2028")
	check(t, err)
	events := []client.Event{
		{Type: "text", Data: []byte(hostile)},
		{Type: "text", Data: quoted, IsJSON: true},
		{Type: "data", Data: []byte("{\"x\u200f\":\"\u202e\u009b\x7f\"}"), IsJSON: true},
	}
	printed := func(out *os.File, make func(io.Writer) printer) {
		t.Helper()
		p := make(out)
		for _, e := range events {
			check(t, p.print(e))
		}
	}
	for name, make := range map[string]func(io.Writer) printer{
		"lines":   func(out io.Writer) printer { return newLines(out, io.Discard) },
		"objects": func(out io.Writer) printer { return newObjects(out) },
	} {
		shown := shownByTerminal(t, func(out *os.File) { printed(out, make) })
		for _, r := range strings.ReplaceAll(shown, "\r\n", "\n") { // the terminal itself adds the \r
			if r != '\n' && r != '\t' && printable.Rune(r) != r {
				t.Errorf("%s: a terminal gets %q", name, shown)
				break
			}
		}
		if !strings.Contains(shown, "fine") || !strings.Contains(shown, "üß") {
			t.Errorf("%s: a terminal gets %q", name, shown)
		}
		if kept := inFile(t, func(out *os.File) { printed(out, make) }); !strings.Contains(kept, "\u202e") {
			t.Errorf("%s: a file gets %q", name, kept)
		} else if name == "objects" {
			compareJSON(t, shown, kept)
		}
	}
	command := client.Event{Type: "stdout", Data: []byte("\x1b[31m\u202e")}
	shown := shownByTerminal(t, func(out *os.File) {
		check(t, (&channels{stdout: out, stderr: out}).print(command))
	})
	if shown != string(command.Data) {
		t.Errorf("a command writes %q to a terminal", shown)
	}
}

// compareJSON compares lines of JSON by their values.
func compareJSON(t *testing.T, got, want string) {
	t.Helper()
	gots, wants := strings.Split(strings.ReplaceAll(got, "\r\n", "\n"), "\n"), strings.Split(want, "\n")
	for i, line := range wants[:len(wants)-1] {
		var a, b any
		check(t, json.Unmarshal([]byte(gots[i]), &a))
		check(t, json.Unmarshal([]byte(line), &b))
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%q and %q are different values", gots[i], line)
		}
	}
}

// shownByTerminal returns what print writes to a terminal.
func shownByTerminal(t *testing.T, print func(out *os.File)) string {
	t.Helper()
	master, slave, err := pty.Open()
	check(t, err)
	defer master.Close()
	shown := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(master) // to the error that says that nobody has the terminal any more
		shown <- string(all)
	}()
	print(slave)
	check(t, slave.Close())
	return <-shown
}

// inFile returns what print writes to a file.
func inFile(t *testing.T, print func(out *os.File)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(path)
	check(t, err)
	print(file)
	check(t, file.Close())
	all, err := os.ReadFile(path)
	check(t, err)
	return string(all)
}
