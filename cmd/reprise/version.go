package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionCmd prints the version.
type versionCmd struct{}

// Run prints it.
func (*versionCmd) Run() error {
	version, commit := "unknown", " of an unknown commit"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, setting := range info.Settings {
			switch {
			case setting.Key == "vcs.revision":
				commit = " " + setting.Value
			case setting.Key == "vcs.modified" && setting.Value == "true":
				commit += " modified"
			}
		}
	}
	fmt.Fprintf(stdout, "reprise %s%s %s %s/%s\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}
