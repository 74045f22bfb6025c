//go:build unix

package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// errLocked is the error of flock for a file that another process has locked.
const errLocked = unix.EWOULDBLOCK

// flock locks f for this process, or fails at once.
func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// isTerminalFile reports whether f is a terminal.
func isTerminalFile(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}

// signalNumber is the number of a signal by its name without SIG, 0 for one that has none.
func signalNumber(name string) int { return int(unix.SignalNum("SIG" + name)) }
