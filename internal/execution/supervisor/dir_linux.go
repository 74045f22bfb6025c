package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Lock takes the lock of the directory of a run, which goes with the process at the latest. The error is ErrHeld if
// another process has it, or fs.ErrNotExist if the directory was removed, while it was being locked too.
func Lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR { //nolint:errorlint // an errno
			break
		}
	}
	if err != nil {
		_ = f.Close()
		if err == unix.EWOULDBLOCK { //nolint:errorlint // an errno
			return nil, ErrHeld
		}
		return nil, os.NewSyscallError("flock", err)
	}
	same, err := IsLock(f, dir)
	if err == nil && !same {
		err = os.ErrNotExist
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// IsLock reports whether f is the lock file in dir.
func IsLock(f *os.File, dir string) (bool, error) {
	ours, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(filepath.Join(dir, lockFile))
	return err == nil && os.SameFile(ours, there), err
}

// throughFD calls f with a short path of the socket: the address of a Unix socket has room for 107 bytes.
func throughFD(dir string, f func(path string) error) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	return f(filepath.Join("/proc/self/fd", strconv.Itoa(fd), socketFile))
}

// Listen listens on the socket of a run, whose lock the caller has. The file goes with the directory. It replaces the
// one of a supervisor that has died there before it had a command.
func Listen(dir string) (l *net.UnixListener, err error) {
	err = throughFD(dir, func(path string) error {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if errors.Is(err, unix.EADDRINUSE) && os.Remove(path) == nil {
			l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		}
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		return os.Chmod(path, 0o600)
	})
	if err != nil && l != nil {
		_ = l.Close()
	}
	return l, err
}

// dial connects to the socket of a run.
func dial(ctx context.Context, dir string) (c net.Conn, err error) {
	err = throughFD(dir, func(path string) error {
		var d net.Dialer
		if c, err = d.DialContext(ctx, "unix", path); err != nil {
			return fmt.Errorf("supervisor: %w", err)
		}
		return nil
	})
	return c, err
}
