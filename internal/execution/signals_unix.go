//go:build linux || darwin || freebsd || netbsd || openbsd

package execution

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// parseSignal reads a POSIX name such as "INT" or "SIGINT", in any case.
func parseSignal(name string) (syscall.Signal, error) {
	s := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
	if s == 0 {
		return 0, invalid("signal", "%q is not the name of a signal, such as \"INT\"", name)
	}
	return s, nil
}

// signalName is the name without SIG.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return "RT" // a real-time signal has no name
}
