//go:build linux || darwin || freebsd || netbsd || openbsd

package command

import (
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// HeedSignals restores the default effect of SIGHUP and SIGINT on commands if this process was started with these
// signals ignored, as by nohup or in the background of a script. A command would inherit that, and a shell could not
// even trap them. They still have no effect on this process.
var HeedSignals = sync.OnceFunc(func() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
})

// parseSignal reads a POSIX name such as "INT" or "SIGINT", in any case.
func parseSignal(name string) (syscall.Signal, error) {
	s := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
	if s == 0 {
		return 0, refuse(Invalid, "%q is not the name of a signal, such as \"INT\"", name)
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
