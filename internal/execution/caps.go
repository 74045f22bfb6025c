package execution

import (
	"cmp"
	"time"

	"reprise"
	"reprise/internal/execution/command"
	"reprise/internal/isolation"
)

// Caps are the bounds of a server on each command, and the limits of requests that state none. 0 means no bound.
type Caps struct {
	Limits
	// Grace bounds the time between TERM and KILL, at most a minute.
	Grace time.Duration
}

// caps are the bounds on each command of a tenant.
func (h *Host) caps(tenant reprise.Tenant) *Caps {
	own, all := h.opts.TenantCaps[tenant], &h.opts.Caps
	return &Caps{
		Limits: Limits{
			OutputBytes: cmp.Or(own.OutputBytes, all.OutputBytes),
			MemoryBytes: cmp.Or(own.MemoryBytes, all.MemoryBytes),
			Processes:   cmp.Or(own.Processes, all.Processes),
			CPUTime:     cmp.Or(own.CPUTime, all.CPUTime),
		},
		Grace: cmp.Or(own.Grace, all.Grace),
	}
}

// check returns an error if a request asks for more than the server lets commands have.
func (c *Caps) check(r *Request) error {
	for _, l := range []struct {
		field       string
		asked, most int64
		text        any
	}{
		{"limits.output_bytes", r.Limits.OutputBytes, c.OutputBytes, c.OutputBytes},
		{"limits.memory_bytes", r.Limits.MemoryBytes, c.MemoryBytes, c.MemoryBytes},
		{"limits.processes", r.Limits.Processes, c.Processes, c.Processes},
		{"limits.cpu_time", int64(r.Limits.CPUTime), int64(c.CPUTime), time.Duration(c.CPUTime)},
		{"grace", int64(r.Grace), int64(c.Grace), c.Grace},
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

// limits are the limits of a request within the bounds of the server, whoever has accepted the request.
func (c *Caps) limits(asked *Limits) command.Limits {
	return command.Limits{
		OutputBytes: atMost(asked.OutputBytes, c.OutputBytes), MemoryBytes: atMost(asked.MemoryBytes, c.MemoryBytes),
		Processes: atMost(asked.Processes, c.Processes), CPUTime: time.Duration(atMost(asked.CPUTime, c.CPUTime)),
	}
}

// atMost is a limit within a bound, where 0 stands for none.
func atMost[T int64 | Duration | time.Duration](asked, most T) T {
	if most > 0 && (asked == 0 || asked > most) {
		return most
	}
	return asked
}
