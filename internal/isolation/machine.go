package isolation

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
)

// Given is what was found on a machine that a start needs to know.
type Given struct {
	// Root reports whether we are root, which is what commands are too unless they run as another user.
	Root bool `json:"root,omitempty"`
	// Landlock is the version of Landlock, 0 where there is none.
	Landlock int `json:"landlock,omitempty"`
	// UserNamespace: other namespaces are had in a user namespace alone.
	UserNamespace bool `json:"user_namespace,omitempty"`
	// Cgroups are the mounts of cgroup file systems, Disks the devices that hold file systems, as root reads them.
	Cgroups []string `json:"cgroups,omitempty"`
	Disks   []string `json:"disks,omitempty"`
	// OpenFiles is the bound on open files that commands have without us, 0 where it is not known.
	OpenFiles uint64 `json:"open_files,omitempty"`
	// Bubblewrap is the path of bwrap, in plans of that level alone.
	Bubblewrap string `json:"bubblewrap,omitempty"`
}

// Machine is what a machine gives to isolate commands with. An error says why it does not give something; nil
// means that it was tried and works.
type Machine struct {
	Given
	// Start is why a command cannot be started with any layer.
	Start error
	// Mounts is why there is no mount namespace.
	Mounts error
	// Network is why there is no network namespace.
	Network error
	// SystemCalls is why system calls cannot be filtered.
	SystemCalls error
	// Capabilities is why they cannot be dropped for good.
	Capabilities error
	// SwitchUser is why commands cannot run as another user.
	SwitchUser error
	// NoBubblewrap is why bubblewrap is not tried. Default: it is.
	NoBubblewrap error
}

// Probe tries what this machine gives, once in the life of the process.
func Probe() *Machine { return probed() }

var probed = sync.OnceValue(probe)

// errNotLinux is why nothing is isolated elsewhere.
var errNotLinux = errors.New("needs Linux on amd64 or arm64")

// FindBubblewrap returns the path of a bwrap that works, or why there is none.
func (m *Machine) FindBubblewrap() (path string, err error) {
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
