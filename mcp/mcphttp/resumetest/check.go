package resumetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// Outcome is what has become of a case.
type Outcome string

// The outcomes.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	NotRun Outcome = "not run"
)

// Result is the outcome of one case at one version.
type Result struct {
	// Case names the case, Rule is what must hold, and Version the protocol version.
	Case, Rule, Version string
	Outcome             Outcome
	// Detail says how it failed, or why it was not run.
	Detail string
}

// testCase is something that must hold.
type testCase struct {
	name, rule string
	// since and until are the first and the last version that it concerns, "" for all.
	since, until string
	run          func(*run) error
}

// notRun is the error of a case that cannot be tried.
type notRun string

func (n notRun) Error() string { return string(n) }

// Check runs all cases against the target, one after the other, each with sessions of its own. Results come case by
// case, in each the versions in the order of target.Versions. seen, if not nil, is called with each result as it
// comes. A cancelled ctx makes what is left fail.
func Check(ctx context.Context, target Target, seen func(Result)) []Result {
	target = target.withDefaults()
	defer target.Client.CloseIdleConnections()
	var results []Result
	for _, c := range cases() {
		for _, version := range target.Versions {
			r := check(ctx, target, c, version)
			if seen != nil {
				seen(r)
			}
			results = append(results, r)
		}
	}
	return results
}

// Run is Check with a subtest for each case and version. One that is not run is skipped.
func Run(t *testing.T, target Target) {
	t.Helper()
	target = target.withDefaults()
	t.Cleanup(target.Client.CloseIdleConnections)
	for _, c := range cases() {
		for _, version := range target.Versions {
			t.Run(c.name+"/"+version, func(t *testing.T) {
				switch r := check(t.Context(), target, c, version); r.Outcome {
				case Failed:
					t.Errorf("%s: %s", r.Rule, r.Detail)
				case NotRun:
					t.Skip(r.Detail)
				}
			})
		}
	}
}

func check(ctx context.Context, target Target, c testCase, version string) (result Result) {
	result = Result{Case: c.name, Rule: c.rule, Version: version, Outcome: Passed}
	if c.since != "" && version < c.since || c.until != "" && version > c.until {
		result.Outcome, result.Detail = NotRun, "not a matter of this version"
		return result
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{ctx: ctx, target: target, version: version}
	err := c.run(r)
	r.close()
	if skip, ok := errors.AsType[notRun](err); ok {
		result.Outcome, result.Detail = NotRun, string(skip)
	} else if err != nil {
		result.Outcome, result.Detail = Failed, err.Error()
	}
	return result
}

// cases are all cases, in the order in which they are run.
func cases() []testCase {
	return slices.Concat(plainCases, resumeCases, refusalCases, takeoverCases, faultCases)
}

// run is one case at one version.
type run struct {
	ctx     context.Context
	target  Target
	version string
	streams []*stream
}

func (r *run) close() {
	for _, st := range r.streams {
		st.drop()
	}
}

// errorf is fmt.Errorf.
func errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }
