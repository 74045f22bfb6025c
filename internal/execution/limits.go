package execution

import (
	"time"

	"reprise/internal/isolation"
)

// The names of the limits, as Execution.Limit gives them.
const (
	limitOutput    = "output_bytes"
	limitMemory    = "memory_bytes"
	limitProcesses = "processes"
	limitCPU       = "cpu_time"
)

// How a limit is held; see Isolation.
const (
	heldByKernel  = "kernel"
	heldBySamples = "sampled"
)

const (
	// sampleEvery is how often the tree of a run is looked at that has limits.
	sampleEvery = 100 * time.Millisecond
	// The tree of other runs is looked at for the sake of its usage alone, less
	// and less often.
	firstSample = 20 * time.Millisecond
	idleSample  = 2 * time.Second
)

// meter follows what a run takes and says when that is too much.
type meter struct {
	tree   tree
	limits Limits
	every  time.Duration
	most   treeUsage
}

func newMeter(t tree, limits Limits) *meter {
	m := &meter{tree: t, limits: limits, every: sampleEvery}
	if !onProcesses(&limits) {
		m.every = firstSample
	}
	return m
}

// sample looks at the tree and returns the name of the limit that is exceeded, or "".
func (m *meter) sample() string {
	if !onProcesses(&m.limits) {
		m.every = min(2*m.every, idleSample)
	}
	u := m.tree.usage()
	m.most.maxRSS = max(m.most.maxRSS, u.maxRSS)
	m.most.user = max(m.most.user, u.user)
	m.most.sys = max(m.most.sys, u.sys)
	over := func(limit, value int64) bool { return limit > 0 && value > limit }
	switch {
	case over(m.limits.MemoryBytes, u.memoryBytes):
		return limitMemory
	case over(m.limits.Processes, u.processes):
		return limitProcesses
	case over(int64(m.limits.CPUTime), int64(u.user+u.sys)):
		return limitCPU
	}
	return m.tree.exceeded()
}

// usage is what the run has taken: what the kernel counted for the process that was
// reaped, or what was seen of the whole tree, whichever is more.
func (m *meter) usage(reaped Usage) Usage {
	return Usage{
		UserMS:      max(reaped.UserMS, m.most.user.Milliseconds()),
		SystemMS:    max(reaped.SystemMS, m.most.sys.Milliseconds()),
		MaxRSSBytes: max(reaped.MaxRSSBytes, m.most.maxRSS),
	}
}

// isolate makes the limits of the request hold and returns what is in force with the layers of the plan.
func isolate(t tree, plan *isolation.Plan, limits Limits) *Isolation {
	in := &Isolation{Level: plan.Level, Kill: t.kind(), Layers: plan.Layers}
	t.enforce(limits, in)
	sampled := func(field *string, limited bool) {
		if limited && *field == "" {
			*field = heldBySamples
		}
	}
	sampled(&in.Memory, limits.MemoryBytes > 0)
	sampled(&in.Processes, limits.Processes > 0)
	sampled(&in.CPU, limits.CPUTime > 0)
	return in
}
