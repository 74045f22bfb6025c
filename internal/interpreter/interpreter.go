// Package interpreter defines how code runs in a stateful interpreter: the driver programs, the requests that they
// receive, and the frames in their output.
//
// A driver is a small program in the language itself. It reads requests from its stdin and runs them one after the
// other in one namespace. The output of the code, and of its children, goes to stdout and stderr unchanged. Between it
// the driver writes frames:
//
//	NUL, a mark, the length in decimal digits, ":", and as many bytes
//
// A mark is random and made for one run. The request contains the mark of the frames that are sent while the code runs.
// The mark of the end follows the request and is read only after the code has ended, so that no output of the code can
// be taken for the end. Code that reads the driver's own descriptors or memory can forge frames, but only in the stream
// of its own run.
package interpreter

import (
	"crypto/rand"
	_ "embed" // the drivers
	"fmt"
	"maps"
	"slices"
	"strings"
)

var (
	//go:embed driver.py
	pythonDriver string
	//go:embed driver.js
	javascriptDriver string
	//go:embed driver.sh
	shellDriver string
)

// Language is one that there are interpreters for.
type Language struct {
	// File is the name of the driver's file, Driver its content.
	File, Driver string
	// Programs are tried in this order. Each is a command line that the path of the file is appended to.
	Programs [][]string
	// Wrap is put in front of the command line.
	Wrap []string
	// Interrupts are the signals that interrupt code; see the function.
	Interrupts []string
}

var languages = map[string]*Language{
	"bash": {File: "driver.sh", Driver: shellDriver, Programs: [][]string{{"bash"}}},
	"javascript": {
		File: "driver.js", Driver: javascriptDriver, Programs: [][]string{{"node"}},
		// Node has no dup: the shell moves the pipes away from the code's own descriptors.
		Wrap: []string{"/bin/sh", "-c", `exec "$0" "$@" 3<&0 4>&1 5>&2 </dev/null`},
		// While Node runs code that INT can break, it changes what INT does twice: there are moments at which INT is
		// lost or ends Node. WINCH is always heard by code that waits; INT is for code that does not come to that.
		Interrupts: []string{"WINCH", "INT"},
	},
	"python": {
		File: "driver.py", Driver: pythonDriver,
		Programs: [][]string{{"python3", "-X", "utf8"}, {"python", "-X", "utf8"}},
	},
}

// Languages are the names that Lookup knows, sorted.
func Languages() []string { return slices.Sorted(maps.Keys(languages)) }

// Lookup returns the language of a name, or nil if there is none.
func Lookup(name string) *Language { return languages[name] }

// Interrupts returns the names, without SIG, of the signals that interrupt code of a language, at least one. They are
// sent one after the other with a pause, until the code has ended.
func Interrupts(language string) []string {
	if l := languages[language]; l != nil && l.Interrupts != nil {
		return l.Interrupts
	}
	return []string{"INT"}
}

// Argv returns the command line of the driver in file; look finds programs. The error names the missing programs.
func (l *Language) Argv(look func(program string) (path string, err error), file string) ([]string, error) {
	var tried []string
	for _, p := range l.Programs {
		if program, err := look(p[0]); err == nil {
			return slices.Concat(l.Wrap, []string{program}, p[1:], []string{file}), nil
		}
		tried = append(tried, p[0])
	}
	return nil, fmt.Errorf("no interpreter: %s not found in PATH", strings.Join(tried, ", "))
}

// Code is code for an interpreter to run or, with Clear, the request to delete its definitions.
type Code struct {
	Number int
	Text   string
	Clear  bool
}

// Request returns the request for c to the driver, and the marks by which a Slicer finds the run. The Text of c must
// not contain NUL.
func (c *Code) Request() ([]byte, Marks) {
	m := Marks{Frame: rand.Text(), End: rand.Text()}
	what := "run"
	if c.Clear {
		what = "clear"
	}
	return fmt.Appendf(nil, "%s\x00%d\x00%s\x00%s\x00%s\n", what, c.Number, m.Frame, c.Text, m.End), m
}
