package isolation

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
)

// Machine is what a machine gives to isolate commands with. An error says why it does not give something; nil
// means that it was tried and works.
type Machine struct {
	// Start is why a command cannot be started with any layer.
	Start error
	// Root reports whether we are root, which is what commands are too unless they run as another user.
	Root bool
	// Landlock is the version of Landlock, 0 where there is none.
	Landlock int
	// Mounts is why there is no mount namespace, with UserNamespace false where it needs no user namespace.
	Mounts        error
	UserNamespace bool
	// Network is why there is no network namespace.
	Network error
	// SystemCalls is why system calls cannot be filtered.
	SystemCalls error
	// Capabilities is why they cannot be dropped for good.
	Capabilities error
	// SwitchUser is why commands cannot run as another user.
	SwitchUser error
	// Cgroups are the mounts of cgroup file systems, Disks the devices that hold file systems, as root reads them.
	Cgroups, Disks []string
	// NoBubblewrap is why bubblewrap is not tried. Default: it is.
	NoBubblewrap error

	openFiles uint64
}

// Probe tries what this machine gives, once in the life of the process.
func Probe() *Machine { return probed() }

var probed = sync.OnceValue(probe)

// errNotLinux is why nothing is isolated elsewhere.
var errNotLinux = errors.New("commands are isolated on Linux for amd64 and arm64 alone")

// Bubblewrap returns the path of a bwrap that works, or why there is none.
func (m *Machine) Bubblewrap() (path string, err error) {
	if m.NoBubblewrap != nil {
		return "", m.NoBubblewrap
	}
	return bubblewrap()
}

// bubblewrap tries the bwrap in our PATH, once in the life of the process.
var bubblewrap = sync.OnceValues(func() (string, error) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return "", errors.New("bwrap is not in PATH")
	}
	if err := tryBubblewrap(path); err != nil {
		return "", fmt.Errorf("%s does not work here: %w", path, err)
	}
	return path, nil
})
