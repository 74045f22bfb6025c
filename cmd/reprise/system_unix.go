//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// errLocked is the error of flock for a file that another process has locked.
const errLocked = unix.EWOULDBLOCK

// flock locks f for this process. If another process has the lock, it waits, or fails with errLocked.
func flock(f *os.File, wait bool) error {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// exists reports whether there is a process with this id, or may be one if the id is unknown.
func exists(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err != nil || n <= 0 || !errors.Is(unix.Kill(n, 0), unix.ESRCH)
}

// leadGroup makes a command lead a process group, which is killed with it.
func leadGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
}

// isTerminalFile reports whether f is a terminal.
func isTerminalFile(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}

// signalNumber returns the number of a signal by its name without SIG, 0 for an unknown name.
func signalNumber(name string) int { return int(unix.SignalNum("SIG" + name)) }

// The signals that concern a terminal session.
const (
	hangup  = unix.SIGHUP
	proceed = unix.SIGCONT
)

var terminalSignals = []os.Signal{unix.SIGWINCH, hangup, proceed}
