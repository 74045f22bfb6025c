package execution

import (
	"errors"
	"time"

	"reprise"
	"reprise/internal/backoff"
)

// write appends the contents of the spool until the spool is closed. An error means that the rest cannot be kept; the
// run is ended then.
func (r *run) write(s *spool) error {
	err := s.drain(func(events []reprise.Event) error {
		if d := s.stall(); d > 0 && r.host.opts.Hooks.Stalled != nil {
			r.host.opts.Hooks.Stalled(r.key.Tenant, d)
		}
		return r.append(events)
	})
	switch {
	case err == nil:
	case errors.Is(err, reprise.ErrFenced):
		s.abandon()
		r.fence()
	default:
		s.abandon()
		r.host.opts.Logger.Error("the output of an execution cannot be kept",
			"execution", r.id, "tenant", r.key.Tenant, "error", err)
		r.stop(verdict{Outcome: Cancelled, Reason: notKept, Now: true})
	}
	return err
}

// notKept is the reason of a cancelled run whose output could not be kept, or the note on a run that had ended already.
const notKept = "its output could not be kept"

// append appends events, in parts where they wait for a follower.
func (r *run) append(events []reprise.Event) error {
	for r.hold != nil {
		n := r.hold.fits(events)
		if n == len(events) {
			break
		}
		if err := r.appendTogether(events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return r.appendTogether(events)
}

func (r *run) appendTogether(events []reprise.Event) error {
	more := outputOf(events)
	batch := appended{events: len(events), bytes: more.Stdout + more.Stderr}
	if r.hold != nil {
		r.holdBack(batch)
	}
	r.mu.Lock()
	r.coming = &counted{Bytes: r.bytes.plus(more), Tail: r.tail + uint64(len(events))}
	r.mu.Unlock()
	kept, err := r.persist(func() (reprise.Appended, error) { return r.appender.Append(events...) })
	if err == nil && r.hold != nil {
		batch.last = kept.Last
		r.hold.add(batch)
	}
	r.mu.Lock()
	r.coming = nil
	if err == nil {
		r.tail, r.bytes = kept.Last, r.bytes.plus(more)
	}
	r.mu.Unlock()
	if err == nil && r.driven != nil {
		return r.take(events, kept.Last)
	}
	return err
}

// outputOf counts the output in events.
func outputOf(events []reprise.Event) (b Bytes) {
	for i := range events {
		switch events[i].Type {
		case Stdout:
			b.Stdout += int64(len(events[i].Data))
		case Stderr:
			b.Stderr += int64(len(events[i].Data))
		}
	}
	return b
}

// producerID names the runs as idempotent producers of their streams.
const producerID = "run"

// writeTo makes s the stream that the run appends to.
func (r *run) writeTo(s *reprise.Stream) { r.writeAs(s, producerID) }

// writeAs is writeTo for the producer of an id.
func (r *run) writeAs(s *reprise.Stream, id string) {
	r.stream = s
	r.appender = s.Appender(r.host.ctx, &reprise.AppenderOptions{ID: id, Owner: r.owner})
}

// persist appends with the Appender, and repeats that if the store has lost acknowledged events.
func (r *run) persist(appendOnce func() (reprise.Appended, error)) (reprise.Appended, error) {
	for {
		appended, err := appendOnce()
		if !errors.Is(err, reprise.ErrConflict) {
			return appended, err
		}
		if err := r.recount(); err != nil {
			return appended, err
		}
		if r.lostEvents != nil {
			if err := r.lostEvents(); err != nil {
				return appended, err
			}
		}
	}
}

// recount determines the kept output of the stream after its store has lost output.
func (r *run) recount() error {
	pause := backoff.Backoff{First: firstRetry, Most: lastRetry}
	for {
		err := r.tryRecount()
		if !errors.Is(err, reprise.ErrUnavailable) {
			return err
		}
		if err := pause.Wait(r.host.ctx); err != nil {
			return err
		}
	}
}

// The spans of the first and of the longest pause between two tries to recount.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = time.Second
)

func (r *run) tryRecount() error {
	info, err := r.stream.Info(r.host.ctx)
	if err != nil {
		return err
	}
	t, err := count(r.host.ctx, r.stream, info.Tail)
	if err != nil {
		return err
	}
	r.host.opts.Logger.Error("the store has lost output of an execution that it had acknowledged",
		"execution", r.id, "tenant", r.key.Tenant, "last", r.tail, "kept", info.Tail)
	r.cut = true
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes, r.tail, r.coming = t.bytes, info.Tail, nil
	if t.from > 1 {
		r.bytesFrom = t.from
	}
	return nil
}

// end appends the end event. kept is false if the event could not be appended now, but may be later.
func (r *run) end(e ending) (kept bool) { return r.endWith(nil, e) }

// endWith is end for a run whose last events were not appended yet. They are appended together with the end.
func (r *run) endWith(events []reprise.Event, e ending) (kept bool) {
	if r.driven != nil {
		if !e.judged {
			e, e.judged = r.judge(e), true
		}
		if r.interpreterEnded(e) != nil {
			return false
		}
	}
	if r.artifacts != nil && e.Started != nil {
		e.Artifacts, e.ArtifactNotes = r.collect()
	}
	r.host.queue.leave(r)
	more := outputOf(events)
	_, err := r.persist(func() (reprise.Appended, error) {
		if !e.judged {
			e = r.judge(e)
		}
		e.OutputTruncated = e.OutputTruncated || r.cut
		r.mu.Lock()
		e.Bytes, e.BytesFrom = r.bytes.plus(more), r.bytesFrom
		r.mu.Unlock()
		end := reprise.Event{Format: reprise.FormatMembers, Data: mustMarshal(e)}
		return r.appender.End(string(e.Outcome), append(events[:len(events):len(events)], end)...)
	})
	switch {
	case err == nil:
	case errors.Is(err, reprise.ErrFenced):
		r.fence() // the owner that has taken the run over has ended it
		return true
	case (r.remote != nil || r.inside != nil) && r.host.ctx.Err() != nil:
		return false // the next server gives it
	case len(events) > 0 && !isOver(err):
		r.host.opts.Logger.Error("the last output of an execution cannot be kept", "execution", r.id,
			"tenant", r.key.Tenant, "error", err)
		r.cut = true
		return r.end(e)
	default:
		r.host.opts.Logger.Error("an execution has no end",
			"execution", r.id, "tenant", r.key.Tenant, "outcome", e.Outcome, "error", err)
		return isOver(err)
	}
	r.host.endKey(r.host.ctx, r.key, &r.config, e.Outcome)
	if hook := r.host.opts.Hooks.Ended; hook != nil {
		hook(r.key.Tenant, e.Outcome, time.Duration(e.DurationMS)*time.Millisecond)
	}
	if hook := r.host.opts.Hooks.Finished; hook != nil && r.request.TraceParent != "" {
		hook(r.request.TraceParent, r.key, e.Outcome)
	}
	return true
}
