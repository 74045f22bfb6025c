//go:build amd64 || arm64

package isolation

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// program is the work of a child between fork and exec: a list of system calls, all of whose arguments are prepared
// before the fork. A child of a Go program cannot safely do more. Because the calls are made in assembly, the child can
// share our memory, as with vfork: copying the page tables of a large server takes tens of milliseconds.
type program struct {
	calls []call
	// steps name the calls in errors.
	steps []string
	// pins keeps the values that the arguments point to at their addresses.
	pins runtime.Pinner
	// fds are open until the program has been run.
	fds []int
	// place is the descriptor of hold in the child, 0 if it was not needed yet.
	place int
	// command is where the process id of the command will be, if another process than the child becomes it.
	command *uintptr
}

// StepError names the failed step of a start. The process has not been started.
type StepError struct {
	Step string
	Err  error
}

func (e *StepError) Error() string { return e.Step + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

var errUnexpected = errors.New("unexpected result")

// add appends a call and returns it, to be refined before the next one is added.
func (p *program) add(step string, number uintptr, args ...uintptr) *call {
	c := call{number: number}
	copy(c.args[:], args)
	p.calls, p.steps = append(p.calls, c), append(p.steps, step)
	return &p.calls[len(p.calls)-1]
}

// fail appends a step that ends the child.
func (p *program) fail(step string) { p.add(step, unix.SYS_GETPID).expect = ^uintptr(0) }

// branch appends a fork. The new process goes on with what follows the call of here with the result.
func (p *program) branch(step string, flags uint64, cgroup int) (at int) {
	number, first, second := p.cloning(flags, cgroup)
	p.add(step, number, first, second)
	return len(p.calls) - 1
}

// here is where the process of a branch goes on.
func (p *program) here(at int) { p.calls[at].branch = uintptr(len(p.calls)) }

// exit appends the end of a process.
func (p *program) exit() { p.add("exit", unix.SYS_EXIT_GROUP, 0) }

// text is a NUL-terminated string as an argument. s holds no NUL.
func (p *program) text(s string) uintptr { return p.bytes(append([]byte(s), 0)) }

// bytes is the address of b, which is not empty.
func (p *program) bytes(b []byte) uintptr { return address(p, &b[0]) }

// address returns the address of a value.
func address[T any](p *program, v *T) uintptr {
	p.pins.Pin(v)
	return uintptr(unsafe.Pointer(v))
}

// register returns the address of a place for a result.
func (p *program) register() uintptr { return address(p, new(uintptr)) }

// texts is a NULL-terminated array of strings as an argument.
func (p *program) texts(list []string) uintptr {
	pointers := make([]uintptr, len(list)+1)
	for i, s := range list {
		pointers[i] = p.text(s)
	}
	return address(p, &pointers[0])
}

// open opens a file and returns the register of its descriptor.
func (p *program) open(step, path string, flags int) (fd uintptr) {
	fd = p.register()
	p.add(step, unix.SYS_OPENAT, atFDCWD, p.text(path), uintptr(flags|unix.O_CLOEXEC)).save = fd
	return fd
}

// write writes text to a file.
func (p *program) write(step, path, text string) {
	fd := p.open(step, path, unix.O_WRONLY)
	p.add(step, unix.SYS_WRITE, 0, p.bytes([]byte(text)), uintptr(len(text))).use = fd
	p.add(step, unix.SYS_CLOSE).use = fd
}

// argument is a negative number as an argument.
func argument(n int) uintptr { return uintptr(n) }

var atFDCWD = argument(unix.AT_FDCWD)

// close frees the resources of the program once no child runs it.
func (p *program) close() {
	p.pins.Unpin()
	for _, fd := range p.fds {
		_ = unix.Close(fd)
	}
}

// cloneArgs is struct clone_args of clone3(2), as far as we need it.
type cloneArgs struct {
	flags      uint64
	_          [3]uint64 // pidfd, child_tid, parent_tid
	exitSignal uint64
	_          [5]uint64 // stack, stack_size, tls, set_tid, set_tid_size
	cgroup     uint64
}

// run starts a child that runs the program and returns when the child has got another program by its last
// call or has ended. The error is a *StepError if a call failed; the child is then reaped.
// cgroup is a descriptor of the cgroup that the child begins in, or -1. The caller has locked its OS
// thread. With alone, that thread sleeps in the kernel until then, and everything that needs its processor waits too.
func (p *program) run(cgroup int, alone bool) (pid int, err error) {
	failed := new(failure)
	p.pins.Pin(failed)
	p.pins.Pin(&p.calls[0])
	for i := range p.calls {
		if to := p.calls[i].branch; to != 0 {
			p.calls[i].branch = uintptr(unsafe.Pointer(&p.calls[to]))
		}
	}
	var id int
	if alone {
		id, err = p.fork(cgroup, unix.CLONE_VFORK, failed)
	} else {
		id, err = p.forkBeside(cgroup, failed)
	}
	if err != nil {
		return 0, err
	}
	at := atomic.LoadUintptr(&failed.call)
	if at == 0 && p.command == nil {
		return id, nil
	}
	reap(id)
	if p.command != nil {
		id = int(atomic.LoadUintptr(p.command))
		switch {
		case at == 0 && id != 0:
			return id, nil
		case at == 0: // the child was killed
			return 0, &StepError{"process table", errUnexpected}
		case id != 0:
			_ = unix.Kill(id, unix.SIGKILL)
			reap(id)
		}
	}
	step := p.steps[(at-uintptr(unsafe.Pointer(&p.calls[0])))/unsafe.Sizeof(call{})]
	if failed.errno == 0 {
		return 0, &StepError{step, errUnexpected}
	}
	return 0, &StepError{step, os.NewSyscallError("", syscall.Errno(failed.errno))}
}

// reap waits for a child.
func reap(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR { //nolint:errorlint // an errno
			return
		}
	}
}

