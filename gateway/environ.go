package gateway

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// passed are the variables of our own environment that every command gets, besides those that begin with
// LC_. Everything else of ours, tokens above all, stays here.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}

// defaultPath is the PATH of a command where we have none ourselves.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// markName is the variable that marks all processes of an upstream, so that they can be found.
const markName = "REPRISE_GATEWAY"

// environ is the environment of a command: the few of ours, its own, and the mark.
func environ(ours []string, u *Upstream, mark string) []string {
	env := map[string]string{"PATH": defaultPath}
	for _, entry := range ours {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains(passed, name) || slices.Contains(u.PassEnv, name) || strings.HasPrefix(name, "LC_") {
			env[name] = value
		}
	}
	maps.Copy(env, u.Env)
	env[markName] = mark
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// lookPath finds the program that name stands for in the PATH of the command, which need not be ours.
// Relative entries are passed over: they would mean our directory.
func lookPath(name string, environ []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: not found in PATH", name)
}
