package command

import (
	"time"

	"reprise/internal/isolation"
)

// The names of the limits in Ending.Limit.
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
	// sampleEvery is the interval at which the tree of a run with limits is measured.
	sampleEvery = 100 * time.Millisecond
	// The tree of other runs is measured only to report its usage, at growing intervals.
	firstSample = 20 * time.Millisecond
	idleSample  = 2 * time.Second
)

// meter measures the resource use of a run and reports when it exceeds a limit.
type meter struct {
	tree   tree
	limits Limits
	every  time.Duration
	most   treeUsage
}

func newMeter(t tree, limits Limits) *meter {
	m := &meter{tree: t, limits: limits, every: sampleEvery}
	if !limits.OnProcesses() {
		m.every = firstSample
	}
	return m
}

// sample looks at the tree and returns the name of the limit that is exceeded, or "".
func (m *meter) sample() string {
	if !m.limits.OnProcesses() {
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

// usage returns the resource use of the run: the kernel's figure for the reaped process, or the measured figure for the
// whole tree, whichever is higher.
func (m *meter) usage(reaped Usage) Usage {
	return Usage{
		UserMS:      max(reaped.UserMS, m.most.user.Milliseconds()),
		SystemMS:    max(reaped.SystemMS, m.most.sys.Milliseconds()),
		MaxRSSBytes: max(reaped.MaxRSSBytes, m.most.maxRSS),
	}
}

// isolate enforces the limits of the request and returns the limits in force with the layers of the plan.
func isolate(t tree, plan *isolation.Plan, limits Limits) *Isolation {
	in := &Isolation{Level: string(plan.Level), Kill: t.kind(), Layers: plan.Layers}
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
