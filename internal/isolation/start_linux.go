//go:build amd64 || arm64

package isolation

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The steps whose failure belongs to the command and not to a layer.
const (
	stepDir  = "chdir"
	stepExec = "exec"
)

// Start is os.StartProcess with the layers of the plan; a nil Plan has none. It supports Setsid, Setctty with Ctty 0,
// Pdeathsig, UseCgroupFD and CgroupFD of attr.Sys; the error is errors.ErrUnsupported for other fields. attr.Env must
// not be nil. The error is a *StepError if a layer failed, and otherwise as os.StartProcess returns it.
func (p *Plan) Start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return p.startWith(path, argv, attr, false)
}

// StartAlone is Start for a process that has nothing else to do meanwhile. It takes less time, because the thread waits
// in the kernel: until the command has been executed, no goroutine runs that needs the processor of the caller, and no
// garbage is collected.
func (p *Plan) StartAlone(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return p.startWith(path, argv, attr, true)
}

// StartSelf is Start for this very program, even if its file was replaced or removed, or the plan gives the process no
// access to it. The path is not used.
func (p *Plan) StartSelf(_ string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	if p == nil || p.Layers == (Layers{}) {
		return os.StartProcess("/proc/self/exe", argv, attr)
	}
	own := *p
	own.self = true
	return own.start("", argv, attr, false)
}

// selfFile is a descriptor of the file of this program.
var selfFile = sync.OnceValues(func() (int, error) {
	fd, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	return fd, os.NewSyscallError("open", err)
})

func (p *Plan) startWith(path string, argv []string, attr *os.ProcAttr, alone bool) (*os.Process, error) {
	if p == nil || p.Layers == (Layers{}) {
		return os.StartProcess(path, argv, attr)
	}
	return p.start(path, argv, attr, alone)
}

// mapping is held while a child may write its id maps.
var mapping sync.Mutex

func (p *Plan) start(path string, argv []string, attr *os.ProcAttr, alone bool) (*os.Process, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if p.Given.UserNamespace {
		mapping.Lock() // the child changes whether our memory is dumpable
		defer mapping.Unlock()
	}
	var prog program
	defer prog.close()
	if err := p.compile(&prog, path, argv, attr); err != nil {
		return nil, err
	}
	dumpable := isDumpable()
	cgroup := cgroupOf(attr)
	if prog.command != nil {
		cgroup = -1 // only the command is in it
	}
	pid, err := prog.run(cgroup, alone)
	if isDumpable() != dumpable { // the child was killed between the calls that change it
		_ = setDumpable(dumpable)
	}
	if step, ok := errors.AsType[*StepError](err); ok && (step.Step == stepDir || step.Step == stepExec) {
		return nil, &os.PathError{Op: step.Step, Path: path, Err: step.Err}
	}
	if err != nil {
		return nil, fmt.Errorf("isolation: %w", err)
	}
	return os.FindProcess(pid) // the pid is not reused, because only we wait for this process
}

// compile writes the program of a start.
func (p *Plan) compile(prog *program, path string, argv []string, attr *os.ProcAttr) error {
	sys := attr.Sys
	if sys == nil {
		sys = &syscall.SysProcAttr{}
	}
	taken := syscall.SysProcAttr{
		Setsid: sys.Setsid, Setctty: sys.Setctty, Pdeathsig: sys.Pdeathsig,
		UseCgroupFD: sys.UseCgroupFD, CgroupFD: sys.CgroupFD,
	}
	if !sameAttr(sys, &taken) {
		return fmt.Errorf("isolation: process attributes: %w", errors.ErrUnsupported)
	}
	prog.defaultSignals()
	dir := attr.Dir
	var f *forest
	if p.Layers.Readable != "" {
		var err error
		if f, err = p.forest(attr.Dir); err != nil {
			return err
		}
	}
	if p.Layers.Readable == ByMounts {
		dir = f.dir
	}
	if p.Layers.Signals != ByPIDNamespace {
		prog.session(sys, attr.Files)
	}
	if sys.Setctty && len(attr.Files) > 0 && f != nil {
		f.terminal = attr.Files[0].Name()
	}
	if err := prog.surround(p, f, cgroupOf(attr)); err != nil {
		return err
	}
	if p.Layers.Signals == ByPIDNamespace {
		prog.session(sys, attr.Files)
	}
	if err := prog.restrict(p, f); err != nil {
		return err
	}
	if dir != "" {
		prog.add(stepDir, unix.SYS_CHDIR, prog.text(dir))
	}
	if sys.Pdeathsig != 0 {
		prog.add("parent", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(sys.Pdeathsig))
		if prog.command == nil {
			prog.expectParent()
		}
	}
	prog.limitOpenFiles(p.Given.OpenFiles)
	prog.limitProcesses()
	prog.add("signal mask", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, address(prog, currentMask()), 0, 8)
	if p.self {
		return prog.execFile(stepExec, selfFile, argv, attr.Env)
	}
	prog.add(stepExec, unix.SYS_EXECVE, prog.text(path), prog.texts(argv), prog.texts(attr.Env))
	return nil
}

