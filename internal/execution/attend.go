package execution

import (
	"sync"
	"time"

	"reprise"
)

// attend is with the process from its start to the end event.
func (r *run) attend(c *child) {
	spool := newSpool()
	r.announce(c, spool)
	pumps := r.pumps(c, spool)
	var reading, writing, feeding sync.WaitGroup
	for _, p := range pumps {
		reading.Go(p.run)
	}
	var unkept error
	writing.Go(func() { unkept = r.write(spool) })
	if c.stdin != nil {
		feeding.Go(func() { r.stdin.start(c.stdin, r.request.input(), r.request.StdinOpen) })
	}
	drained := make(chan struct{})
	go func() {
		reading.Wait()
		close(drained)
	}()

	m := newMeter(c.tree, r.request.Limits)
	ended := r.watch(c, m)
	truncated := r.drain(c, pumps, drained)
	e := r.conclude(c, m)
	e.DurationMS = ended.Sub(c.started).Milliseconds()
	r.stdin.end()
	feeding.Wait()
	spool.close()
	writing.Wait()

	e.OutputTruncated = truncated || r.outputCut()
	if unkept != nil {
		e.OutputTruncated, e.Error = true, notKept
	}
	r.end(e)
}

// conclude ends what is left of the tree of a process that has ended, and says how it did.
func (r *run) conclude(c *child, m *meter) ending {
	m.sample()
	if limit := c.tree.exceeded(); limit != "" { // the kernel has killed it before we could
		r.stop(verdict{outcome: LimitExceeded, limit: limit})
	}
	c.tree.kill() // nothing of an execution outlives it
	e := ending{Started: ms(c.started), Isolation: r.isolated}
	x, err := c.reap()
	if err != nil {
		e.Outcome, e.Error = Lost, err.Error()
	}
	e.ExitCode, e.Signal = x.code, x.signal
	usage := m.usage(x.usage)
	e.Usage = &usage
	return e
}

// announce puts the started event in front of all output.
func (r *run) announce(c *child, s *spool) {
	said := describe(&r.request)
	data := mustMarshal(struct {
		ID        string     `json:"id"`
		Argv      []string   `json:"argv,omitempty"`
		Command   string     `json:"command,omitempty"`
		Language  string     `json:"language,omitempty"`
		PID       int        `json:"pid"`
		Isolation *Isolation `json:"isolation"`
	}{r.id, said.Argv, said.Command, said.Language, c.process.Pid, r.isolated})
	s.add(eventStarted, reprise.FormatMembers, data)
}

// eventStarted is the type of the first event of an execution whose process was started.
const eventStarted = "started"

func (r *run) pumps(c *child, s *spool) []*pump {
	pumps := []*pump{{channel: Stdout, file: c.stdout, spool: s, admit: r.admit}}
	if c.stderr != nil {
		pumps = append(pumps, &pump{channel: Stderr, file: c.stderr, spool: s, admit: r.admit})
	}
	return pumps
}

// admit counts n bytes of output and says how many of them are within the limit.
func (r *run) admit(n int) int {
	limit := r.request.Limits.OutputBytes
	sum := r.output.Add(int64(n))
	if limit == 0 || sum <= limit {
		return n
	}
	r.stop(verdict{outcome: LimitExceeded, limit: limitOutput, now: true})
	return int(max(0, int64(n)-(sum-limit)))
}

// outputCut reports whether output was dropped because of the limit.
func (r *run) outputCut() bool {
	limit := r.request.Limits.OutputBytes
	return limit > 0 && r.output.Load() > limit
}

// watch waits for the end of the process, which it brings about when that is decided.
// It returns when the process ended.
func (r *run) watch(c *child, m *meter) time.Time {
	exited := make(chan time.Time, 1)
	go func() {
		c.await()
		r.processEnded()
		exited <- time.Now()
	}()
	var timeout <-chan time.Time
	if d := r.timeout(); d > 0 {
		timer := time.NewTimer(time.Until(c.started.Add(d)))
		defer timer.Stop()
		timeout = timer.C
	}
	sample := time.NewTimer(m.every)
	defer sample.Stop()
	stopping := r.stopping
	var patience <-chan time.Time
	for {
		select {
		case end := <-exited:
			return end
		case <-timeout:
			r.stop(verdict{outcome: TimedOut})
		case <-sample.C:
			if limit := m.sample(); limit != "" {
				r.stop(verdict{outcome: LimitExceeded, limit: limit, now: true})
			}
			sample.Reset(m.every)
		case <-stopping:
			stopping = nil
			patience = time.After(r.terminate(c))
		case <-patience:
			c.tree.kill()
			patience = time.After(killPatience) // in case it was not killed: it sleeps in the kernel
		}
	}
}

// terminate asks the tree to end and returns how long it has before it is killed.
func (r *run) terminate(c *child) time.Duration {
	r.graceEnds = time.Now()
	if !r.now { // it does not change once stopping is closed
		r.graceEnds = r.graceEnds.Add(r.grace())
		c.tree.terminate()
	}
	return time.Until(r.graceEnds)
}

func (r *run) timeout() time.Duration {
	d, most := time.Duration(r.request.Timeout), r.host.opts.MaxTimeout
	if d == 0 || most > 0 && d > most {
		return most
	}
	return d
}

// drain waits until the output of a process that has ended is read. Others of its tree may
// hold the pipes open: they get DrainTimeout, or the time of grace that is left, and then
// output may be missing. How long the store takes does not count.
func (r *run) drain(c *child, pumps []*pump, drained <-chan struct{}) (truncated bool) {
	patience := r.host.opts.DrainTimeout
	stopping := r.stopping
	if !r.graceEnds.IsZero() {
		stopping, patience = nil, min(patience, time.Until(r.graceEnds))
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case <-drained:
			return false
		case <-stopping:
			stopping = nil
			timer.Reset(min(patience, r.terminate(c)))
		case <-timer.C:
			waiting = false
		}
	}
	truncated = c.tree.kill() > 0
	for _, p := range pumps {
		p.finish()
	}
	<-drained
	for _, p := range pumps {
		truncated = truncated || p.cut
	}
	return truncated
}
