package bench

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used, in user and system mode. What runs in one
// process without waiting is measured by it: it holds the cost of the garbage collector, and
// not that of others who use the machine at the same time.
func cpuTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err) // it has no reason to fail
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
