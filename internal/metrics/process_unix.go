//go:build unix

package metrics

import (
	"os"
	"syscall"
	"time"
)

// processMetrics have the names that every Prometheus client gives them.
var processMetrics = append(procfsMetrics, []processMetric{
	{
		"process_cpu_seconds_total", "Processor time of this process, in user and system mode.", KindCounter,
		func() (float64, bool) {
			var usage syscall.Rusage
			if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
				return 0, false
			}
			used := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
			return used.Seconds(), true
		},
	},
	{"process_max_fds", "Open file descriptors at the most.", KindGauge, func() (float64, bool) {
		var limit syscall.Rlimit
		err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
		return float64(limit.Cur), err == nil
	}},
	{"process_open_fds", "Open file descriptors.", KindGauge, func() (float64, bool) {
		dir, err := os.Open("/dev/fd")
		if err != nil {
			return 0, false
		}
		defer dir.Close()
		names, err := dir.Readdirnames(-1)
		return float64(len(names) - 1), err == nil // without the one that reads them
	}},
}...)
