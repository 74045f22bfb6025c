package execution

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"reprise/internal/execution/command"
	"reprise/internal/isolation"
)

// language describes how code is run.
type language struct {
	// file is the name of the temporary file that holds the code; it shows in tracebacks.
	file string
	// interpreters are tried in this order; the first one found is given the file.
	interpreters [][]string
}

var languages = map[string]*language{
	"bash":       {"main.sh", [][]string{{"bash"}}},
	"go":         {"main.go", [][]string{{"go", "run"}}},
	"javascript": {"main.js", [][]string{{"node"}, {"deno", "run", "--allow-all"}, {"bun"}}},
	"lua":        {"main.lua", [][]string{{"lua"}}},
	"perl":       {"main.pl", [][]string{{"perl"}}},
	"php":        {"main.php", [][]string{{"php"}}},
	"python":     {"main.py", [][]string{{"python3"}, {"python"}}},
	"r":          {"main.R", [][]string{{"Rscript"}}},
	"ruby":       {"main.rb", [][]string{{"ruby"}}},
	"sh":         {"main.sh", [][]string{{"sh"}}},
	"typescript": {
		"main.ts",
		[][]string{{"deno", "run", "--allow-all"}, {"bun"}, {"tsx"}, {"node", "--experimental-strip-types"}},
	},
}

// Languages are the names that Request.Language may have, sorted. Whether their
// interpreters are there is found out when they are run.
func Languages() []string { return slices.Sorted(maps.Keys(languages)) }

// argv returns the command that runs the code in file with the program found in path.
func (l *language) argv(as *isolation.User, path, file string) ([]string, error) {
	var tried []string
	for _, interpreter := range l.interpreters {
		if program, err := command.LookPath(as, interpreter[0], path); err == nil {
			return append(append([]string{program}, interpreter[1:]...), file), nil
		}
		tried = append(tried, interpreter[0])
	}
	return nil, fmt.Errorf("no interpreter: %s not found in PATH", strings.Join(tried, ", "))
}

// writeCode writes code to a new folder below dir that only its owner can read.
func (l *language) writeCode(dir, code string) (file string, err error) {
	folder, err := os.MkdirTemp(dir, codeFolder+"*") // mode 0700
	if err != nil {
		return "", err
	}
	file = filepath.Join(folder, l.file)
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	return file, nil
}

// codeFolder begins the names of the folders that code is put into.
const codeFolder = "reprise-code-"

// clearCode makes dir, and removes the files of a dead Host from it.
func clearCode(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(dir, codeFolder+"*"))
	for _, folder := range left {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}
