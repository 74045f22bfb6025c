package isolation

import (
	"errors"
	"sync"
)

// Given are the properties of a machine that a start needs.
type Given struct {
	// Root reports whether we are root, which is what commands are too unless they run as another user.
	Root bool `json:"root,omitempty"`
	// Landlock is the version of Landlock, or 0 without Landlock.
	Landlock int `json:"landlock,omitempty"`
	// UserNamespace: other namespaces are had in a user namespace alone.
	UserNamespace bool `json:"user_namespace,omitempty"`
	// Cgroups are the mounts of cgroup file systems, Disks the devices that hold file systems, as root reads them.
	Cgroups []string `json:"cgroups,omitempty"`
	Disks   []string `json:"disks,omitempty"`
	// Settings are the mounts, files and directories in which root changes the kernel without a capability.
	Settings []string `json:"settings,omitempty"`
	// OpenFiles is the limit on open files that commands have without our settings, or 0 if it is unknown.
	OpenFiles uint64 `json:"open_files,omitempty"`
}

// Machine describes the support of a machine for isolation. An error is the reason why a feature is not available; nil
// means that it was tried and works.
type Machine struct {
	Given
	// Start is why a command cannot be started with any layer.
	Start error
	// Mounts is the reason why mount namespaces are not available.
	Mounts error
	// Views is the reason why a command cannot have a file tree of its own, which takes Mounts.
	Views error
	// Processes is the reason why a command cannot have a process table of its own, which takes Views.
	Processes error
	// Network is the reason why network namespaces are not available.
	Network error
	// SystemCalls is why system calls cannot be filtered.
	SystemCalls error
	// Capabilities is the reason why capabilities cannot be dropped permanently.
	Capabilities error
	// SwitchUser is why commands cannot run as another user.
	SwitchUser error
}

// Probe tries what this machine gives, once in the life of the process.
func Probe() *Machine { return probed() }

var probed = sync.OnceValue(probe)

// lacksViews is why a command cannot have a file tree of its own.
func (m *Machine) lacksViews() error {
	if m.Mounts != nil {
		return m.Mounts
	}
	return m.Views
}

// errNotLinux is why nothing is isolated elsewhere.
var errNotLinux = errors.New("needs Linux on amd64 or arm64")

// LacksProcesses is why a command cannot have a process table of its own.
func (m *Machine) LacksProcesses() error {
	if err := m.lacksViews(); err != nil {
		return err
	}
	return m.Processes
}
