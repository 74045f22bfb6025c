//go:build amd64 || arm64

package isolation

import (
	"slices"

	"golang.org/x/sys/unix"
)

// restrict takes privileges from the child, in the order in which that is still possible.
func (p *program) restrict(pl *Plan, f *forest) error {
	drops := pl.Layers.Capabilities != ""
	if drops {
		p.dropBounding(pl)
	}
	if pl.User != nil {
		p.switchUser(pl.User)
	}
	if drops {
		p.dropCapabilities(pl)
	}
	if pl.Layers.NoNewPrivileges {
		p.add("no new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	}
	if pl.needsLandlock() {
		ruleset, err := pl.ruleset(f)
		if err != nil {
			return err
		}
		p.fds = append(p.fds, ruleset)
		if pl.bindsFiles() && pl.Layers.Readable == ByMounts {
			p.allowView(ruleset, f)
		}
		p.add("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0)
	}
	if pl.Layers.SystemCalls != "" {
		p.filterCalls()
	}
	return nil
}

// kept are the capabilities that installing software as root needs. NET_RAW is excluded because it reads other traffic
// on loopback, MKNOD because a device gives access to the disk below all files, and DAC_READ_SEARCH because
// open_by_handle_at(2) bypasses mounts.
var kept = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_SETFCAP, unix.CAP_AUDIT_WRITE,
}

func (p *Plan) keeps(capability uintptr) bool {
	return p.Layers.Capabilities == ReducedSet && slices.Contains(kept, capability)
}

// dropBounding drops capabilities from the bounding set, where we may. Without CAP_SETPCAP no program gives any to a
// process with no_new_privs that is not root.
func (p *program) dropBounding(pl *Plan) {
	if !hasCapability(unix.CAP_SETPCAP) && !(pl.Given.UserNamespace && pl.Layers.Hidden == ByMounts) {
		return
	}
	for c := range uintptr(64) {
		if !pl.keeps(c) {
			p.add("bounding set", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c).tolerated = uintptr(unix.EINVAL)
		}
	}
}

func (p *program) switchUser(u *User) {
	groups := []uint32{uint32(u.GID)}
	for _, g := range u.Groups {
		groups = append(groups, uint32(g))
	}
	p.add("user", unix.SYS_SETGROUPS, uintptr(len(groups)), address(p, &groups[0]))
	p.add("user", unix.SYS_SETRESGID, uintptr(u.GID), uintptr(u.GID), uintptr(u.GID))
	p.add("user", unix.SYS_SETRESUID, uintptr(u.UID), uintptr(u.UID), uintptr(u.UID))
}

// dropCapabilities drops those that the process has and does not keep.
func (p *program) dropCapabilities(pl *Plan) {
	p.add("capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	ours := capabilities()
	for _, c := range kept {
		if pl.keeps(c) && ours&(1<<c) != 0 {
			sets[c/32].Permitted |= 1 << (c % 32)
			sets[c/32].Effective |= 1 << (c % 32)
		}
	}
	p.add("capabilities", unix.SYS_CAPSET, address(p, header), address(p, &sets))
}

// hasCapability reports whether we have a capability ourselves.
func hasCapability(c uintptr) bool { return capabilities()&(1<<c) != 0 }

// capabilities is the set of our effective capabilities.
func capabilities() uint64 {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if unix.Capget(&header, &sets[0]) != nil {
		return 0
	}
	return uint64(sets[1].Effective)<<32 | uint64(sets[0].Effective)
}