// execFile executes an open file.
func (p *program) execFile(step string, file func() (int, error), argv, env []string) error {
	fd, err := file()
	if err != nil {
		return &StepError{step, err}
	}
	p.add(step, unix.SYS_EXECVEAT, uintptr(fd), p.text(""), p.texts(argv), p.texts(env), unix.AT_EMPTY_PATH)
	return nil
}

// cgroupOf is the descriptor of the cgroup of a process, or -1.
func cgroupOf(attr *os.ProcAttr) int {
	if attr.Sys != nil && attr.Sys.UseCgroupFD {
		return attr.Sys.CgroupFD
	}
	return -1
}

// session gives the process its session, its descriptors and its terminal.
func (p *program) session(sys *syscall.SysProcAttr, files []*os.File) {
	if sys.Setsid {
		p.add("setsid", unix.SYS_SETSID)
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = -1
		if f != nil {
			fds[i] = int(f.Fd())
		}
	}
	p.files(fds...)
	if sys.Setctty {
		p.add("controlling terminal", unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1)
	}
}

// sameAttr compares what compile does not read: maps and slices have to be empty.
func sameAttr(a, b *syscall.SysProcAttr) bool {
	if len(a.UidMappings)+len(a.GidMappings)+len(a.AmbientCaps) > 0 || a.Credential != nil || a.PidFD != nil {
		return false
	}
	return a.Chroot == b.Chroot && a.Ptrace == b.Ptrace && a.Setpgid == b.Setpgid && a.Noctty == b.Noctty &&
		a.Ctty == b.Ctty && a.Foreground == b.Foreground && a.Pgid == b.Pgid &&
		a.Cloneflags == b.Cloneflags && a.Unshareflags == b.Unshareflags
}

// currentMask is the signal mask of the thread.
func currentMask() *uint64 {
	mask := new(uint64)
	maskSignals(nil, mask)
	return mask
}

// sigaction is the kernel's struct of that name, whose handler comes first.
type sigaction struct{ handler, flags, restorer, mask uint64 }

// defaultSignals takes our handlers from the child. Ignored signals stay ignored.
func (p *program) defaultSignals() {
	byDefault := address(p, new(sigaction))
	for s := uintptr(1); s <= 64; s++ {
		var now sigaction
		_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, s, 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
		if errno == 0 && now.handler > 1 { // not SIG_DFL and not SIG_IGN
			p.add("signal handlers", unix.SYS_RT_SIGACTION, s, byDefault, 0, 8)
		}
	}
}

// files makes descriptors 0, 1, ... of ours. -1 is a closed one.
func (p *program) files(fds ...int) {
	copies := make([]uintptr, len(fds))
	for i, fd := range fds {
		if fd >= 0 {
			copies[i] = p.register()
			p.add("descriptors", unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, uintptr(len(fds))).save = copies[i]
		}
	}
	for i, reg := range copies {
		if reg == 0 {
			p.add("descriptors", unix.SYS_CLOSE, uintptr(i)).tolerated = uintptr(unix.EBADF)
			continue
		}
		p.add("descriptors", unix.SYS_DUP3, 0, uintptr(i), 0).use = reg
	}
}

// expectParent ends the child if we have ended, too early for the kernel to end it.
func (p *program) expectParent() { p.add("parent", unix.SYS_GETPPID).expect = uintptr(os.Getpid()) }

// limitOpenFiles gives the child the bound on open files that we had before Go raised it.
func (p *program) limitOpenFiles(soft uint64) {
	var now unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &now) != nil || soft == 0 || soft >= now.Cur {
		return
	}
	p.add("open files", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, address(p, &unix.Rlimit{Cur: soft, Max: now.Max}), 0)
}

// limitProcesses leaves an eighth of the processes that our user may have to us: a command that forks to the bound of
// the user would keep the server from starting a thread, which ends a Go program. A user without a bound, and root, who
// is above it, stay so.
func (p *program) limitProcesses() {
	var now unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &now) != nil || now.Cur == unix.RLIM_INFINITY {
		return
	}
	most := now.Cur - now.Cur/8
	p.add("processes", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NPROC, address(p, &unix.Rlimit{Cur: most, Max: most}), 0)
}

func isDumpable() bool {
	n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	return err == nil && n == 1
}

func setDumpable(on bool) error {
	n := uintptr(0)
	if on {
		n = 1
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, n, 0, 0, 0)
}

// Undumpable keeps other processes of the same user from our memory, our environment and our open files, and the kernel
// from writing a core dump of us.
func Undumpable() error {
	if err := setDumpable(false); err != nil {
		return fmt.Errorf("undumpable: %w", err)
	}
	return nil
}
