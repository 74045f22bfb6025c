package interpreter

import (
	"cmp"
	_ "embed" // the drivers
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"reprise/internal/execution"
	"reprise/internal/execution/language"
)

var (
	//go:embed driver.py
	pythonDriver string
	//go:embed driver.js
	javascriptDriver string
	//go:embed driver.sh
	shellDriver string
)

// program is the driver of a language.
type program struct {
	language.Program
	text string
	// interrupts are the names, without SIG, of the signals that interrupt code. They are sent one after the other with
	// a pause, until the code has ended.
	interrupts []string
}

var programs = map[string]*program{
	"bash": {
		Program: language.Program{File: "driver.sh", Commands: [][]string{{"bash"}}},
		text:    shellDriver, interrupts: []string{"INT"},
	},
	"javascript": {
		Program: language.Program{
			File: "driver.js", Commands: [][]string{{"node"}},
			// Node has no dup: the shell moves the pipes away from the code's own descriptors.
			Wrap: []string{"/bin/sh", "-c", `exec "$0" "$@" 3<&0 4>&1 5>&2 </dev/null`},
		},
		// While Node runs code that INT can break, it changes what INT does twice: there are moments at which INT is
		// lost or ends Node. WINCH is always heard by code that waits; INT is for code that does not come to that.
		text: javascriptDriver, interrupts: []string{"WINCH", "INT"},
	},
	"python": {
		Program: language.Program{
			File: "driver.py", Commands: [][]string{{"python3", "-X", "utf8"}, {"python", "-X", "utf8"}},
		},
		text: pythonDriver, interrupts: []string{"INT"},
	},
}

// Drive returns the driver of an interpreter of a language, which ends when it was not used for an idle time, or never
// if that is 0. It is the Drive of execution.Options.
func Drive(name string, idle time.Duration) (execution.Driver, error) {
	p := programs[name]
	if p == nil {
		return nil, fmt.Errorf("%q is not one of %s", name, strings.Join(slices.Sorted(maps.Keys(programs)), ", "))
	}
	d := &driver{program: p}
	d.state.Used, d.state.Idle = time.Now(), idle
	d.report()
	return d, nil
}

// Program returns the program of the driver.
func (d *driver) Program() (p *language.Program, text string) {
	return &d.program.Program, d.program.text
}

// interruptsOf are the signals that interrupt code of a language, which may be one of another version.
func interruptsOf(name string) []string { return cmp.Or(programs[name], programs["bash"]).interrupts }
