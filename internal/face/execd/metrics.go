package execd

import (
	"encoding/json"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"reprise/internal/web"
)

// measured is what the machine uses.
type measured struct {
	CPUs      int     `json:"cpu_count"`
	CPUUsed   float64 `json:"cpu_used_pct"`
	MemTotal  float64 `json:"mem_total_mib"`
	MemUsed   float64 `json:"mem_used_mib"`
	Timestamp int64   `json:"timestamp"` // Unix, in ms
}

// over is the time over which the use of processors is measured.
const over = time.Second

// processors returns the time that all processors have worked and been idle since the machine was started, in ticks.
// See proc_stat(5).
func processors() (busy, idle float64, ok bool) {
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

// memory returns the memory of the machine and what is free of it, in MiB. See proc_meminfo(5).
func memory() (total, free float64, ok bool) {
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

// measure measures for as long as over, or returns false if the request ends or the system does not tell.
func measure(x *web.Exchange) (m measured, ok bool) {
	busy, idle, ok := processors()
	if !ok {
		return m, false
	}
	select {
	case <-time.After(over):
	case <-x.R.Context().Done():
		return m, false
	}
	busyNow, idleNow, ok := processors()
	total, free, known := memory()
	m = measured{CPUs: runtime.NumCPU(), MemTotal: total, MemUsed: total - free, Timestamp: time.Now().UnixMilli()}
	if worked, all := busyNow-busy, busyNow-busy+idleNow-idle; all > 0 {
		m.CPUUsed = 100 * worked / all
	}
	return m, ok && known
}

func (a API) metrics(x *web.Exchange) error {
	m, ok := measure(x)
	if !ok {
		return &refusal{http.StatusNotImplemented, codeNone, "this system does not tell"}
	}
	return x.Answer(http.StatusOK, m)
}

// watchMetrics answers with a line each second.
func (a API) watchMetrics(x *web.Exchange) error {
	if err := a.Reads.Enter(x); err != nil {
		return err
	}
	x.EndWithServer()
	x.EndWithConnection()
	x.W.Header().Set("Content-Type", web.SSE)
	x.AllowWrite()
	x.W.WriteHeader(http.StatusOK)
	out := json.NewEncoder(x.Steady(true))
	for {
		m, ok := measure(x)
		if !ok {
			return nil
		}
		if err := out.Encode(m); err != nil {
			return ignore(err)
		}
	}
}
