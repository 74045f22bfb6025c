//go:build linux || darwin || freebsd || netbsd || openbsd

package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"reprise/internal/isolation"
	"reprise/internal/spawn"
)

// ends are the files of a process that is being started.
type ends struct {
	near [3]*os.File // stdin, stdout, stderr
	far  [3]*os.File
}

func openPipes(stdin bool) (e ends, err error) {
	defer func() {
		if err != nil {
			closeAll(e.near[:]...)
			closeAll(e.far[:]...)
		}
	}()
	if stdin {
		e.near[0], e.far[0], err = pipe(false)
	} else {
		e.far[0], err = os.Open(os.DevNull)
	}
	for i := 1; i < 3 && err == nil; i++ {
		e.near[i], e.far[i], err = pipe(true)
	}
	return e, err
}

func openTerminal(size *Size) (ends, error) {
	opened, slave, err := pty.Open()
	if err != nil {
		return ends{}, fmt.Errorf("terminal: %w", err)
	}
	master, err := waitable(opened)
	_ = opened.Close()
	if err == nil {
		err = setSize(master, size)
	}
	if err != nil {
		closeAll(master, slave)
		return ends{}, fmt.Errorf("terminal: %w", err)
	}
	return ends{near: [3]*os.File{master, master, nil}, far: [3]*os.File{slave, slave, slave}}, nil
}

// waitable returns f as a file whose reads and writes have deadlines, if the system supports them for terminals.
// pty.Open calls Fd, which removes them.
func waitable(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, pollsTerminals); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// setSize sets the size of a terminal. Where that changes it, the kernel sends WINCH to the foreground process group.
func setSize(master *os.File, size *Size) error {
	conn, err := master.SyscallConn()
	if err != nil {
		return err
	}
	s := size.WithDefaults()
	winsize := &unix.Winsize{Col: uint16(s.Cols), Row: uint16(s.Rows)}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, winsize) })
	return errors.Join(err, failed)
}

// resize sets the size of the terminal of the process.
func (c *child) resize(size *Size) error { return setSize(c.stdin, size) }

// startChild starts a process. The error says in plain words why it could not be
// started; nothing is left of it then but tree, which the caller closes.
func (s *System) startChild(p *Plan, t tree) (c *child, err error) {
	var as *isolation.User
	if p.Isolation != nil {
		as = p.Isolation.User
	}
	if err := checkDir(as, p.Cwd); err != nil {
		return nil, err
	}
	path, err := LookPath(as, p.Argv[0], Variable(p.Environ, "PATH"))
	if err != nil {
		return nil, err
	}
	var e ends
	if p.TTY != nil {
		e, err = openTerminal(p.TTY)
	} else {
		e, err = openPipes(p.StdinOpen || len(p.Input) > 0)
	}
	if err != nil {
		return nil, err
	}
	attr := &os.ProcAttr{
		Dir: p.Cwd, Env: p.Environ, Files: e.far[:],
		Sys: spawn.Session(),
	}
	attr.Sys.Setctty = p.TTY != nil
	t.prepare(attr.Sys)
	started := time.Now()
	start := p.Isolation.Start
	if s.reaper != nil { // there is nothing else to do until it is started
		start = p.Isolation.StartAlone
	}
	var process *os.Process
	s.killedFirst(func() { process, err = s.Spawner.StartBy(start, path, p.Argv, attr) })
	closeAll(e.far[:]...)
	if err != nil {
		closeAll(e.near[:]...)
		return nil, startError(p.Argv[0], err)
	}
	t.started(process.Pid)
	return &child{
		process: process, started: started, tree: t,
		stdin: e.near[0], stdout: e.near[1], stderr: e.near[2],
	}, nil
}

func startError(program string, err error) error {
	if where, ok := errors.AsType[*fs.PathError](err); ok && where.Op == "chdir" {
		return fmt.Errorf("cwd cannot be entered, or is hidden from commands: %w", where.Err)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such program, or its interpreter does not exist", program)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: no permission to execute it, or to enter its working directory", program)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s: not a program for this machine", program)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("%s: the arguments and variables are too long", program)
	}
	return fmt.Errorf("%s: %w", program, err)
}

// await blocks until the process has ended. It stays a zombie, so that its number
// still means it and no other, until reap.
func (c *child) await() {
	if t, ok := c.tree.(interface{ await() }); ok {
		t.await()
		return
	}
	spawn.AwaitExit(c.process.Pid)
}

// reap waits for the ended process and returns how it ended.
func (c *child) reap() (exit, error) {
	state, err := c.process.Wait()
	if err != nil {
		return exit{}, fmt.Errorf("wait for the process: %w", err)
	}
	var x exit
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		name := signalName(status.Signal())
		x.signal = &name
	} else {
		code := state.ExitCode()
		x.code = &code
	}
	x.usage.UserMS = state.UserTime().Milliseconds()
	x.usage.SystemMS = state.SystemTime().Milliseconds()
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		x.usage.MaxRSSBytes = peakOf(usage)
	}
	return x, nil
}

// peakOf returns the peak memory of the process in bytes, or 0 if it is unknown. Between fork and exec a process shares
// the memory of the server, which then counts in its peak. A peak below the server's is therefore unknown.
func peakOf(usage *syscall.Rusage) int64 {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil || usage.Maxrss <= own.Maxrss {
		return 0
	}
	return usage.Maxrss * maxRSSUnit
}

// readFile reads from a descriptor that does not block, once.
func readFile(fd uintptr, buf []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return 0, os.ErrDeadlineExceeded
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}