// forkBeside is fork without CLONE_VFORK. It waits for the child as for any other event: at a pipe, whose far end is
// closed by exec or by the end of the child.
func (p *program) forkBeside(cgroup int, failed *failure) (pid int, err error) {
	var gone [2]int
	syscall.ForkLock.Lock()
	if err := unix.Pipe2(gone[:], unix.O_CLOEXEC); err != nil {
		syscall.ForkLock.Unlock()
		return 0, &StepError{"pipe", err}
	}
	id, err := p.fork(cgroup, 0, failed)
	syscall.ForkLock.Unlock()
	_ = unix.Close(gone[1])
	defer unix.Close(gone[0])
	if err != nil {
		return 0, err
	}
	for buf := make([]byte, 1); ; {
		if _, err := unix.Read(gone[0], buf); err != unix.EINTR { //nolint:errorlint // an errno
			return id, nil
		}
	}
}

// fork forks with all signals blocked.
func (p *program) fork(cgroup int, flags uint64, failed *failure) (pid int, err error) {
	number, first, second := p.cloning(flags, cgroup)
	all, old := ^uint64(0), uint64(0)
	maskSignals(&all, &old)
	id, code := fork(number, first, second, &p.calls[0], failed)
	maskSignals(&old, nil)
	if code != 0 {
		return 0, &StepError{"fork", syscall.Errno(code)}
	}
	return int(id), nil
}

// cloning returns the number and the arguments of a system call that forks, with shared memory.
func (p *program) cloning(flags uint64, cgroup int) (number, first, second uintptr) {
	args := &cloneArgs{flags: unix.CLONE_VM | flags, exitSignal: uint64(unix.SIGCHLD)}
	if flags&unix.CLONE_PARENT != 0 { // then it is the signal of the caller
		args.exitSignal = 0
	}
	if cgroup < 0 {
		return unix.SYS_CLONE, uintptr(args.flags | args.exitSignal), 0
	}
	args.flags, args.cgroup = args.flags|unix.CLONE_INTO_CGROUP, uint64(cgroup)
	return unix.SYS_CLONE3, address(p, args), unsafe.Sizeof(*args)
}

// maskSignals sets the signal mask of the thread.
func maskSignals(to, old *uint64) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(to)),
		uintptr(unsafe.Pointer(old)), unsafe.Sizeof(*to), 0, 0)
}
