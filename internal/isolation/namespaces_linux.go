//go:build amd64 || arm64

package isolation

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// namespaces adds the namespaces that the layers need. Without privileges they belong to a new user namespace, in which
// the child keeps its user and group ids; all other ids appear as "nobody" there.
func (p *program) namespaces(pl *Plan) {
	flags := uintptr(0)
	if pl.Layers.Hidden == ByMounts {
		flags |= unix.CLONE_NEWNS
	}
	if pl.Layers.Readable == ByMounts {
		flags |= unix.CLONE_NEWIPC
	}
	if pl.Layers.Signals == ByPIDNamespace {
		flags |= unix.CLONE_NEWPID | unix.CLONE_NEWUTS
	}
	if pl.Layers.Network == Off {
		flags |= unix.CLONE_NEWNET
	}
	if flags == 0 {
		return
	}
	if !pl.Given.UserNamespace {
		p.add("namespaces", unix.SYS_UNSHARE, flags)
		return
	}
	p.add("user namespace", unix.SYS_UNSHARE, flags|unix.CLONE_NEWUSER)
	// While our memory is undumpable, the files of the child belong to root.
	p.add("user namespace", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1)
	p.write("user namespace", "/proc/self/setgroups", "deny")
	p.write("user namespace", "/proc/self/uid_map", fmt.Sprintf("%d %[1]d 1", os.Geteuid()))
	p.write("user namespace", "/proc/self/gid_map", fmt.Sprintf("%d %[1]d 1", os.Getegid()))
	if !isDumpable() {
		p.add("user namespace", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	}
}

// maskFlags are the flags of a mount over a hidden path.
const maskFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// mounts hides the hidden paths of the plan. Later mounts outside appear inside, but not the other way round.
func (p *program) mounts(pl *Plan) {
	if pl.Layers.Hidden != ByMounts {
		return
	}
	p.add("mounts", unix.SYS_MOUNT, 0, p.text("/"), 0, unix.MS_REC|unix.MS_SLAVE, 0)
	for _, m := range outermost(pl.Masks) {
		p.hide(m, pl.Visible)
	}
	if pl.Given.UserNamespace {
		p.coverSSHConfig()
	}
	if pl.Layers.Signals == ByPIDNamespace {
		return // it has its own devices and processes, and a view in which all else cannot be written to
	}
	for _, path := range pl.Given.Disks {
		p.bind("hide disks", "/dev/null", path).tolerated = uintptr(unix.ENOENT)
	}
	for _, path := range pl.Given.Cgroups {
		attr := address(p, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		p.add("cgroups", unix.SYS_MOUNT_SETATTR, atFDCWD, p.text(path), 0, attr, unsafe.Sizeof(unix.MountAttr{})).
			tolerated = uintptr(unix.EINVAL) // it is no longer mounted
	}
	if pl.isRoot() {
		for _, path := range pl.Given.Settings {
			p.protect(path)
		}
	}
}

// protect makes path and all mounts below it read-only.
func (p *program) protect(path string) {
	step := "protect " + path
	if !beginsFileSystem(path) {
		p.add(step, unix.SYS_MOUNT, p.text(path), p.text(path), 0, unix.MS_BIND|unix.MS_REC, 0).
			tolerated = uintptr(unix.ENOENT)
	}
	attr := address(p, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	size := unsafe.Sizeof(unix.MountAttr{})
	p.add(step, unix.SYS_MOUNT_SETATTR, atFDCWD, p.text(path), unix.AT_RECURSIVE, attr, size).
		tolerated = uintptr(unix.ENOENT)
}

// beginsFileSystem reports whether path is certainly a mount point.
func beginsFileSystem(path string) bool {
	var st, parent unix.Stat_t
	return unix.Stat(path, &st) == nil && unix.Stat(filepath.Dir(path), &parent) == nil && st.Dev != parent.Dev
}

// sshConfig contains files of root that ssh(1) refuses if root appears as nobody.
const sshConfig = "/etc/ssh/ssh_config.d"

func (p *program) coverSSHConfig() {
	if entries, err := os.ReadDir(sshConfig); err == nil && len(entries) > 0 {
		p.tmpfs("hide "+sshConfig, sshConfig, unix.MS_RDONLY)
	}
}

// tmpfs mounts an empty directory at a path, which stands for what step names.
func (p *program) tmpfs(step, path string, flags uintptr) {
	p.add(step, unix.SYS_MOUNT, p.text("tmpfs"), p.text(path), p.text("tmpfs"), maskFlags|flags,
		p.text("size=64k,nr_inodes=64,mode=0755"))
}

// bind mounts the file from over the file to.
func (p *program) bind(step, from, to string) *call {
	return p.add(step, unix.SYS_MOUNT, p.text(from), p.text(to), 0, unix.MS_BIND, 0)
}

// hide mounts an empty file or directory over what m masks, and keeps the visible paths below it. The start fails if
// something else is at the path: whoever moves what is masked must not get a command that reads it.
func (p *program) hide(m Mask, visible []string) {
	step := "hide " + m.Path
	place := p.hold(step, m)
	if !m.Dir {
		p.bind(step, "/dev/null", place)
		return
	}
	visible = slices.DeleteFunc(slices.Clone(visible), func(v string) bool { return !within(v, m.Path) })
	if len(visible) == 0 {
		p.tmpfs(step, place, unix.MS_RDONLY)
		return
	}
	trees := make([]uintptr, len(visible))
	for i, v := range visible {
		trees[i] = p.register()
		c := p.add("show "+v, unix.SYS_OPEN_TREE, atFDCWD, p.text(v), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		c.save = trees[i]
	}
	p.tmpfs(step, place, 0)
	for i, v := range visible {
		p.makeDirs(m.Path, v)
		c := p.add("show "+v, unix.SYS_MOVE_MOUNT, 0, p.text(""), atFDCWD, p.text(v), unix.MOVE_MOUNT_F_EMPTY_PATH)
		c.use = trees[i]
	}
	p.add(step, unix.SYS_MOUNT, 0, p.text(m.Path), 0, maskFlags|unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, 0)
}

// hold opens what m masks in the child, compares device and inode, and returns a path that leads to it until the next
// call.
func (p *program) hold(step string, m Mask) (place string) {
	if p.place == 0 {
		// The number is one of ours, so that no other descriptor of the child has it.
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			p.fail(step)
			return "/"
		}
		p.fds, p.place = append(p.fds, fd), fd
	}
	opened, st := p.open(step, "/", exactly), new(unix.Stat_t)
	names, flags := steps(m.Path)
	for i, name := range names {
		above := opened
		opened = p.register()
		c := p.add(step, unix.SYS_OPENAT, 0, p.text(name), uintptr(flags[i]))
		c.use, c.save = above, opened
		p.add(step, unix.SYS_CLOSE).use = above
	}
	p.add(step, unix.SYS_DUP3, 0, uintptr(p.place), unix.O_CLOEXEC).use = opened
	p.add(step, unix.SYS_CLOSE).use = opened
	p.add(step, unix.SYS_FSTAT, uintptr(p.place), address(p, st))
	p.compare(step, &st.Dev, m.Dev)
	p.compare(step, &st.Ino, m.Ino)
	return fmt.Sprintf("/proc/self/fd/%d", p.place)
}

// compare ends the child unless *v, which an earlier call has written, is want. A futex is the comparison that the
// kernel makes: waiting with no time fails in one way if the word has the value, and in another one if it has not.
func (p *program) compare(step string, v *uint64, want uint64) {
	words := (*[2]uint32)(unsafe.Pointer(v))
	now := address(p, &unix.Timespec{})
	for i, word := range [2]uint32{uint32(want), uint32(want >> 32)} { // amd64 and arm64 are little-endian
		c := p.add(step, unix.SYS_FUTEX, uintptr(unsafe.Pointer(&words[i])), futexWaitPrivate, uintptr(word), now)
		c.tolerated, c.expect = uintptr(unix.ETIMEDOUT), ^uintptr(0)
	}
}

// futexWaitPrivate is FUTEX_WAIT|FUTEX_PRIVATE_FLAG; see futex(2).
const futexWaitPrivate = 128

// makeDirs makes the directories from below root down to path.
func (p *program) makeDirs(root, path string) {
	relative, _ := filepath.Rel(root, path)
	dir := root
	for name := range strings.SplitSeq(relative, "/") {
		dir = filepath.Join(dir, name)
		p.add("show "+path, unix.SYS_MKDIRAT, atFDCWD, p.text(dir), 0o755).tolerated = uintptr(unix.EEXIST)
	}
}

// ifreq is struct ifreq of netdevice(7) with flags.
type ifreq struct {
	name  [16]byte
	flags uint16
	_     [22]byte
}

// loopback sets up the loopback interface of a new network namespace.
func (p *program) loopback() {
	socket := p.register()
	p.add("loopback", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0).save = socket
	up := &ifreq{flags: unix.IFF_UP | unix.IFF_RUNNING}
	copy(up.name[:], "lo")
	p.add("loopback", unix.SYS_IOCTL, 0, unix.SIOCSIFFLAGS, address(p, up)).use = socket
	p.add("loopback", unix.SYS_CLOSE).use = socket
}
