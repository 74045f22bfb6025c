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
	return p.Layers.Signals == ByLandlock || p.bindsFiles() || p.bindsSockets()
}

// bindsSockets reports whether the command reaches no abstract Unix socket of others.
func (p *Plan) bindsSockets() bool {
	return p.Layers.Writable != "" && p.Given.Landlock >= landlockScopes
}

// bindsFiles reports whether Landlock rules say which files the command gets at.
func (p *Plan) bindsFiles() bool {
	return p.Layers.Writable == ByLandlock || p.Layers.Hidden == ByLandlock
}

// ruleset returns the descriptor of the child's Landlock ruleset. f is what the child reads, if that is restricted.
func (p *Plan) ruleset(f *forest) (fd int, err error) {
	attr := unix.LandlockRulesetAttr{}
	if p.Given.Landlock >= landlockScopes {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
	}
	if p.bindsFiles() {
		attr.Handled_access_fs = handledFiles
	}
	if p.bindsSockets() {
		attr.Scoped |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
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
	if p.bindsFiles() {
		if err = p.allowFiles(fd, f); err == nil && p.self {
			err = (&rules{ruleset: fd}).allowSelf()
		}
		if err != nil {
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

// allowFiles adds the rules for files. With the layer Readable the child reads its trees and writes to those that are
// writable; without it, it does both with all files that are not masked.
func (p *Plan) allowFiles(ruleset int, f *forest) error {
	r := &rules{ruleset: ruleset, rights: handledFiles}
	if p.Layers.Hidden != ByMounts {
		if err := r.findMasked(p.Masks, p.Given.Cgroups); err != nil {
			return err
		}
	}
	if f != nil {
		return errors.Join(r.allowForest(f), r.allowDevices(), r.checkMasked(p.Masks))
	}
	if err := r.allow("/", unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil {
		return err
	}
	if err := r.allowUnmasked(); err != nil {
		return err
	}
	for _, path := range p.Visible {
		if err := r.allow(path, readFiles); err != nil {
			return err
		}
	}
	return errors.Join(r.allowDevices(), r.checkMasked(p.Masks))
}

// allowForest adds the rules for trees.
func (r *rules) allowForest(f *forest) error {
	for _, t := range f.trees {
		if t.bare {
			continue
		}
		fd, st, err := openExactly(t.Path)
		if err == nil && (st.Dev != t.Dev || st.Ino != t.Ino) {
			err = errors.Join(unix.Close(fd), fs.ErrNotExist)
		}
		if err == nil && t.asked && r.isBelow(fd, &st, t.Path) {
			err = errors.Join(unix.Close(fd), fs.ErrPermission)
		}
		switch {
		case err != nil:
			return fmt.Errorf("isolation: %s is masked, or was moved while a command was started: %w", t.Path, err)
		case t.writable:
			err = errors.Join(r.addUnmasked(fd, &st, t.Path, handledFiles), unix.Close(fd))
		default:
			r.rights = readFiles | unix.LANDLOCK_ACCESS_FS_READ_DIR
			err = r.allowBelow(fd, &st, t.Path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isBelow reports whether what fd has open, which was found at path, lies below what is masked, or whether that is not
// known.
func (r *rules) isBelow(fd int, st *unix.Stat_t, path string) bool {
	if len(r.masked) == 0 {
		return false
	}
	dir, of := fd, *st
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		var err error
		if dir, of, err = openExactly(filepath.Dir(path)); err != nil {
			return true
		}
		defer unix.Close(dir)
		var now unix.Stat_t
		err = unix.Fstatat(dir, filepath.Base(path), &now, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil || !sameFile(&now, st) {
			return true
		}
	}
	above, err := upwards(dir, &of)
	return err != nil || slices.ContainsFunc(above, func(of file) bool { return r.masked[of] })
}

// allowDevices adds the rules for the devices that are open to every command.
func (r *rules) allowDevices() error {
	for _, path := range writableDevices {
		if err := r.allow(path, readFiles|writeFiles); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// allowSelf adds the rule for the file of this program.
func (r *rules) allowSelf() error {
	fd, err := selfFile()
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil {
		return err
	}
	return r.add(fd, &st, "/proc/self/exe", readFiles)
}

// rules adds rules to a Landlock ruleset. A rule is for a file or directory and all below it, and cannot have an
// exception. No rule is therefore made for what is masked, nor for a directory above it.
type rules struct {
	ruleset int
	// rights are those below every directory that contains nothing masked.
	rights uint64
	// masked are the masks, readOnly the directories below which nothing is written, and above those that contain one.
	masked, readOnly, above map[file]bool
}

// file is the device and the inode of a file or directory.
type file struct{ dev, ino uint64 }

func fileOf(st *unix.Stat_t) file { return file{st.Dev, st.Ino} }

// findMasked records the masks, and the mounts of cgroup file systems, which no command writes to.
func (r *rules) findMasked(masks []Mask, cgroups []string) error {
	r.masked, r.readOnly, r.above = map[file]bool{}, map[file]bool{}, map[file]bool{}
	record := func(in map[file]bool, m Mask) error {
		above, err := m.ancestors()
		if err != nil {
			return err
		}
		in[file{m.Dev, m.Ino}] = true
		for _, dir := range above {
			r.above[dir] = true
		}
		return nil
	}
	for _, m := range masks {
		if err := record(r.masked, m); err != nil {
			return err
		}
	}
	for _, path := range cgroups {
		m, err := maskAt(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue // what we do not get at, the command does not either
		}
		if err == nil {
			err = record(r.readOnly, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkMasked returns an error if what is masked has been moved since findMasked: a rule may have been made for a
// directory above it.
func (r *rules) checkMasked(masks []Mask) error {
	if r.masked == nil {
		return nil
	}
	for _, m := range masks {
		above, err := m.ancestors()
		if err != nil {
			return err
		}
		for _, dir := range above {
			if !r.above[dir] {
				return fmt.Errorf("isolation: %s was moved while a command was started", m.Path)
			}
		}
	}
	return nil
}

// ancestors are the directories above m, which must lie where its path says.
func (m *Mask) ancestors() (above []file, err error) {
	dir, st, err := openExactly(filepath.Dir(m.Path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(dir) }()
	var own unix.Stat_t
	if err := unix.Fstatat(dir, filepath.Base(m.Path), &own, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, &os.PathError{Op: "mask", Path: m.Path, Err: err}
	}
	if own.Dev != m.Dev || own.Ino != m.Ino {
		return nil, fmt.Errorf("isolation: %s was moved while a command was started", m.Path)
	}
	return upwards(dir, &st)
}

// upwards returns the directory that is open as dir, and those above it.
func upwards(dir int, st *unix.Stat_t) (list []file, err error) {
	dir, err = unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	for now := *st; err == nil; {
		list = append(list, fileOf(&now))
		var up int
		if up, err = unix.Openat(dir, "..", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0); err != nil {
			break
		}
		_ = unix.Close(dir)
		dir = up
		last := now
		if err = unix.Fstat(dir, &now); err == nil && sameFile(&last, &now) { // the root
			break
		}
	}
	_ = unix.Close(dir)
	return list, os.NewSyscallError("look above a directory", err)
}

// allowUnmasked adds rules for all that contains nothing masked. In a directory that does, the entries get rules one
// by one, and entries that are created later have none.
func (r *rules) allowUnmasked() error {
	fd, st, err := openExactly("/")
	if err != nil {
		return err
	}
	return r.allowBelow(fd, &st, "/")
}

// allowBelow is allowUnmasked for what fd has open, which it closes.
func (r *rules) allowBelow(fd int, st *unix.Stat_t, path string) error {
	defer unix.Close(fd)
	switch of := fileOf(st); {
	case r.masked[of]:
		return nil
	case r.readOnly[of]:
		return r.add(fd, st, path, readFiles)
	case !r.above[of]:
		return r.add(fd, st, path, r.rights)
	}
	names, err := namesIn(fd)
	if err != nil {
		return &os.PathError{Op: "landlock", Path: path, Err: err}
	}
	for _, name := range names {
		var st unix.Stat_t
		entry, err := unix.Openat(fd, name, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue // what we do not get at, the command does not either
		}
		if err == nil {
			err = unix.Fstat(entry, &st)
		}
		switch {
		case err != nil:
			return &os.PathError{Op: "landlock", Path: filepath.Join(path, name), Err: err}
		case st.Mode&unix.S_IFMT == unix.S_IFLNK:
			_ = unix.Close(entry) // its target counts
			continue
		}
		if err := r.allowBelow(entry, &st, filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// namesIn returns the names in a directory that is open as O_PATH.
func namesIn(fd int) ([]string, error) {
	readable, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(readable), ".")
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// allow adds a rule for what a path leads to. Whatever it was when the path was checked, it is neither masked nor
// above what is.
func (r *rules) allow(path string, rights uint64) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	fd, st, err := openExactly(real)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return r.addUnmasked(fd, &st, path, rights)
}

// addUnmasked adds a rule for what fd has open, which is neither masked nor above what is.
func (r *rules) addUnmasked(fd int, st *unix.Stat_t, path string, rights uint64) error {
	if of := fileOf(st); (r.masked[of] || r.above[of]) && rights&^unix.LANDLOCK_ACCESS_FS_READ_DIR != 0 {
		return fmt.Errorf("isolation: %s is masked, or contains what is masked", path)
	}
	return r.add(fd, st, path, rights)
}

// ofFiles are the rights that a rule on a file can have.
const ofFiles = readFiles | writeFiles

// add adds a rule.
func (r *rules) add(fd int, st *unix.Stat_t, path string, rights uint64) error {
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= ofFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return &os.PathError{Op: "landlock", Path: path, Err: errno}
	}
	return nil
}
