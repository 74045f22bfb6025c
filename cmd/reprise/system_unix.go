//go:build unix

package main

import (
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

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
