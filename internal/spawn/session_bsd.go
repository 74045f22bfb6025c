//go:build darwin || freebsd || netbsd || openbsd

package spawn

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Session returns the attributes of a process that leads a session and a process group of its own. It does not die with
// this process: only Linux has a signal for the death of a parent.
func Session() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// tryAgain is the pause before the next attempt to watch a process after one failed for lack of a descriptor.
const tryAgain = 10 * time.Millisecond

// AwaitExit blocks until a child has ended. The child stays a zombie until it is waited for, so its process id is not
// reused before.
func AwaitExit(pid int) {
	for {
		err := awaitNote(pid)
		if err == nil || errors.Is(err, unix.ESRCH) { // kqueue reports no events of a zombie
			return
		}
		time.Sleep(tryAgain)
	}
}

// awaitNote blocks until the kernel reports the exit of a process; see kqueue(2).
func awaitNote(pid int) error {
	syscall.ForkLock.RLock()
	queue, err := unix.Kqueue()
	if err == nil {
		unix.CloseOnExec(queue)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return err
	}
	defer unix.Close(queue)
	var watch, event [1]unix.Kevent_t
	unix.SetKevent(&watch[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	watch[0].Fflags = unix.NOTE_EXIT
	for {
		n, err := unix.Kevent(queue, watch[:], event[:], nil)
		switch {
		case errors.Is(err, unix.EINTR): // registering it twice has no effect
		case err != nil:
			return err
		case n > 0 && event[0].Flags&unix.EV_ERROR != 0:
			return unix.Errno(event[0].Data)
		case n > 0:
			return nil
		}
	}
}

// SignalGroup sends a signal to the process group led by a child that was not waited for yet. A group without a live
// process is no error.
func SignalGroup(leader int, s syscall.Signal) error {
	err := unix.Kill(-leader, s)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	// A group that consists of zombies refuses signals too, whereas a single zombie accepts them.
	if errors.Is(err, unix.EPERM) && unix.Kill(leader, 0) == nil {
		return nil
	}
	return err
}

// KillGroup kills the process group led by a child that was not waited for yet, and waits at most patience until none
// of its processes is left. found reports whether there was any, and gone whether none is left.
func KillGroup(leader int, patience time.Duration) (found, gone bool) {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if unix.Kill(-leader, unix.SIGKILL) != nil {
			return found, true
		}
		found = true
		if time.Now().After(deadline) {
			return found, false
		}
	}
}
