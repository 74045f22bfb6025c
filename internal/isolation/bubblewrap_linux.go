//go:build amd64 || arm64

package isolation

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tryBubblewrap runs the program at path with all that commands need of it, under the layers that it gets itself.
func tryBubblewrap(path string) error {
	m := Probe()
	p := &Plan{Level: Bubblewrap, Given: m.Given, machine: m, Temporary: os.TempDir(), Access: Access{Offline: true}}
	p.layer()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	argv := p.bubblewrapped(path, []string{path, "--version"}, "/")
	process, err := p.start(path, argv, &os.ProcAttr{Files: []*os.File{nil, w, w}, Sys: &syscall.SysProcAttr{}}, false)
	w.Close()
	if err != nil {
		return err
	}
	late := time.AfterFunc(10*time.Second, func() { _ = process.Kill() })
	defer late.Stop()
	said, _ := io.ReadAll(r)
	state, err := process.Wait()
	if err == nil && !state.Success() {
		err = fmt.Errorf("%v: %s", state, strings.TrimSpace(string(said)))
	}
	return err
}

// bubblewrapped is how bwrap starts the command. Everybody can read it: it holds paths, and the command.
func (p *Plan) bubblewrapped(path string, argv []string, dir string) []string {
	args := []string{
		"bwrap", "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts",
		"--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
		"--tmpfs", p.Temporary,
	}
	if p.isRoot() { // its own /proc is writable for root, also without capabilities
		for _, path := range p.Given.Settings {
			if within(path, "/proc") {
				args = append(args, "--ro-bind-try", path, path)
			}
		}
	}
	if p.Access.Offline {
		args = append(args, "--unshare-net")
	}
	for _, root := range slices.Concat(p.Access.Writable, []string{dir}) {
		args = append(args, "--bind", root, root)
	}
	var covers []string
	for _, hidden := range hiddenRoots(p.Access.Hidden) {
		if p.User != nil && !p.User.reaches(hidden) {
			continue // bwrap, which runs as the same user, cannot either
		}
		if info, err := os.Stat(hidden); err == nil && info.IsDir() {
			args, covers = append(args, "--tmpfs", hidden), append(covers, "--remount-ro", hidden)
		} else {
			args = append(args, "--ro-bind", "/dev/null", hidden)
		}
	}
	for _, visible := range p.Visible {
		args = append(args, "--ro-bind", visible, visible)
	}
	args = append(args, covers...)
	args = append(args, "--chdir", dir, "--", path)
	return append(args, argv[1:]...)
}

// reads reports whether the user may read, write or enter path, whose symbolic links are resolved.
func (u *User) reads(path string) bool { return u.reaches(path) && u.rights(path) != 0 }

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
