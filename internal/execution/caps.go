package execution

import (
	"time"

	"reprise/internal/isolation"
)

// Caps are the bounds of a server on each command, and the limits of requests that state none. 0 means no bound.
type Caps struct {
	Limits
	// Grace bounds the time between TERM and KILL, at most a minute.
	Grace time.Duration
}

// checkCaps returns an error if a request asks for more than the server lets commands have.
func (h *Host) checkCaps(r *Request) error {
	most := &h.opts.Caps
	for _, l := range []struct {
		field       string
		asked, most int64
		text        any
	}{
		{"limits.output_bytes", r.Limits.OutputBytes, most.OutputBytes, most.OutputBytes},
		{"limits.memory_bytes", r.Limits.MemoryBytes, most.MemoryBytes, most.MemoryBytes},
		{"limits.processes", r.Limits.Processes, most.Processes, most.Processes},
		{"limits.cpu_time", int64(r.Limits.CPUTime), int64(most.CPUTime), time.Duration(most.CPUTime)},
		{"grace", int64(r.Grace), int64(most.Grace), most.Grace},
	} {
		if l.most > 0 && l.asked > l.most {
			return invalid(l.field, "this server gives commands at most %v", l.text)
		}
	}
	return nil
}

// heldAt returns an error if the level of a plan does not hold a command within the bounds of the server.
func (c *Caps) heldAt(plan *isolation.Plan) error {
	if plan.Level == isolation.None && onProcesses(&c.Limits) {
		return invalid("isolation", "the limits of this server need the level %q", isolation.Limits)
	}
	return nil
}

// limits are those of a request within the bounds of the server, whoever has accepted the request.
func (c *Caps) limits(asked *Limits) Limits {
	return Limits{
		OutputBytes: atMost(asked.OutputBytes, c.OutputBytes), MemoryBytes: atMost(asked.MemoryBytes, c.MemoryBytes),
		Processes: atMost(asked.Processes, c.Processes), CPUTime: atMost(asked.CPUTime, c.CPUTime),
	}
}

// atMost is a limit within a bound, where 0 stands for none.
func atMost[T int64 | Duration | time.Duration](asked, most T) T {
	if most > 0 && (asked == 0 || asked > most) {
		return most
	}
	return asked
}
