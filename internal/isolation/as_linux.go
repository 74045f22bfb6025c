//go:build amd64 || arm64

package isolation

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// As calls f with the rights of u to files, so that f finds no more than a command of u does. For a nil u, f has the
// credentials of the process. f must look at files only, and start no goroutine.
func (u *User) As(f func() error) error {
	if u == nil {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine, and its rights with it
		err := u.become()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// become gives the thread the rights of u to files. The kernel then takes the capabilities away that concern files.
func (u *User) become() error {
	groups := make([]uint32, 0, len(u.Groups)+1)
	for _, g := range append(u.Groups[:len(u.Groups):len(u.Groups)], u.GID) {
		groups = append(groups, uint32(g))
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)),
		uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
		return fmt.Errorf("isolation: the groups of %s: %w", u.Name, errno)
	}
	_, _ = unix.SetfsgidRetGid(u.GID)
	_, _ = unix.SetfsuidRetUid(u.UID)
	if uid, err := unix.SetfsuidRetUid(-1); err != nil || uid != u.UID {
		return fmt.Errorf("isolation: the rights of %s to files: %w", u.Name, unix.EPERM)
	}
	return nil
}

// reads reports whether the user may read, write or enter path, whose symbolic links are resolved.
func (u *User) reads(path string) bool { return u.reaches(path) && u.rights(path) != 0 }

// writes reports whether the user, or ours if u is nil, may rename what is in a directory.
func (u *User) writes(dir string) bool {
	if u == nil || u.UID == 0 {
		return unix.Access(dir, unix.W_OK|unix.X_OK) == nil
	}
	const change = unix.S_IWOTH | unix.S_IXOTH
	var st unix.Stat_t
	if !u.reaches(dir) || u.rights(dir)&change != change || unix.Stat(dir, &st) != nil {
		return false
	}
	return st.Mode&unix.S_ISVTX == 0 || int(st.Uid) == u.UID // entries of others stay in a sticky directory
}

// rights are the three bits of the mode of path that hold for the user, none if there is nothing.
func (u *User) rights(path string) uint32 {
	var st unix.Stat_t
	switch {
	case unix.Stat(path, &st) != nil:
		return 0
	case int(st.Uid) == u.UID:
		return st.Mode >> 6 & 7
	case int(st.Gid) == u.GID || slices.Contains(u.Groups, int(st.Gid)):
		return st.Mode >> 3 & 7
	}
	return st.Mode & 7
}

// reaches reports whether the user may enter all directories on the way to path.
func (u *User) reaches(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if u.rights(dir)&unix.S_IXOTH == 0 {
			return false
		}
		if dir == "/" {
			return true
		}
	}
}
