// Command lint is staticcheck with more analyzers, in one run over the types of all packages:
//
//	make lint
//	bin/lint -checks inherit,nilness ./store/...
//
// Every analyzer that is linked in is on, except those that staticcheck.conf in the root of the repository turns off
// with a reason. Its flags and its comments "//lint:ignore CHECK reason" are those of staticcheck; see also directive.
// The analyzers of go vet are not here: make vet runs them.
package main

import (
	"os"

	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/lintcmd/version"
	"honnef.co/go/tools/quickfix"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	cmd := lintcmd.NewCommand("lint")
	cmd.SetVersion(version.Version, version.MachineVersion)
	cmd.ParseFlags(os.Args[1:])
	cmd.AddAnalyzers(simple.Analyzers...)
	cmd.AddAnalyzers(staticcheck.Analyzers...)
	cmd.AddAnalyzers(stylecheck.Analyzers...)
	cmd.AddAnalyzers(quickfix.Analyzers...)
	cmd.AddAnalyzers(unused.Analyzer)
	cmd.AddBareAnalyzers(analyzers()...)
	os.Exit(cmd.Execute())
}
