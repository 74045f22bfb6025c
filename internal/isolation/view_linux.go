//go:build amd64 || arm64

package isolation

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// viewAt is where the view is put together. What lies there has been cloned by then.
const viewAt = "/usr"

// view gives the child a file tree of its own, in which there is nothing but the trees of f, and empty directories that
// end with the last process of the command. Each tree is opened without following a link and compared with what was
// looked up, so that nothing can take its place.
func (p *program) view(f *forest) {
	planted := f.planted()
	if f.processes {
		planted = slices.DeleteFunc(planted, func(t tree) bool { return t.Path != "/proc" && within(t.Path, "/proc") })
	}
	clones := make([]uintptr, len(planted))
	attr := address(p, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	size := unsafe.Sizeof(unix.MountAttr{})
	for i, t := range planted {
		step := "view " + t.Path
		if f.makes(t) {
			continue
		}
		p.hold(step, t.Mask)
		clones[i] = p.register()
		flags := uintptr(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH | unix.AT_RECURSIVE)
		p.add(step, unix.SYS_OPEN_TREE, uintptr(p.place), p.text(""), flags).save = clones[i]
		if t.writable || t.Path == "/proc" || t.Path == "/dev" {
			continue
		}
		p.add(step, unix.SYS_MOUNT_SETATTR, 0, p.text(""), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr, size).
			use = clones[i]
	}
	mask := p.register()
	p.add("view", unix.SYS_UMASK, 0).save = mask
	p.add("view", unix.SYS_MOUNT, p.text("tmpfs"), p.text(viewAt), p.text("tmpfs"),
		unix.MS_NOSUID|unix.MS_NODEV, p.inMemory(f, "0755"))
	p.add("view", unix.SYS_CHDIR, p.text(viewAt))
	for i, t := range planted {
		step, at := "view "+t.Path, p.relative(t.Path)
		p.makeParents(step, t.Path)
		if t.Dir {
			p.add(step, unix.SYS_MKDIRAT, atFDCWD, at, 0o755).tolerated = uintptr(unix.EEXIST)
		} else {
			p.add(step, unix.SYS_MKNODAT, atFDCWD, at, unix.S_IFREG|0o644).tolerated = uintptr(unix.EEXIST)
		}
		switch {
		case !f.makes(t):
			p.add(step, unix.SYS_MOVE_MOUNT, 0, p.text(""), atFDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH).use = clones[i]
			p.add(step, unix.SYS_CLOSE).use = clones[i]
		case t.bare:
			p.devices(f)
		}
		if t.bare {
			p.add("view "+sharedMemory, unix.SYS_MOUNT, p.text("tmpfs"), p.relative(sharedMemory), p.text("tmpfs"),
				unix.MS_NOSUID|unix.MS_NODEV, p.inMemory(f, "1777")).tolerated = uintptr(unix.ENOENT)
		}
	}
	for _, l := range f.links {
		if !f.holds(filepath.Dir(l.path)) {
			p.makeParents("view "+l.path, l.path)
			p.add("view "+l.path, unix.SYS_SYMLINKAT, p.text(l.target), atFDCWD, p.relative(l.path)).
				tolerated = uintptr(unix.EEXIST)
		}
	}
	p.makeOwn(f)
	if f.processes { // no rules of Landlock bind writing
		for _, path := range f.own {
			p.add("view "+path, unix.SYS_MOUNT, p.relative(path), p.relative(path), 0, unix.MS_BIND|unix.MS_REC, 0)
		}
		p.add("view /dev", unix.SYS_MOUNT_SETATTR, atFDCWD, p.relative("/dev"), 0, attr, size)
		p.add("view", unix.SYS_MOUNT_SETATTR, atFDCWD, p.relative("/"), 0, attr, size)
	}
	p.add("view", unix.SYS_UMASK).use = mask
}

// enterView makes the view the root directory of the child, and of all processes that share the mount namespace.
func (p *program) enterView() {
	p.add("view", unix.SYS_PIVOT_ROOT, p.text("."), p.text(".")) // the old root is then above the new one
	p.add("view", unix.SYS_UMOUNT2, p.text("."), unix.MNT_DETACH)
	p.add("view", unix.SYS_CHDIR, p.text("/"))
}

// inMemory is an argument: the options of a file system in memory.
func (p *program) inMemory(f *forest, mode string) uintptr {
	options := "mode=" + mode
	if f.temporary > 0 {
		options += ",size=" + strconv.FormatInt(f.temporary, 10)
	}
	return p.text(options)
}

// makeOwn makes the directories that a command has for itself, which everybody may write to.
func (p *program) makeOwn(f *forest) {
	for _, path := range f.own {
		step := "view " + path
		p.makeParents(step, path)
		p.add(step, unix.SYS_MKDIRAT, atFDCWD, p.relative(path), 0o755).tolerated = uintptr(unix.EEXIST)
		p.add(step, unix.SYS_FCHMODAT, atFDCWD, p.relative(path), 0o1777)
	}
}

// sharedMemory is where shm_open(3) puts files.
const sharedMemory = "/dev/shm"

// relative is an absolute path in the view as an argument.
func (p *program) relative(path string) uintptr { return p.text("." + path) }

// makeParents makes the directories above path in the view.
func (p *program) makeParents(step, path string) {
	dir := ""
	for name := range strings.SplitSeq(strings.TrimPrefix(filepath.Dir(path), "/"), "/") {
		if dir += "/" + name; name != "" {
			p.add(step, unix.SYS_MKDIRAT, atFDCWD, p.relative(dir), 0o755).tolerated = uintptr(unix.EEXIST)
		}
	}
}

// beneath is struct landlock_path_beneath_attr with room for a whole register.
type beneath struct {
	rights uint64
	fd     uintptr
}

// allowView adds the rules for the directories that only the view has. The child adds them, since it has made them.
func (p *program) allowView(ruleset int, f *forest) {
	allow := func(path string, rights uint64) {
		rule := &beneath{rights: rights}
		address(p, rule)
		at := uintptr(unsafe.Pointer(&rule.fd))
		c := p.add("landlock "+path, unix.SYS_OPENAT, atFDCWD, p.text(path), unix.O_PATH|unix.O_CLOEXEC)
		c.save = at
		p.add("landlock "+path, unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
			uintptr(unsafe.Pointer(rule)), 0)
		p.add("landlock "+path, unix.SYS_CLOSE).use = at
	}
	allow("/", unix.LANDLOCK_ACCESS_FS_READ_DIR)
	for _, path := range f.own {
		allow(path, handledFiles)
	}
	if _, err := os.Stat(sharedMemory); err == nil {
		allow(sharedMemory, handledFiles)
	}
}
