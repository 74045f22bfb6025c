package execution

import (
	"maps"
	"slices"
	"strings"

	"reprise/internal/tracecontext"
)

// passed are the variables of the server's environment that every command gets, in addition to those that begin with
// LC_. Commands get no other variable of the server, because some contain tokens.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}

const (
	// defaultPath is the PATH of a command if the server has none.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// envID names for a command its own execution.
	envID = "REPRISE_EXECUTION"
	// envEpoch marks all processes of a run, so that they can be found when the
	// run is killed. Other than an id it is never used twice.
	envEpoch = "REPRISE_EPOCH"
)

// environ returns the environment of a command: a few of our variables, the variables of the options and of the
// request, and the mark of its processes.
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
