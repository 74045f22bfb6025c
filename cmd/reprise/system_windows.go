package main

import (
	"os"
	"os/exec"
	"syscall"

	sys "golang.org/x/sys/windows"
)

// leadGroup keeps Ctrl-C in a console from a command that is to be started.
func leadGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// isTerminalFile reports whether f is a console.
func isTerminalFile(f *os.File) bool {
	var mode uint32
	return sys.GetConsoleMode(sys.Handle(f.Fd()), &mode) == nil
}

// signalNumber is the number that a signal has on Linux, where the command ran, by its name without SIG; 0 for others.
func signalNumber(name string) int {
	return map[string]int{
		"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "USR1": 10,
		"SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "XCPU": 24, "XFSZ": 25, "SYS": 31,
	}[name]
}

// What a session at a terminal is told by signals. None says that a console has another size.
const (
	hangup  = syscall.SIGHUP
	proceed = syscall.Signal(-1)
)

var terminalSignals = []os.Signal{hangup}
