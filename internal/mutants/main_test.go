//go:build unix

package main

import (
	"fmt"
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
