package metrics

import (
	"os"
	"strconv"
	"strings"
)

// Processors returns the time that all processors of the machine have worked and been idle since it was started, in
// ticks; see proc_stat(5). ok is false where the system does not tell.
func Processors() (busy, idle float64, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if err != nil || len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, false
	}
	for n, field := range fields[1:9] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0, false
		}
		if n == 3 || n == 4 { // idle, and waiting for a disk
			idle += ticks
		} else {
			busy += ticks
		}
	}
	return busy, idle, true
}

// Memory returns the memory of the machine and what is available of it, in MiB; see proc_meminfo(5). ok is false where
// the system does not tell.
func Memory() (total, free float64, ok bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, false
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "MemTotal:":
			total, found = kib/1024, found+1
		case "MemAvailable:":
			free, found = kib/1024, found+1
		}
	}
	return total, free, found == 2
}
