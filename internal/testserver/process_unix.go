//go:build unix

package testserver

import (
	"errors"
	"syscall"
)

// credential is the user as whom a process runs; nil is our own.
type credential = syscall.Credential

// The signals that stop a process where it is and let it go on.
const (
	signalPause  = syscall.SIGSTOP
	signalResume = syscall.SIGCONT
)

// inGroup are the attributes of a process that gets a process group of its own.
func inGroup(as *credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: true}
}

func signalProcess(pid int, sig syscall.Signal) error { return syscall.Kill(pid, sig) }

// killGroup ends a process that was started with inGroup and that has not been waited for, and all processes that it
// has forked. It is no error if it has ended.
func killGroup(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
