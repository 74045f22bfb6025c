package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionCmd prints the version.
type versionCmd struct {
	JSON bool `name:"json" help:"Print it as JSON."`
}

// Run prints it.
func (c *versionCmd) Run() error {
	if c.JSON {
		return printObject(thisBuild())
	}
	_, err := fmt.Fprintln(stdout, thisBuild().text())
	return err
}

// build says which build a program is.
type build struct {
	Version string `json:"version"`
	// Commit is "" where it is not known. Modified: there were changes beside it.
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisBuild says which build this is.
func thisBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

func (b build) text() string {
	commit := " of an unknown commit"
	if b.Commit != "" {
		commit = " " + b.Commit
	}
	if b.Modified {
		commit += " modified"
	}
	return fmt.Sprintf("reprise %s%s %s %s", b.Version, commit, b.Go, b.Platform)
}
