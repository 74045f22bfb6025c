package execution

import "time"

// verdict is a decision to end a run, and why. The first one holds.
type verdict struct {
	outcome Outcome
	limit   string
	reason  string
	// now: without TERM and grace.
	now bool
}

// ending is the data of the end event of an execution.
type ending struct {
	Outcome         Outcome `json:"outcome"`
	ExitCode        *int    `json:"exit_code"`
	Signal          *string `json:"signal"`
	Error           string  `json:"error,omitempty"`
	Limit           string  `json:"limit,omitempty"`
	OutputTruncated bool    `json:"output_truncated,omitempty"`
	// Started is not there if the process never was.
	Started    *Time  `json:"started,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	Usage      *Usage `json:"usage"`
	Bytes      Bytes  `json:"bytes"`
	// BytesFrom is set on a run whose window had lost its beginning when its output was counted anew, because
	// it was lost or its store had lost output: Bytes then counts from the event with this seq.
	BytesFrom uint64     `json:"bytes_from,omitempty"`
	Isolation *Isolation `json:"isolation,omitempty"`
}

// stop ends the run for a reason, unless another one was first. If its process has
// ended already, what is left of its tree is ended and the outcome stays.
func (r *run) stop(v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A limit was exceeded before the process ended, whenever that is found out.
	if r.verdict == nil && (!r.exited || v.outcome == LimitExceeded) {
		r.verdict = &v
	}
	if !r.stopped {
		r.stopped, r.now = true, v.now
		close(r.stopping)
	}
}

func (r *run) isStopping() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// processEnded closes the time in which a decision counts.
func (r *run) processEnded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exited = true
}

// judge adds to how the run ended why it did.
func (r *run) judge(e ending) ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.verdict != nil:
		e.Outcome, e.Limit = r.verdict.outcome, r.verdict.limit
		if r.verdict.reason != "" {
			e.Error = r.verdict.reason
		}
	case e.Outcome != "":
	case e.Signal != nil:
		e.Outcome = Signaled
	default:
		e.Outcome = Exited
	}
	e.Bytes, e.BytesFrom = r.bytes, r.bytesFrom
	return e
}

// ms is a time as it is written, or nil for none.
func ms(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return &Time{t.UTC().Truncate(time.Millisecond)}
}
