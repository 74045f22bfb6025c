package conventions_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testCommand = regexp.MustCompile("go test ([^`\n]*)")
	runPattern  = regexp.MustCompile(`-run[ =]('[^']*'|"[^"]*"|\S+)`)
	packagePath = regexp.MustCompile(`(?:^|\s)(\.(?:/[\w./-]*)?)`)
	testName    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
)

// TestNamedTestsExist: each test that the Makefile and the documentation name, as what shows a promise, exists. go test
// succeeds if its pattern matches nothing.
func TestNamedTestsExist(t *testing.T) {
	top(t)
	names := map[string][]string{}
	checked := 0
	for _, path := range commandFiles(t) {
		for n, line := range strings.Split(readFile(t, path), "\n") {
			for _, command := range testCommand.FindAllStringSubmatch(line, -1) {
				run := runPattern.FindStringSubmatch(command[1])
				if run == nil || strings.Contains(command[1], "-bench") || strings.Contains(command[1], "NAME") {
					continue // benchmarks run with no test
				}
				dirs := packagePath.FindAllStringSubmatch(command[1], -1)
				if dirs == nil {
					dirs = [][]string{{"", "."}}
				}
				for _, alternative := range alternatives(strings.ReplaceAll(strings.Trim(run[1], `'"`), `\|`, "|")) {
					checked++
					if !slices.ContainsFunc(dirs, func(dir []string) bool {
						return matchesTest(t, names, dir[1], alternative)
					}) {
						t.Errorf("%s:%d: no test matches %q of go test %s", path, n+1, alternative, command[1])
					}
				}
			}
		}
	}
	if checked < 200 {
		t.Errorf("%d names were checked; the commands are written in another form now", checked)
	}
}

// commandFiles are the files that name tests.
func commandFiles(t *testing.T) []string {
	files := []string{"Makefile", "README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/internals/*.md", "docs/internals/decisions/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// alternatives splits a pattern at each | that is in no parentheses.
func alternatives(pattern string) []string {
	depth := 0
	return strings.FieldsFunc(pattern, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return r == '|' && depth == 0
	})
}

// matchesTest reports whether the packages at path have a test that one alternative of -run matches. Of the names of
// subtests only those of scripts are compared, which are files.
func matchesTest(t *testing.T, names map[string][]string, path, alternative string) bool {
	name, script, _ := strings.Cut(alternative, "/")
	pattern, err := regexp.Compile(name)
	scripts, scriptErr := regexp.Compile(script)
	if err != nil || scriptErr != nil {
		t.Errorf("%q: %v, %v", alternative, err, scriptErr)
		return true
	}
	if _, known := names[path]; !known {
		names[path] = testsBelow(t, path)
	}
	if !slices.ContainsFunc(names[path], pattern.MatchString) {
		return false
	}
	if script == "" || !strings.Contains(name, "Script") {
		return true
	}
	files, _ := filepath.Glob(filepath.Join(path, "testdata", "script", "*.txtar"))
	return slices.ContainsFunc(files, func(file string) bool {
		return scripts.MatchString(strings.TrimSuffix(filepath.Base(file), ".txtar"))
	})
}

// testsBelow are the tests of a package or, with "/...", of all below it.
func testsBelow(t *testing.T, path string) []string {
	root, deep := strings.CutSuffix(path, "...")
	names := []string{}
	err := filepath.WalkDir(filepath.Clean(root), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && !deep && filepath.Clean(path) != filepath.Clean(root) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, found := range testName.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
		return err
	})
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return names
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
