package doctor

import (
	"fmt"
	"slices"
	"strings"

	"reprise/internal/isolation"
)

// checkBoundary says what commands of the server can do, a line for each question.
func checkBoundary(opts *Options) []Finding {
	c := opts.Isolation
	if opts.Refused != nil {
		return []Finding{fail("commands", "See what is missing below, and docs/isolation.md.", "%v", opts.Refused)}
	}
	anybody := *c
	anybody.Confined = false // a working directory is not asked for
	plan, err := anybody.Resolve("", isolation.Access{})
	if err != nil {
		return []Finding{fail("commands", "", "%v", err)}
	}
	findings := []Finding{
		ok("commands", "run at %s; a request may ask for %s", plan.Level, strings.Join(asked(c.Least), ", ")),
		ok("commands as", "%s", userOf(c)),
		ok("commands read", "%s", readable(c, plan)),
		ok("commands write", "%s", writable(c, plan)),
		ok("commands reach", "%s", network(plan)),
		ok("other commands", "%s", others(plan)),
		ok("commands use", "%s", most(opts.LimitCommand)),
	}
	if dirs := c.Movable(); len(dirs) > 0 {
		findings = append(findings, warn("commands rename",
			"Keep --data, what else is hidden, and the program where --writable does not lead, or run commands as another user (--run-as USER).",
			"%s, above hidden files or this program, which the server then no longer finds", strings.Join(dirs, ", ")))
	}
	return findings
}

// asked are the levels that a request may ask for.
func asked(least isolation.Level) (names []string) {
	for _, level := range isolation.Levels() {
		if level == least {
			names = nil
		}
		if names = append(names, string(level)); level == isolation.None {
			names[0] += " (which reads the token)"
		}
	}
	return names
}

func userOf(c *isolation.Config) string {
	user := "the user of the server"
	if c.User != nil {
		user = c.User.Name
	}
	switch {
	case c.Range != nil:
		return "a user of its own for each tenant, from --run-as-range"
	case len(c.Users) > 0:
		return fmt.Sprintf("%s; %d tenants have users of their own", user, len(c.Users))
	}
	return user
}

func readable(c *isolation.Config, plan *isolation.Plan) string {
	hidden := c.Masks.Paths()
	switch {
	case plan.Level == isolation.None:
		return "all that their user can, the data directory too"
	case plan.Layers.Readable == "":
		return "all that their user can, but for " + strings.Join(hidden, ", ")
	case c.Confined:
		return "the system, and " + list(slices.Concat(c.Writable, c.Readable), "the directories of their tenant")
	}
	return "the system, their working directory, what a request opens, and " + list(slices.Concat(c.Writable,
		c.Readable), "nothing else")
}

func writable(c *isolation.Config, plan *isolation.Plan) string {
	switch {
	case plan.Layers.Writable == "":
		return "wherever they read and their user may write"
	case c.Confined:
		return list(c.Writable, "the directories of their tenant") + ", and temporary directories of their own"
	}
	return "their working directory, what a request opens, and temporary directories of their own"
}

func list(paths []string, none string) string {
	if len(paths) == 0 {
		return none
	}
	return strings.Join(paths, ", ")
}

func network(plan *isolation.Plan) string {
	if plan.Layers.Network == isolation.Off {
		return "no network"
	}
	return "the network of this machine, and the server by it, which wants a token"
}

func others(plan *isolation.Plan) string {
	switch plan.Layers.Signals {
	case isolation.ByPIDNamespace:
		return "other processes are not visible"
	case isolation.ByLandlock:
		return "other processes are visible; signals, memory and environment are not theirs"
	}
	return "they signal and inspect the other processes of their user"
}

func most(limits []string) string {
	if len(limits) == 0 {
		return "what the machine has, unless a request asks for less; --limit-command bounds it"
	}
	return "at most " + strings.Join(limits, ", ")
}
