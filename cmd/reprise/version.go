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
	_, err := fmt.Fprintln(stdout, versionText())
	return err
}

// versionText says which build this is.
func versionText() string {
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
	return fmt.Sprintf("reprise %s%s %s %s/%s", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
