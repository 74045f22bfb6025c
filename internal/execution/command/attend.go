package command

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"reprise/internal/wire"
)

// attend manages the process from its start until its whole tree is gone. It puts the output into the spool.
func (j *Job) attend(c *child, spool *spool) Ending {
	j.announce(c, spool)
	pumps := j.pumps(c, spool)
	var reading, feeding sync.WaitGroup
	for _, p := range pumps {
		reading.Go(p.run)
	}
	if c.stdin != nil {
		feeding.Go(func() { j.stdin.start(c.stdin, j.plan.Input, j.plan.StdinOpen) })
	}
	drained := make(chan struct{})
	go func() {
		reading.Wait()
		close(drained)
	}()

	m := newMeter(c.tree, j.plan.Limits)
	ended := j.watch(c, m)
	truncated, left := j.drain(c, m, pumps, drained)
	e, more := j.conclude(c, m)
	if j.graceEnds.IsZero() { // nobody has ended it
		j.tellKilled(&e, left.and(more))
	}
	e.DurationMS = ended.Sub(c.started).Milliseconds()
	j.stdin.end()
	feeding.Wait()
	e.OutputTruncated = truncated || j.outputCut()
	return e
}

// tellKilled adds the processes that were killed at the end.
func (j *Job) tellKilled(e *Ending, left killed) {
	e.KilledProcesses = left.processes
	for _, command := range left.commands {
		for _, secret := range j.plan.Masked {
			command = strings.ReplaceAll(command, secret, mask)
		}
		e.KilledCommands = append(e.KilledCommands, Shorten(command, killedBytes))
	}
}

// conclude ends the remaining tree of a process that has ended. It returns how the process ended, and what was killed.
func (j *Job) conclude(c *child, m *meter) (Ending, killed) {
	if t, ok := c.tree.(interface{ seal() }); ok {
		t.seal()
	}
	m.sample()
	if limit := c.tree.exceeded(); limit != "" { // the kernel has killed it before we could
		j.Stop(Verdict{Outcome: LimitExceeded, Limit: limit})
	}
	left := c.tree.kill() // no process outlives its execution
	e := Ending{Started: wire.At(c.started), Isolation: j.isolated}
	x, err := c.reap()
	if err != nil {
		e.Outcome, e.Error = Lost, err.Error()
	}
	e.ExitCode, e.Signal = x.code, x.signal
	usage := m.usage(x.usage)
	e.Usage = &usage
	return e, left
}

// announce puts the started chunk in front of all output.
func (j *Job) announce(c *child, s *spool) {
	data, err := json.Marshal(struct {
		ID string `json:"id"`
		Shown
		Cwd       string     `json:"cwd"`
		PID       int        `json:"pid"`
		Isolation *Isolation `json:"isolation"`
	}{j.plan.ID, j.plan.Shown, j.plan.Cwd, c.process.Pid, j.isolated})
	if err != nil {
		panic(err) // it has a JSON form whatever is in it
	}
	s.add(Started, data)
}

func (j *Job) pumps(c *child, s *spool) []*pump {
	pumps := []*pump{{kind: Stdout, file: c.stdout, spool: s, admit: j.admit, masker: newMasker(j.plan.Masked)}}
	if c.stderr != nil {
		pumps = append(pumps, &pump{
			kind: Stderr, file: c.stderr, spool: s, admit: j.admit, masker: newMasker(j.plan.Masked),
		})
		if j.plan.StdinOpen {
			inOrder(pumps[0], pumps[1])
		}
	}
	return pumps
}

// admit counts n bytes of output and returns how many of them are within the limit.
func (j *Job) admit(n int) int {
	limit := j.plan.Limits.OutputBytes
	sum := j.output.Add(int64(n))
	if limit == 0 || sum <= limit {
		return n
	}
	j.Stop(Verdict{Outcome: LimitExceeded, Limit: limitOutput, Now: true})
	return int(max(0, int64(n)-(sum-limit)))
}

// outputCut reports whether output was dropped because of the limit.
func (j *Job) outputCut() bool {
	limit := j.plan.Limits.OutputBytes
	return limit > 0 && j.output.Load() > limit
}

// watch waits for the end of the process, which it brings about when that is decided.
// It returns when the process ended.
func (j *Job) watch(c *child, m *meter) time.Time {
	exited := make(chan time.Time, 1)
	go func() {
		c.await()
		j.ProcessEnded()
		exited <- time.Now()
	}()
	timeout := j.timesOut(c)
	sample := time.NewTimer(m.every)
	defer sample.Stop()
	stopping := j.Stopping()
	var patience <-chan time.Time
	for {
		select {
		case end := <-exited:
			return end
		case <-timeout:
			j.Stop(Verdict{Outcome: TimedOut})
		case <-sample.C:
			if limit := m.sample(); limit != "" {
				j.Stop(Verdict{Outcome: LimitExceeded, Limit: limit, Now: true})
			}
			sample.Reset(m.every)
		case <-stopping:
			stopping = nil
			patience = time.After(j.terminate(c))
		case <-patience:
			c.tree.kill()
			patience = time.After(killPatience) // in case it was not killed: it sleeps in the kernel
		}
	}
}

// timesOut returns the channel of a timer for the timeout of a process, or nil if it has none.
func (j *Job) timesOut(c *child) <-chan time.Time {
	if j.plan.Timeout == 0 {
		return nil
	}
	return time.After(time.Until(c.started.Add(j.plan.Timeout)))
}

// terminate sends TERM to the tree and returns the time until it is killed.
func (j *Job) terminate(c *child) time.Duration {
	j.graceEnds = time.Now()
	if !j.IsNow() {
		j.graceEnds = j.graceEnds.Add(j.plan.Grace)
		c.tree.terminate()
	}
	return time.Until(j.graceEnds)
}

// drain waits until the output of a process that has ended is read. Others of its tree may
// hold the pipes open: they get DrainTimeout, or the time of grace that is left, and then
// output may be missing. Timeout and limits hold meanwhile. How long the store takes does not count.
func (j *Job) drain(c *child, m *meter, pumps []*pump, drained <-chan struct{}) (
	truncated bool, left killed,
) {
	patience := j.plan.Drain
	stopping := j.Stopping()
	if !j.graceEnds.IsZero() {
		stopping, patience = nil, min(patience, time.Until(j.graceEnds))
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	timeout := j.timesOut(c)
	sample := time.NewTimer(m.every)
	defer sample.Stop()
	for waiting := true; waiting; {
		select {
		case <-drained:
			return false, left
		case <-timeout:
			j.Stop(Verdict{Outcome: TimedOut})
		case <-sample.C:
			if limit := m.sample(); limit != "" {
				j.Stop(Verdict{Outcome: LimitExceeded, Limit: limit, Now: true})
				timer.Reset(0)
			}
			sample.Reset(m.every)
		case <-stopping:
			stopping = nil
			timer.Reset(min(patience, j.terminate(c)))
		case <-timer.C:
			waiting = false
		}
	}
	left = c.tree.kill()
	truncated = left.processes > 0
	for _, p := range pumps {
		p.finish()
	}
	<-drained
	for _, p := range pumps {
		truncated = truncated || p.cut
	}
	return truncated, left
}
