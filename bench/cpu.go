package bench

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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

// cpuTimeOf is what another process has used, in user and system mode.
func cpuTimeOf(pid int) (time.Duration, error) {
	// The clock of a process as clock_getcpuclockid(3) makes it: the complement of the id, then CPUCLOCK_SCHED.
	const schedClock = 2
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|schedClock), &t)
	return time.Duration(t.Nano()), err
}
