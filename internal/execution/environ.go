package execution

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"reprise/internal/isolation"
	"reprise/internal/tracecontext"
)

// passed are the variables of the server's environment that every command gets, in addition to those that begin with
// LC_. Commands get no other variable of the server, because some contain tokens.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}

const (
	// defaultPath is the PATH of a command if the server has none.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// envID tells a command which execution it is.
	envID = "REPRISE_EXECUTION"
	// envEpoch marks all processes of a run, so that they can be found when the
	// run is killed. Other than an id it is never used twice.
	envEpoch = "REPRISE_EPOCH"
)

// environ returns the environment of a command: a few of our variables, those of the options, those of the request, and
// the mark of its processes.
func environ(ours []string, pass []string, request map[string]string, tty bool, marks ...string) []string {
	env := map[string]string{"PATH": defaultPath}
	if tty {
		env["TERM"] = "xterm-256color"
	}
	for _, entry := range ours {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains(passed, name) || slices.Contains(pass, name) || strings.HasPrefix(name, "LC_") {
			env[name] = value
		}
	}
	maps.Copy(env, request)
	list := make([]string, 0, len(env)+len(marks))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !slices.ContainsFunc(marks, func(m string) bool { return strings.HasPrefix(m, name+"=") }) {
			list = append(list, name+"="+env[name])
		}
	}
	return append(list, marks...)
}

// withTrace returns the environment of a request with the variables of its trace, unless the request sets these
// variables itself.
func withTrace(req *Request) map[string]string {
	trace := tracecontext.New(req.TraceParent, req.TraceState)
	if _, own := req.Env[tracecontext.ParentVariable]; own || trace.Parent == "" {
		return req.Env
	}
	env := map[string]string{tracecontext.ParentVariable: trace.Parent}
	if trace.State != "" {
		env[tracecontext.StateVariable] = trace.State
	}
	maps.Copy(env, req.Env)
	return env
}

// variable returns the value of a variable in an environment, or "" if it is not set.
func variable(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// lookPath finds the program with the given name in the PATH of the command, which may differ from the PATH of the
// server, with the rights of the command's user. It skips relative entries, which would refer to the directory of the
// server.
func lookPath(as *isolation.User, name, path string) (found string, err error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	err = as.As(func() (err error) {
		found, err = search(name, path)
		return err
	})
	return found, err
}

// search is lookPath with the rights of the caller.
func search(name, path string) (string, error) {
	denied := false
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if err == nil && info.Mode().IsRegular() {
			if info.Mode()&0o111 != 0 {
				return file, nil
			}
			denied = true
		}
	}
	if denied {
		return "", fmt.Errorf("%s: found in PATH, but not executable", name)
	}
	return "", fmt.Errorf("%s: not found in PATH", name)
}

// checkDir says in plain words why the user of a command cannot work in dir.
func checkDir(as *isolation.User, dir string) error {
	var info fs.FileInfo
	err := as.As(func() (err error) {
		info, err = os.Stat(dir)
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cwd %s does not exist", dir)
	case err != nil:
		return fmt.Errorf("cwd: %w", err)
	case !info.IsDir():
		return fmt.Errorf("cwd %s is not a directory", dir)
	}
	return nil
}
