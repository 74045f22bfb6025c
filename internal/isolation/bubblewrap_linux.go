//go:build amd64 || arm64

package isolation

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tryBubblewrap runs the program at path with all that commands need of it, under the layers that it gets itself.
func tryBubblewrap(path string) error {
	m := Probe()
	if err := m.lacksViews(); err != nil {
		return err
	}
	p := &Plan{Level: Bubblewrap, Given: m.Given, machine: m, Own: []string{"/tmp"}, Access: Access{Offline: true}}
	p.layer()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	p.Given.Bubblewrap = path
	process, err := p.Start(path, []string{path, "--version"}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{nil, w, w}, Sys: &syscall.SysProcAttr{},
	})
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

// bubblewrapped returns the options with which bwrap starts the command, and its argv. bwrap starts in the view of the
// command, so that it gets at nothing else by any name. Everybody can read argv: it holds the command.
func (p *Plan) bubblewrapped(f *forest, path string, argv, env []string) (options, args []string) {
	options = []string{
		"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts",
		"--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
		"--bind-try", sharedMemory, sharedMemory, "--remount-ro", "/dev", // bwrap would bound neither
	}
	if p.isRoot() { // its own /proc is writable for root, also without capabilities
		for _, path := range p.Given.Settings {
			if within(path, "/proc") {
				options = append(options, "--ro-bind-try", path, path)
			}
		}
	}
	if p.Access.Offline {
		options = append(options, "--unshare-net")
	}
	for _, own := range f.own { // with what is mounted there
		options = append(options, "--bind", own, own)
	}
	for _, t := range f.trees {
		if t.writable && !slices.ContainsFunc(kernelFiles, func(dir string) bool { return within(t.Path, dir) }) {
			options = append(options, "--bind", t.Path, t.Path)
		}
	}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		options = append(options, "--setenv", name, value)
	}
	options = append(options, "--chdir", f.dir)
	return options, append([]string{"--", path}, argv[1:]...)
}

// wrap returns the path, argv and environment of bwrap for those of a command. The environment of bwrap is empty, since
// variables such as LD_PRELOAD would choose what bwrap does; the command gets its own one from the options, which a
// descriptor holds, since it may contain secrets.
func (p *program) wrap(pl *Plan, f *forest, path string, argv, env []string) (string, []string, []string, error) {
	options, args := pl.bubblewrapped(f, path, argv, env)
	fd, err := unix.MemfdCreate("bwrap", unix.MFD_CLOEXEC)
	if err != nil {
		return "", nil, nil, &StepError{"bubblewrap", os.NewSyscallError("memfd_create", err)}
	}
	p.fds = append(p.fds, fd)
	text := []byte(strings.Join(options, "\x00") + "\x00")
	for at := 0; at < len(text); {
		n, err := unix.Pwrite(fd, text[at:], int64(at))
		if err != nil {
			return "", nil, nil, &StepError{"bubblewrap", os.NewSyscallError("pwrite", err)}
		}
		at += n
	}
	p.add("bubblewrap", unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, 0)
	return pl.Given.Bubblewrap, append([]string{"bwrap", "--args", strconv.Itoa(fd)}, args...), nil, nil
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

// onlyRootWrites returns an error if another user than root can change the program at path, which has no symbolic
// links, or put another one in its place.
func onlyRootWrites(path string) error {
	for {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &os.PathError{Op: "lstat", Path: path, Err: err}
		}
		if st.Uid != 0 || st.Mode&(unix.S_IWGRP|unix.S_IWOTH) != 0 {
			return fmt.Errorf("bwrap is not taken from where other users than root can write: %s", path)
		}
		if path == "/" {
			return nil
		}
		path = filepath.Dir(path)
	}
}
