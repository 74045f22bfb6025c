//go:build unix

package main

// isolationMutants are layers that are left out, each of which an attempt to get out finds.
var isolationMutants = []mutant{
	{
		name: "isolation hides nothing",
		rule: "R6.13",
		file: "internal/isolation/namespaces_linux.go",
		old:  "	for _, m := range outermost(pl.Masks) {\n",
		new:  "	for _, m := range outermost(nil) {\n",
		pkg:  "./internal/isolation",
		run:  "TestAttemptsFailAtLevelsThatStopThem$",
	},
	{
		name: "isolation leaves signals", rule: "R6.13",
		file: "internal/isolation/landlock_linux.go", old: "		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL\n", new: "		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET\n",
		pkg: "./internal/isolation", run: "TestAttemptsFailAtLevelsThatStopThem$",
	},
	{
		name: "isolation leaves cgroups writable",
		rule: "R6.13",
		file: "internal/isolation/namespaces_linux.go",
		// For root, the next loop makes them read-only with the rest of /sys.
		old: "	for _, path := range pl.Given.Cgroups {\n",
		new: "	if true {\n		return\n	}\n	for _, path := range pl.Given.Cgroups {\n",
		pkg: "./internal/isolation",
		run: "TestAttemptsFailAtLevelsThatStopThem$",
	},
	{
		name: "isolation lets root set the kernel", rule: "R6.13",
		file: "internal/isolation/namespaces_linux.go",
		old:  "	if pl.isRoot() {\n", new: "	if pl.isRoot() && pl.Level == None {\n",
		pkg: "./internal/isolation", run: "TestAttemptsFailAtLevelsThatStopThem$",
	},
	{
		name: "request hides a directory above the server's", rule: "R6.13",
		file: "internal/isolation/isolation.go", old: "		if above || slices", new: "		if above && false || slices",
		pkg: "./internal/isolation", run: "TestRequestCannotUncoverMasks",
	},
	{
		name: "masks are looked up by name", rule: "R6.13",
		file: "internal/isolation/masks_linux.go", old: "	path, err := h.now()\n	if err != nil {\n		return Mask{}, err\n	}\n", new: "	path := h.path\n",
		pkg: "./internal/isolation", run: "TestMaskFollowsWhatIsMoved",
	},
	{
		name: "child does not compare what it masks", rule: "R6.13",
		file: "internal/isolation/namespaces_linux.go", old: "	p.compare(step, &st.Ino, m.Ino)\n", new: "	_ = p.compare\n",
		pkg: "./internal/isolation", run: "TestMaskFollowsWhatIsMoved|TestStepsThatFail",
	},
	{
		name: "links lead to what is masked", rule: "R6.13",
		file: "internal/isolation/landlock_linux.go", old: "(r.masked[of] || r.above[of]) && rights", new: "r.above[of] && rights",
		pkg: "./internal/isolation", run: "TestLinksDoNotLeadToMasks",
	},
	{
		name: "least level is not that of the default", rule: "R6.13",
		file: "internal/isolation/isolation.go", old: "	return c.Least, false, nil\n", new: "	return level, open, nil\n",
		pkg: "./internal/isolation", run: "TestLeastLevelHoldsForDefault",
	},
	{
		name: "bwrap gets the environment of the command", rule: "R6.13",
		file: "internal/isolation/bubblewrap_linux.go", old: "strconv.Itoa(fd)}, args...), nil, nil\n", new: "strconv.Itoa(fd)}, args...), env, nil\n",
		pkg: "./internal/isolation", run: "TestBubblewrapHasNoEnvironment",
	},
	{
		name: "bwrap is taken from a directory that others write to", rule: "R6.13",
		file: "internal/isolation/bubblewrap_linux.go", old: "st.Uid != 0 || st.Mode&(unix.S_IWGRP|unix.S_IWOTH) != 0", new: "st.Uid != 0 && st.Mode&(unix.S_IWGRP|unix.S_IWOTH) != 0",
		pkg: "./internal/isolation", run: "TestBubblewrapIsNotTaken",
	},
	{
		name: "user is said to hide what that user reads", rule: "R6.13",
		file: "internal/isolation/isolation.go", old: "return p.User.reads(m.Path) }", new: "return false }",
		pkg: "./internal/isolation", run: "TestUserHidesWhatItHasNoRightsTo",
	},
	{
		name: "isolation allows cgroup namespaces",
		rule: "R6.13, survivor",
		file: "internal/isolation/seccomp_linux.go",
		old:  "unix.CLONE_NEWCGROUP, places[refused], tail+3)",
		new:  "unix.CLONE_NEWCGROUP, tail+3, tail+3)",
		pkg:  "./internal/isolation",
		run:  "TestAttemptsFailAtLevelsThatStopThem$",
	},
	{
		name: "isolation keeps all capabilities", rule: "R6.13",
		file: "internal/isolation/restrict_linux.go", old: "	return p.Layers.Capabilities == ReducedSet && slices.Contains(kept, capability)\n", new: "	return p.Layers.Capabilities == ReducedSet || slices.Contains(kept, capability)\n",
		pkg: "./internal/isolation", run: "TestCapabilities",
	},
	{
		name: "isolation keeps CAP_NET_RAW", rule: "R6.13",
		file: "internal/isolation/restrict_linux.go", old: "	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE,", new: "	unix.CAP_NET_RAW, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE,",
		pkg: "./internal/isolation", run: "TestAttemptsFailAtLevelsThatStopThem$",
	},
	{
		name: "isolation denies no system calls", rule: "R6.13",
		file: "internal/isolation/seccomp_linux.go", old: "places[c.outcome], no)\n", new: "no, no)\n",
		pkg: "./internal/isolation", run: "TestSystemCallsAreDenied",
	},
	{
		name: "isolation finds system calls only in one half of the deny list", rule: "R6.13",
		file: "internal/isolation/seccomp_linux.go", old: "lower+searchLength(half), lower)", new: "lower, lower)",
		pkg: "./internal/isolation", run: "TestFilterFindsEachCallInFewSteps",
	},
	{
		name: "landlock lets write everywhere", rule: "R6.13",
		file: "internal/isolation/landlock_linux.go", old: "		r.rights = readFiles\n", new: "		r.rights = handledFiles\n",
		pkg: "./internal/isolation", run: "TestAttemptsFailAtLevelsThatStopThem$",
	},
	{
		name: "landlock allows directories that hold what is hidden",
		rule: "R6.13",
		file: "internal/isolation/landlock_linux.go",
		old:  "	case r.masked[of]:\n		return nil\n",
		new:  "",
		pkg:  "./internal/isolation",
		run:  "TestAttemptsWithoutMounts",
	},
	{
		name: "network that is off is on",
		rule: "R6.13",
		file: "internal/isolation/namespaces_linux.go",
		old:  "		flags |= unix.CLONE_NEWNET\n",
		new:  "		flags |= 0\n",
		pkg:  "./internal/isolation",
		run:  "TestAttemptsOffline",
	},
	{
		name: "isolation that is missing is given in part", rule: "R6.13",
		file: "internal/isolation/isolation.go", old: "	if reason := p.lacks(); reason != \"\" {\n		return nil, &Refused", new: "	if reason := p.lacks(); reason == \"never\" {\n		return nil, &Refused",
		pkg: "./internal/execution", run: "TestIsolationRefused",
	},
	{
		name: "unprivileged start leaves the server dumpable",
		rule: "R6.13, survivor",
		file: "internal/isolation/start_linux.go",
		old:  "		mapping.Lock() // the child changes whether our memory is dumpable\n		defer mapping.Unlock()\n",
		new:  "",
		pkg:  "./internal/isolation",
		run:  "TestUnprivileged",
	},
}
