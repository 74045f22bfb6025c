package command

import "sync"

// Verdict is a decision to end a command, and why.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	Limit   string  `json:"limit,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	// Now: without TERM and grace.
	Now bool `json:"now,omitempty"`
}

// Decision is whether a command is to end, and why. The first Verdict holds. It is safe for concurrent use.
type Decision struct {
	stopping chan struct{} // closed when it is to end

	mu      sync.Mutex
	verdict *Verdict // nil if none was given before the process ended
	now     bool     // without TERM and grace
	stopped bool     // stopping is closed
	call    func()   // see OnStop
	exited  bool     // the process has ended
}

// NewDecision returns a Decision that is open.
func NewDecision() *Decision { return &Decision{stopping: make(chan struct{})} }

// Stop ends the command for a reason, unless it was stopped before. If its process has ended already, Stop ends the
// remaining tree and keeps the outcome.
func (d *Decision) Stop(v Verdict) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A limit was exceeded before the process ended, whenever that is found out.
	if d.verdict == nil && (!d.exited || v.Outcome == LimitExceeded) {
		d.verdict = &v
	}
	if !d.stopped {
		d.stopped, d.now = true, v.Now
		close(d.stopping)
	}
	if d.call != nil {
		d.call()
	}
}

// OnStop makes Stop call f, also if it was called before. nil undoes that.
func (d *Decision) OnStop(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.call = f
}

// Stopping returns a channel that is closed when the command is to end.
func (d *Decision) Stopping() <-chan struct{} { return d.stopping }

// IsStopping reports whether the command is to end.
func (d *Decision) IsStopping() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopped
}

// IsNow reports whether the command is to end without TERM and grace. It does not change once Stopping is closed.
func (d *Decision) IsNow() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// Verdict returns why the command is to end, Cancelled if that was decided only after its process had ended.
func (d *Decision) Verdict() Verdict {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.verdict == nil {
		return Verdict{Outcome: Cancelled}
	}
	return *d.verdict
}

// ProcessEnded closes the time in which a Verdict counts.
func (d *Decision) ProcessEnded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.exited = true
}

// Judge adds to how the command ended why it did.
func (d *Decision) Judge(e Ending) Ending {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.verdict != nil:
		e.Outcome, e.Limit = d.verdict.Outcome, d.verdict.Limit
		if d.verdict.Reason != "" {
			e.Error = d.verdict.Reason
		}
	case e.Outcome != "":
	case e.Signal != nil:
		e.Outcome = Signaled
	default:
		e.Outcome = Exited
	}
	return e
}
