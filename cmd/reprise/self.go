package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// self is the command that starts this program again.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return "reprise"
	}
	found, err := exec.LookPath("reprise")
	if err != nil {
		found = ""
	}
	return selfText(path, found, sameFile)
}

// selfText returns self for the program at path. The shell finds the program "reprise" at found, "" if it finds none.
func selfText(path, found string, same func(a, b string) bool) string {
	switch {
	case found != "" && same(path, found):
		return "reprise"
	case strings.Contains(filepath.ToSlash(path), "/go-build"): // "go run" removes the program when it ends
		return "go run ./cmd/reprise"
	}
	return path
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
