package doctor

import (
	"cmp"
	"os/exec"
	"strings"

	"reprise/internal/execution/command"
	"reprise/internal/execution/language"
	"reprise/internal/isolation"
)

// checkCgroups tries whether commands can have cgroups of their own.
func checkCgroups() Finding {
	const name = "cgroup v2"
	if err := command.ProbeCgroups(); err != nil {
		return warn(name,
			"Delegate a cgroup to the server (systemd: Delegate=yes). Without one a process tree is found in /proc, and one that hides well survives.",
			"%v", err)
	}
	return ok(name, "writable: commands are killed with all their processes")
}

// checkIsolation says which level commands get, and which layers the machine gives.
func checkIsolation(c *isolation.Config) []Finding {
	m := isolation.Probe()
	findings := []Finding{
		checkLevel(c), checkLandlock(m.Landlock),
		layer("mount namespace", m.Mounts, "hides the data directory from commands",
			"Allow user namespaces for this user "+
				"(kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces), or start the server as root with --run-as USER."),
		layer("file tree", cmp.Or(m.Mounts, m.Views),
			"each command from landlock on has its own /tmp and sees no other directory",
			"The same allows it. Without one, landlock reads by rules and gives commands a TMPDIR."),
		layer("network", m.Network, "a command can have none", "The same allows --network off."),
		layer("system calls", m.SystemCalls, "can be denied", "The kernel was built without seccomp filters."),
		layer("capabilities", m.Capabilities, "can be dropped", "As root the server needs CAP_SETPCAP for it."),
	}
	if m.Root {
		findings = append(findings,
			layer("another user", m.SwitchUser, "--run-as works", "The server needs CAP_SETUID and CAP_SETGID."))
	}
	return append(findings, layer("bubblewrap", m.LacksProcesses(),
		"the level gives each command a process table of its own",
		"It takes what a file tree takes, and a /proc that nothing covers. An installed bwrap does not help."))
}

// layer is the finding on one layer.
func layer(name string, missing error, given, advice string) Finding {
	if missing != nil {
		return warn(name, advice, "%v", missing)
	}
	return ok(name, "%s", given)
}

// checkLevel finds out what commands start with that ask for nothing.
func checkLevel(c *isolation.Config) Finding {
	const name = "isolation"
	config := *c
	config.Confined = false
	root := isolation.Probe().Root && (c.User == nil || c.User.UID == 0) && c.Range == nil
	plan, err := config.Resolve("", isolation.Access{})
	switch {
	case err != nil:
		return warn(name, "", "%v", err)
	case plan.Level == isolation.None:
		return warn(name, "See what is missing below, and docs/isolation.md.",
			"commands can read the token and the store of the server")
	case plan.Layers.Signals == "" && root:
		return warn(name,
			"Landlock of version 6 (Linux 6.12) prevents that. Use one user per tenant (--run-as TENANT=USER), or bubblewrap.",
			"the level %s; commands can signal the server, and read memory and environment of other commands of their user",
			plan.Level)
	case plan.Layers.Signals == "":
		return warn(name, "Landlock of version 6 (Linux 6.12) prevents that.",
			"the level %s; commands can signal the server", plan.Level)
	case root:
		return warn(name, "Start the server as another user, or with --run-as USER; see docs/isolation.md.",
			"the level %s, and commands are root", plan.Level)
	}
	return ok(name, "the level %s; commands get at neither the data directory nor the server, "+
		"but at the terminals of other commands of their user", plan.Level)
}

// checkLandlock says what the version of Landlock is good for.
func checkLandlock(version int) Finding {
	const name = "landlock"
	switch {
	case version == 0:
		return warn(name, "Add landlock to the kernel's parameter lsm=.", "the kernel has none")
	case version < 3:
		return warn(name, "The isolation level landlock needs version 3 (Linux 6.2).", "version %d", version)
	case version < 6:
		return ok(name,
			"version %d; it does not keep commands from signalling the server, which version 6 does", version)
	}
	return ok(name, "version %d; commands cannot signal the server", version)
}

// checkInterpreters looks for what runs code.
func checkInterpreters() Finding {
	const name = "interpreters"
	var found, missing []string
	for _, name := range language.Names() {
		if _, err := language.Lookup(name).Argv(exec.LookPath, ""); err != nil {
			missing = append(missing, name)
			continue
		}
		found = append(found, name)
	}
	detail := strings.Join(found, ", ")
	if len(missing) > 0 {
		detail += "; none for " + strings.Join(missing, ", ")
	}
	if len(found) == 0 {
		return warn(name, "Install one to run code with \"language\"; commands need none.", "none found")
	}
	return ok(name, "%s", detail)
}
