//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEveryMutantApplies: each has its place in the code, exactly one, and a name of its own; each guarantee has one.
func TestEveryMutantApplies(t *testing.T) {
	t.Chdir("../..")
	names, rules := map[string]bool{}, ""
	for _, m := range all() {
		if _, _, err := m.find(); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if names[m.name] || m.old == m.new || (m.run == "") == (m.torture == "") {
			t.Errorf("%s: it is there twice, changes nothing, or has no test", m.name)
		}
		names[m.name] = true
		rules += m.rule + "\n"
	}
	for n := range 9 {
		if g := fmt.Sprint("G", n+1); !strings.Contains(rules, g) {
			t.Errorf("%s has no mutant", g)
		}
	}
}

// TestBuildThatFailsIsNotKilled: a mutant that cannot be compiled proves nothing.
func TestBuildThatFailsIsNotKilled(t *testing.T) {
	m := &mutant{run: "TestX"}
	if verdict, _, err := judge(m, []byte("./x.go:1:1: undefined: x\nFAIL\treprise [build failed]\n")); err == nil {
		t.Errorf("it is %s", verdict)
	}
	verdict, by, err := judge(m, []byte("--- FAIL: TestX (0.00s)\n    --- FAIL: TestX/a (0.00s)\nFAIL\n"))
	if verdict != killed || by != "TestX/a" || err != nil {
		t.Errorf("%q by %q, %v", verdict, by, err)
	}
}

// TestReportOfJUnit: a test that was left out has neither passed nor failed, wherever it stands.
func TestReportOfJUnit(t *testing.T) {
	got, err := readJUnit([]byte(`<testsuites><testcase name="a" time="1.5"/><testsuite name="s">
		<testcase name="b" time="0"><skipped/></testcase><testcase name="c" time="2"><failure>x</failure></testcase>
		<testcase name="d" time="2"><error/></testcase></testsuite></testsuites>`))
	if err != nil || got.passed["a"] != 1500*time.Millisecond || len(got.passed) != 1 ||
		!slices.Equal(got.failed, []string{"c", "d"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTestsOfClientsInOtherLanguages(t *testing.T) {
	for pkg, want := range map[string]string{
		"./client": "", "./sdk/python/tests/test_x.py": "sdk/python tests/test_x.py",
		checkClient + "./sdk/typescript/test/service.mjs": "sdk/typescript test/service.mjs",
	} {
		got := ""
		if s, path := (&mutant{pkg: pkg}).sdk(); s != nil {
			got = s.folder + " " + path
		}
		if got != want {
			t.Errorf("%s: %q, want %q", pkg, got, want)
		}
	}
}

func TestTimeOfItsTests(t *testing.T) {
	took := times{"p": {"TestA": 1, "TestB": 2, "TestBoth": 4}}
	for run, want := range map[string]time.Duration{
		"TestA$": 1, "TestA/(x|TestB)": 1, "TestA/x|TestB$": 3, "TestB": 6, "TestC": 0,
	} {
		if got := took.of(&mutant{pkg: "p", run: run}); got != want {
			t.Errorf("%s: %d, want %d", run, got, want)
		}
	}
}

// TestTableOfRepairs: docs/internals/testing.md has a row for each promise that was once broken, whose tests and
// mutants there are, and every mutant of a row is in it.
func TestTableOfRepairs(t *testing.T) {
	t.Chdir("../..")
	left := map[string]string{} // the row of each mutant
	row := regexp.MustCompile(`\brow (\d+)\b`)
	for _, m := range all() {
		if found := row.FindStringSubmatch(m.rule); found != nil {
			left[m.name] = found[1]
		}
	}
	doc, err := os.ReadFile("docs/internals/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|[^|]*\| ([^|]*) \| ([^|]*) \|$`).FindAllStringSubmatch(string(doc), -1)
	if len(rows) != 16 {
		t.Errorf("the table has %d rows", len(rows))
	}
	for i, cells := range rows {
		if cells[1] != fmt.Sprint(i+1) {
			t.Errorf("row %s stands in the place of %d", cells[1], i+1)
		}
		for _, name := range regexp.MustCompile("Test[A-Za-z0-9]+").FindAllString(cells[2], -1) {
			if !tests[name] {
				t.Errorf("row %s: there is no %s", cells[1], name)
			}
		}
		for name := range strings.SplitSeq(cells[3], "; ") {
			if left[name] != cells[1] {
				t.Errorf("row %s: the mutant %q is of row %q", cells[1], name, left[name])
			}
			delete(left, name)
		}
	}
	for name, row := range left {
		t.Errorf("row %s does not name the mutant %q", row, name)
	}
}

// testNames are the tests of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	test := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && entry.Name() == "node_modules" {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range test.FindAllSubmatch(text, -1) {
			names[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
