//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// times are how long tests have taken without a fault, by package and name.
type times map[string]map[string]time.Duration

// of is how long the tests of m have taken.
func (t times) of(m *mutant) (sum time.Duration) {
	for name, took := range t[m.pkg] {
		if matchesTest(m.run, name) {
			sum += took
		}
	}
	return sum
}

// matchesTest reports whether a pattern of go test runs the test name, or some of its subtests.
func matchesTest(run, name string) bool {
	return slices.ContainsFunc(alternatives(run), func(pattern string) bool {
		test, _, _ := strings.Cut(pattern, "/")
		matches, err := regexp.MatchString(test, name)
		return matches && err == nil
	})
}

// alternatives are the parts of a pattern of go test between those "|" that are in no parentheses.
func alternatives(run string) (parts []string) {
	depth, begin := 0, 0
	for i, c := range run {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case '|':
			if depth == 0 {
				parts, begin = append(parts, run[begin:i]), i+1
			}
		}
	}
	return append(parts, run[begin:])
}

// checkUnchanged runs the tests of all mutants on the code as it is, where they must pass, and returns how long they
// take.
func checkUnchanged(ctx context.Context, chosen []mutant, atOnce int) (times, error) {
	patterns := map[string][]string{}
	for i := range chosen {
		if m := &chosen[i]; m.pkg != "" && !slices.Contains(patterns[m.pkg], m.run) {
			patterns[m.pkg] = append(patterns[m.pkg], m.run)
		}
	}
	pkgs := slices.Sorted(maps.Keys(patterns))
	took, errs := make([]map[string]time.Duration, len(pkgs)), make([]error, len(pkgs))
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, pkg := range pkgs {
		slots <- struct{}{}
		wg.Go(func() {
			took[i], errs[i] = checkPackage(ctx, pkg, patterns[pkg])
			<-slots
		})
	}
	wg.Wait()
	all := times{}
	for i, pkg := range pkgs {
		all[pkg] = took[i]
	}
	return all, errors.Join(errs...)
}

// passed is what go test -v tells of a test and of its subtests. The time of a test is without its parallel subtests.
var passed = regexp.MustCompile(`(?m)^ *--- PASS: ([^/\s]+)\S* \((\S+)\)`)

func checkPackage(ctx context.Context, pkg string, runs []string) (took map[string]time.Duration, err error) {
	run := strings.Join(runs, "|")
	if s, file := (&mutant{pkg: pkg}).sdk(); s != nil {
		took, err = s.checkUnchanged(ctx, pkg, file, run)
	} else {
		took, err = checkGoPackage(ctx, pkg, run)
	}
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		for _, pattern := range alternatives(run) {
			isPassed := func(name string) bool { return matchesTest(pattern, name) }
			if !slices.ContainsFunc(slices.Collect(maps.Keys(took)), isPassed) {
				return nil, fmt.Errorf("%s has no test %s that passes", pkg, pattern)
			}
		}
	}
	return took, nil
}

func checkGoPackage(ctx context.Context, pkg, run string) (map[string]time.Duration, error) {
	args := []string{"test", "-v", "-vet=off", noSymbols, "-count=1", "-timeout=20m", pkg, "-run", run}
	cmd := exec.CommandContext(ctx, "go", args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s fails without a fault: %w: %s", pkg, err, out)
	}
	took := map[string]time.Duration{}
	for _, found := range passed.FindAllSubmatch(out, -1) {
		whole, err := time.ParseDuration(string(found[2]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", found[0], err)
		}
		took[string(found[1])] = max(took[string(found[1])], whole)
	}
	return took, nil
}
