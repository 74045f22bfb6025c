//go:build amd64 || arm64

package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Masks are the files and directories of the server that no command reaches. They are held open while the Masks are in
// use, so that each stays masked wherever it is moved. Masks are safe for concurrent use.
type Masks struct {
	paths []string

	mu   sync.Mutex
	held []held
}

// held is a masked file or directory.
type held struct {
	file *os.File // opened with O_PATH
	st   unix.Stat_t
	path string // the path of Masks that led to it
}

// maxMoved bounds how many files or directories one path can have led to that all exist.
const maxMoved = 16

// OpenMasks holds what exists at the paths. A path where nothing exists is looked at again for each command.
func OpenMasks(paths ...string) (*Masks, error) {
	m := &Masks{}
	for _, path := range paths {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		m.paths = append(m.paths, abs)
	}
	if _, err := m.Current(); err != nil {
		return nil, err
	}
	return m, nil
}

// Paths returns the paths as they were given, made absolute.
func (m *Masks) Paths() []string {
	if m == nil {
		return nil
	}
	return slices.Clone(m.paths)
}

// Current returns everything that is held and not removed, by the path that it has now. Files that have come to a path
// in the meantime are held from now on.
func (m *Masks) Current() ([]Mask, error) {
	if m == nil {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = slices.DeleteFunc(m.held, func(h held) bool {
		removed := h.removed()
		if removed {
			_ = h.file.Close()
		}
		return removed
	})
	for _, path := range m.paths {
		if err := m.hold(path); err != nil {
			return nil, err
		}
	}
	masks := make([]Mask, 0, len(m.held))
	for _, h := range m.held {
		mask, err := h.mask()
		if err != nil {
			return nil, err
		}
		masks = append(masks, mask)
	}
	return masks, nil
}

// hold holds what is at a path, unless it is held already.
func (m *Masks) hold(path string) error {
	var st unix.Stat_t
	switch err := unix.Stat(path, &st); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOTDIR):
		return nil // nothing is there, or the commands of this user do not get there either
	case err != nil:
		return &os.PathError{Op: "mask", Path: path, Err: err}
	}
	led := 0
	for _, h := range m.held {
		if sameFile(&h.st, &st) {
			return nil
		}
		if h.path == path {
			led++
		}
	}
	if led >= maxMoved {
		return fmt.Errorf("isolation: %s was replaced %d times, and all that it was exists", path, led)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "mask", Path: path, Err: err}
	}
	h := held{file: os.NewFile(uintptr(fd), path), path: path}
	if err := unix.Fstat(fd, &h.st); err != nil {
		return &os.PathError{Op: "mask", Path: path, Err: errors.Join(err, h.file.Close())}
	}
	m.held = append(m.held, h)
	return nil
}

func sameFile(a, b *unix.Stat_t) bool { return a.Dev == b.Dev && a.Ino == b.Ino }

// now returns the path that h has now. The kernel adds " (deleted)" to a path that was removed.
func (h *held) now() (string, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", h.file.Fd()))
	if err != nil {
		return "", fmt.Errorf("isolation: mask: %w", err)
	}
	return path, nil
}

// removed reports whether h has no path any more.
func (h *held) removed() bool {
	path, err := h.now()
	if err != nil || !strings.HasSuffix(path, " (deleted)") {
		return false
	}
	var st unix.Stat_t
	return unix.Lstat(path, &st) != nil || !sameFile(&h.st, &st)
}

// mask describes h where it lies now.
func (h *held) mask() (Mask, error) {
	path, err := h.now()
	if err != nil {
		return Mask{}, err
	}
	if !strings.HasPrefix(path, "/") {
		return Mask{}, fmt.Errorf("isolation: %s has no path of this mount namespace any more", h.path)
	}
	return maskOf(path, &h.st), nil
}

func maskOf(path string, st *unix.Stat_t) Mask {
	return Mask{Path: path, Dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, Dev: st.Dev, Ino: st.Ino}
}

// maskAt returns the mask of what a path leads to now.
func maskAt(path string) (Mask, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Mask{}, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return Mask{}, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return maskOf(path, &st), nil
}

// steps are the names and the flags with which a path is opened, one name after the other from / on, so that no link is
// followed. openat2 does it in one call, but RestrictSUIDSGID= of systemd leaves no openat2.
func steps(path string) (names []string, flags []int) {
	names = strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	flags = slices.Repeat([]int{exactly | unix.O_DIRECTORY}, len(names)) // a symbolic link is no directory
	if len(names) > 0 {
		flags[len(names)-1] = exactly
	}
	return names, flags
}

const exactly = unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW

// openExactly opens path, which is absolute and clean and has no symbolic links, as O_PATH.
func openExactly(path string) (fd int, st unix.Stat_t, err error) {
	fd, err = unix.Open("/", exactly, 0)
	names, flags := steps(path)
	for i := 0; i < len(names) && err == nil; i++ {
		above := fd
		fd, err = unix.Openat(above, names[i], flags[i], 0)
		_ = unix.Close(above)
	}
	if err != nil {
		return -1, st, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, st, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, st, nil
}
