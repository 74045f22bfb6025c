package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"reprise/internal/execution"
)

// checkCgroups tries whether commands can have cgroups of their own.
func checkCgroups() Finding {
	const name = "cgroup v2"
	if err := execution.ProbeCgroups(); err != nil {
		return warn(name,
			"Delegate a cgroup to the server (systemd: Delegate=yes). Without one a process tree is found in /proc, and one that hides well survives.", "%v", err)
	}
	return ok(name, "writable: commands are killed with all their processes")
}

// checkLandlock asks the kernel for the version of Landlock.
func checkLandlock() Finding {
	const name = "landlock"
	abi, err := landlockVersion()
	if err != nil {
		return warn(name, "Only the isolation level landlock would need it, which is not built in yet.", "%v", err)
	}
	return ok(name, "version %d", abi)
}

// checkNamespaces starts a process in a user namespace.
func checkNamespaces(ctx context.Context) Finding {
	const name = "user namespaces"
	cmd := exec.CommandContext(ctx, "unshare", "--user", "true")
	if out, err := cmd.CombinedOutput(); err != nil {
		return warn(name, "Only the isolation level bubblewrap would need them, which is not built in yet.",
			"%v", strings.TrimSpace(fmt.Sprintf("%v %s", err, out)))
	}
	return ok(name, "can be made")
}

// checkBubblewrap looks for the program.
func checkBubblewrap() Finding {
	const name = "bubblewrap"
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return warn(name, "Only the isolation level bubblewrap would need it, which is not built in yet.",
			"bwrap is not in PATH")
	}
	return ok(name, "%s", path)
}

// checkInterpreters looks for what runs code.
func checkInterpreters() Finding {
	const name = "interpreters"
	var found, missing []string
	for _, language := range execution.Languages() {
		if _, err := execution.Interpreter(language); err != nil {
			missing = append(missing, language)
			continue
		}
		found = append(found, language)
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
