package execd

import (
	"encoding/json"
	"net/http"
	"runtime"
	"time"

	"reprise/internal/metrics"
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

// measure measures for as long as over, or returns false if the request ends or the system does not tell.
func measure(x *web.Exchange) (m measured, ok bool) {
	busy, idle, ok := metrics.Processors()
	if !ok {
		return m, false
	}
	select {
	case <-time.After(over):
	case <-x.R.Context().Done():
		return m, false
	}
	busyNow, idleNow, ok := metrics.Processors()
	total, free, known := metrics.Memory()
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
