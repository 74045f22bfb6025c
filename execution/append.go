package execution

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"reprise"
)

// write appends what is in the spool until it is closed. The error is why the rest cannot
// be kept; the run is ended then.
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
		r.host.opts.Logger.Error("the output of an execution cannot be kept", "execution", r.id, "tenant", r.key.Tenant, "error", err)
		r.stop(verdict{outcome: Cancelled, reason: notKept, now: true})
	}
	return err
}

// notKept is why a run was cancelled, or what is wrong with one that had ended already.
const notKept = "its output could not be kept"

func (r *run) append(events []reprise.Event) error {
	appended, err := r.persist(func(ctx context.Context, opts reprise.AppendOptions) (reprise.Appended, error) {
		return r.stream.AppendWith(ctx, opts, events...)
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tail = appended.Last
	for i := range events {
		switch events[i].Type {
		case Stdout:
			r.bytes.Stdout += int64(len(events[i].Data))
		case Stderr:
			r.bytes.Stderr += int64(len(events[i].Data))
		}
	}
	return nil
}

// producerID names the runs as idempotent producers of their streams: an append whose
// answer was lost is tried again and is kept once.
const producerID = "run"

// The time between two tries to append begins with the first and goes up to the last.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = time.Second
)

// persist appends until that succeeds or cannot succeed any more.
func (r *run) persist(appendTo func(context.Context, reprise.AppendOptions) (reprise.Appended, error)) (reprise.Appended, error) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		appended, err := appendTo(r.host.ctx, reprise.AppendOptions{
			Producer: &reprise.ProducerID{ID: producerID, Epoch: r.lives, Seq: r.appends}, Owner: r.owner,
		})
		refused := errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrConflict)
		if refused {
			appended, err = r.resume()
		}
		switch {
		case err == nil && refused && !appended.Duplicate:
		case err == nil:
			r.appends++
			return appended, nil
		case !errors.Is(err, reprise.ErrUnavailable) && !errors.Is(err, reprise.ErrQuota):
			return appended, err
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-timer.C:
		case <-r.host.ctx.Done():
			timer.Stop()
			return appended, context.Cause(r.host.ctx)
		}
	}
}

// resume finds a stream again that was refused, because it goes on under another epoch: its store was restarted or
// restored and may have lost what it had acknowledged. Duplicate is true if the append that was
// refused is there after all. The error is reprise.ErrNotFound if the stream is really gone.
func (r *run) resume() (reprise.Appended, error) {
	s, err := r.host.log.Stream(r.host.ctx, r.key)
	if err != nil {
		return reprise.Appended{}, err
	}
	info, err := s.Info(r.host.ctx)
	switch {
	case err != nil:
		return reprise.Appended{}, err
	case info.Owner.Fence > r.owner.Fence:
		return reprise.Appended{}, reprise.ErrFenced
	case info.Owner != r.owner || !info.Config.Equal(r.config) || r.host.find(r.key) != r:
		return reprise.Appended{}, reprise.ErrNotFound // another execution has the id now
	}
	r.stream = s
	for _, p := range info.Producers {
		switch {
		case p.ID != producerID || p.Epoch != r.lives:
		case p.Seq == r.appends:
			return reprise.Appended{First: p.First, Last: p.Last, Duplicate: true}, nil
		case p.Seq+1 == r.appends:
			return reprise.Appended{}, nil // nothing was lost
		}
	}
	if r.appends == 0 {
		return reprise.Appended{}, nil
	}
	return reprise.Appended{}, r.recount(&info)
}

// recount goes on with a stream that has lost events of ours.
func (r *run) recount(info *reprise.StreamInfo) error {
	t, err := count(r.host.ctx, r.stream, info.Tail)
	if err != nil {
		return err
	}
	r.host.opts.Logger.Error("the store has lost output of an execution that it had acknowledged",
		"execution", r.id, "tenant", r.key.Tenant, "last", r.tail, "kept", info.Tail)
	r.lives, r.appends, r.cut = r.lives+1, 0, true
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes, r.tail = t.bytes, info.Tail
	if t.from > 1 {
		r.bytesFrom = t.from
	}
	return nil
}

// end appends the end event.
func (r *run) end(e ending) {
	_, err := r.persist(func(ctx context.Context, opts reprise.AppendOptions) (reprise.Appended, error) {
		e = r.judge(e)
		e.OutputTruncated = e.OutputTruncated || r.cut
		return r.stream.EndWith(ctx, opts, string(e.Outcome), reprise.Event{Format: reprise.FormatMembers, Data: mustMarshal(e)})
	})
	switch {
	case err == nil:
	case errors.Is(err, reprise.ErrFenced):
		r.fence() // who has taken it over has given it its end
		return
	default:
		r.host.opts.Logger.Error("an execution has no end", "execution", r.id, "tenant", r.key.Tenant, "outcome", e.Outcome, "error", err)
		return
	}
	if hook := r.host.opts.Hooks.Ended; hook != nil {
		hook(r.key.Tenant, e.Outcome, time.Duration(e.DurationMS)*time.Millisecond)
	}
}
