//go:build amd64 || arm64

package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlockVersion is the version of Landlock in the kernel; see landlock_create_ruleset(2).
func landlockVersion() int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(n)
}

const (
	readFiles  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	writeFiles = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// handledFiles is all that version 3 knows. How devices are driven, which version 5 adds, is not bound.
	handledFiles = readFiles | writeFiles | unix.LANDLOCK_ACCESS_FS_READ_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER
)

func (p *Plan) needsLandlock() bool {
	return p.Layers.Signals == ByLandlock || p.Layers.Writable == ByLandlock
}

// ruleset returns the descriptor of the child's Landlock ruleset. dir is its working directory.
func (p *Plan) ruleset(dir string) (fd int, err error) {
	attr := unix.LandlockRulesetAttr{}
	if p.Given.Landlock >= landlockScopes {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
	}
	if p.Layers.Writable == ByLandlock {
		attr.Handled_access_fs = handledFiles
		if p.Given.Landlock >= landlockScopes {
			attr.Scoped |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		}
	}
	size := unsafe.Offsetof(attr.Quiet_access_fs)
	if p.Given.Landlock < landlockScopes {
		size = unsafe.Offsetof(attr.Handled_access_net)
	}
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return 0, fmt.Errorf("isolation: landlock: %w", errno)
	}
	fd = int(n)
	if p.Layers.Writable == ByLandlock {
		if err = p.allowFiles(fd, dir); err != nil {
			_ = unix.Close(fd)
			return 0, err
		}
	}
	return fd, nil
}

// writableDevices are open to every command.
var writableDevices = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts",
}

// allowFiles adds the rules for files: the child may read all files that are not hidden, and write below the writable
// roots.
func (p *Plan) allowFiles(ruleset int, dir string) error {
	if err := allow(ruleset, "/", unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil {
		return err
	}
	var hidden []string
	if p.Layers.Hidden != ByMounts {
		hidden = hiddenRoots(p.Access.Hidden)
	}
	if err := allowReading(ruleset, "/", hidden); err != nil {
		return err
	}
	for _, path := range p.Visible {
		if err := allow(ruleset, path, readFiles); err != nil {
			return err
		}
	}
	for _, path := range writableDevices {
		if err := allow(ruleset, path, readFiles|writeFiles); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, path := range slices.Concat(p.Access.Writable, []string{dir, p.Temporary, "/dev/shm"}) {
		if slices.ContainsFunc(hidden, func(h string) bool { return within(h, path) }) {
			return fmt.Errorf("isolation: %s is writable and contains a hidden path", path)
		}
		if err := allow(ruleset, path, handledFiles); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// allowReading permits reading the files below dir that are not hidden. Landlock cannot exclude a path below a
// permitted directory. In a directory that contains a hidden path, the entries are therefore permitted one by one, and
// entries that are created later are not readable.
func allowReading(ruleset int, dir string, hidden []string) error {
	if !slices.ContainsFunc(hidden, func(h string) bool { return within(h, dir) }) {
		err := allow(ruleset, dir, readFiles)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil // what we do not get at, the command does not either
		}
		return err
	}
	if slices.Contains(hidden, dir) {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("isolation: landlock: %w", err)
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			continue // its target counts
		}
		if err := allowReading(ruleset, filepath.Join(dir, e.Name()), hidden); err != nil {
			return err
		}
	}
	return nil
}

// ofFiles are the rights that a rule on a file can have.
const ofFiles = readFiles | writeFiles

// allow adds a rule for path and all below it.
func allow(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "landlock", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= ofFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return &os.PathError{Op: "landlock", Path: path, Err: errno}
	}
	return nil
}
