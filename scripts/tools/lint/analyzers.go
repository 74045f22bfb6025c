package main

import (
	"regexp"

	"github.com/charithe/durationcheck"
	"github.com/gostaticanalysis/nilerr"
	"github.com/kisielk/errcheck/errcheck"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/atomicalign"
	"golang.org/x/tools/go/analysis/passes/deepequalerrors"
	"golang.org/x/tools/go/analysis/passes/modernize"
	"golang.org/x/tools/go/analysis/passes/nilness"
	"golang.org/x/tools/go/analysis/passes/reflectvaluecompare"
	"golang.org/x/tools/go/analysis/passes/scannererr"
	"golang.org/x/tools/go/analysis/passes/sortslice"
	"golang.org/x/tools/go/analysis/passes/sqlrowserr"
	"golang.org/x/tools/go/analysis/passes/unusedwrite"
)

// Bounds of single analyzers, with their reason.
var bounded = map[string]bounds{
	// The cleanup of a test closes what a helper of its opened, which the analyzer does not see.
	"bodyclose": {productOnly: true},
	// Tests count in durations that have no unit yet.
	"durationcheck": {productOnly: true},
	// Close after reading, what is deferred for a return that has an error of its own, text for people at a
	// terminal, and waiting for the end of a goroutine: nobody could do anything about these errors. Where Close or a
	// write must succeed the code checks it, and tests with full disks and broken pipes see to that.
	"errcheck": {productOnly: true, excused: regexp.MustCompile(`^\s*(defer |<-)|\.Close\(\)|fmt\.Fprint`)},
	// A test compares with == where the error has to be that one, and none around it.
	"errorlint": {productOnly: true},
	// A line that is too long for the scanner ends a test, which then fails for want of what it waits for.
	"scannererr": {productOnly: true},
}

// analyzers are those that neither go vet nor staticcheck has.
func analyzers() []*analysis.Analyzer {
	list := []*analysis.Analyzer{
		// Of the Go project.
		atomicalign.Analyzer,
		deepequalerrors.Analyzer,
		nilness.Analyzer,
		reflectvaluecompare.Analyzer,
		scannererr.Analyzer,
		sortslice.Analyzer,
		sqlrowserr.Analyzer,
		unusedwrite.Analyzer,
		// Of others.
		bodyclose.Analyzer,
		durationcheck.Analyzer,
		errcheck.Analyzer,
		errorlint.NewAnalyzer(),
		nilerr.Analyzer,
	}
	list = append(list, modernize.Suite...)
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = a.Name
		list[i] = withDirectives(a, bounded[a.Name])
	}
	return append(list, nolint(names))
}
