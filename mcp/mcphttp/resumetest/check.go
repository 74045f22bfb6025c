package resumetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// Outcome is the outcome of a case.
type Outcome string

// The outcomes.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	// NotRun is the outcome of a case that needs a feature that the target does not have, such as Restart.
	NotRun Outcome = "not run"
	// NotApplicable is the outcome of a case that does not concern the version, or that tests an optional feature that
	// the server does not offer.
	NotApplicable Outcome = "not applicable"
)

// Result is the outcome of one case at one version.
type Result struct {
	// Case names the case.
	Case string `json:"case"`
	// Version is the protocol version.
	Version string  `json:"version"`
	Outcome Outcome `json:"outcome"`
	// Detail is the reason why the case failed, was not run or is not applicable.
	Detail string `json:"detail,omitempty"`
	// Rule is what must hold.
	Rule string `json:"rule"`
	// Source is the source of the rule: a sentence of the specification, or Reprise if the specification does not cover
	// it.
	Source string `json:"source"`
}

// testCase is something that must hold.
type testCase struct {
	name, rule, source string
	// since and until are the first and the last version that it concerns, "" for all.
	since, until string
	run          func(*run) error
}

// notRun is the error of a case that needs a feature that the target does not have.
type notRun string

func (n notRun) Error() string { return string(n) }

// notApplicable is the error of a case that tests a feature that the server does not offer.
type notApplicable string

func (n notApplicable) Error() string { return string(n) }

// Check runs all cases against the target, one after the other, each with sessions of its own. Results are ordered by
// case and then as target.Versions. seen, if not nil, is called with each result as soon as it is known. If ctx is
// cancelled, the remaining cases fail.
func Check(ctx context.Context, target Target, seen func(Result)) []Result {
	target = target.withDefaults()
	defer target.Client.CloseIdleConnections()
	var results []Result
	for _, c := range cases() {
		if target.Only != nil && !target.Only.MatchString(c.name) {
			continue
		}
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

// Run is Check with a subtest for each case and version. One that is not run or not applicable is skipped.
func Run(t *testing.T, target Target) {
	t.Helper()
	target = target.withDefaults()
	t.Cleanup(target.Client.CloseIdleConnections)
	for _, c := range cases() {
		if target.Only != nil && !target.Only.MatchString(c.name) {
			continue
		}
		for _, version := range target.Versions {
			t.Run(c.name+"/"+version, func(t *testing.T) {
				switch r := check(t.Context(), target, c, version); r.Outcome {
				case Failed:
					t.Errorf("%s: %s", r.Rule, r.Detail)
				case NotRun, NotApplicable:
					t.Skip(r.Detail)
				}
			})
		}
	}
}

func check(ctx context.Context, target Target, c testCase, version string) (result Result) {
	result = Result{Case: c.name, Rule: c.rule, Source: c.source, Version: version, Outcome: Passed}
	if c.since != "" && version < c.since || c.until != "" && version > c.until {
		result.Outcome, result.Detail = NotApplicable, "it does not concern this version"
		return result
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{ctx: ctx, target: target, version: version}
	err := c.run(r)
	r.close()
	skip, isSkip := errors.AsType[notRun](err)
	none, isNone := errors.AsType[notApplicable](err)
	switch {
	case isSkip:
		result.Outcome, result.Detail = NotRun, string(skip)
	case isNone:
		result.Outcome, result.Detail = NotApplicable, string(none)
	case err != nil:
		result.Outcome, result.Detail = Failed, err.Error()
	}
	return result
}

// cases returns all cases, in the order in which they run.
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
