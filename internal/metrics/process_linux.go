package metrics

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// ticksPerSecond is the unit of times in /proc (sysconf(_SC_CLK_TCK)), which is 100 on Linux.
const ticksPerSecond = 100

// procfsMetrics are read from /proc/self/stat; see proc(5).
var procfsMetrics = []processMetric{
	{"process_resident_memory_bytes", "Memory of this process that is resident.", KindGauge, func() (float64, bool) {
		pages, ok := statField(24)
		return pages * float64(os.Getpagesize()), ok
	}},
	{"process_virtual_memory_bytes", "Memory of this process that is mapped.", KindGauge, func() (float64, bool) {
		return statField(23)
	}},
	{
		"process_start_time_seconds", "When this process started, in seconds since 1970.", KindGauge,
		func() (float64, bool) {
			ticks, ok := statField(22)
			boot, known := bootTime()
			return boot + ticks/ticksPerSecond, ok && known
		},
	},
}

// statField returns a number of /proc/self/stat. Fields count from 1, as in proc(5).
func statField(n int) (float64, bool) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, false
	}
	// The second field, the name in parentheses, may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= n-3 {
		return 0, false
	}
	value, err := strconv.ParseFloat(string(fields[n-3]), 64)
	return value, err == nil
}

// bootTime returns when the machine started, in seconds since 1970.
func bootTime() (float64, bool) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(stat)) {
		if seconds, ok := strings.CutPrefix(line, "btime "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(seconds), 64)
			return value, err == nil
		}
	}
	return 0, false
}
