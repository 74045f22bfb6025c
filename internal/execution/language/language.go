// Package language names the programs that run code.
package language

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Program runs code from a file.
type Program struct {
	// File is the name of the file; it shows in tracebacks.
	File string
	// Commands are tried in this order. Each is a command line to which the path of the file is appended.
	Commands [][]string
	// Wrap is put in front of the command line.
	Wrap []string
}

var programs = map[string]*Program{
	"bash":       {File: "main.sh", Commands: [][]string{{"bash"}}},
	"go":         {File: "main.go", Commands: [][]string{{"go", "run"}}},
	"javascript": {File: "main.js", Commands: [][]string{{"node"}, {"deno", "run", "--allow-all"}, {"bun"}}},
	"lua":        {File: "main.lua", Commands: [][]string{{"lua"}}},
	"perl":       {File: "main.pl", Commands: [][]string{{"perl"}}},
	"php":        {File: "main.php", Commands: [][]string{{"php"}}},
	"python":     {File: "main.py", Commands: [][]string{{"python3"}, {"python"}}},
	"r":          {File: "main.R", Commands: [][]string{{"Rscript"}}},
	"ruby":       {File: "main.rb", Commands: [][]string{{"ruby"}}},
	"sh":         {File: "main.sh", Commands: [][]string{{"sh"}}},
	"typescript": {File: "main.ts", Commands: [][]string{
		{"deno", "run", "--allow-all"}, {"bun"}, {"tsx"}, {"node", "--experimental-strip-types"},
	}},
}

// Names are the names that Lookup knows, sorted. Whether their programs are there is found out when they are run.
func Names() []string { return slices.Sorted(maps.Keys(programs)) }

// Lookup returns what runs a program in the language of a name, or nil if there is no such language.
func Lookup(name string) *Program { return programs[name] }

// Argv returns the command line that runs the code in file; look finds programs. The error names the missing programs.
func (p *Program) Argv(look func(program string) (path string, err error), file string) ([]string, error) {
	var tried []string
	for _, c := range p.Commands {
		if program, err := look(c[0]); err == nil {
			return slices.Concat(p.Wrap, []string{program}, c[1:], []string{file}), nil
		}
		tried = append(tried, c[0])
	}
	return nil, fmt.Errorf("no interpreter: %s not found in PATH", strings.Join(tried, ", "))
}
