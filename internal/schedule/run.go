package schedule

import (
	"context"
	"errors"
	"maps"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/registry"
)

const (
	// ownerName is the owner name of the runner; its fence is Run's.
	ownerName = "schedules"
	// late is the longest delay of a slot that is not missed: another replica takes over within seconds.
	late = time.Minute
	// maxMissed bounds the count of missed slots.
	maxMissed = 10_000
	// label is the label of an execution that holds the id of its schedule.
	label = "schedule"
	// maxSleep bounds a sleep, since the clock may be set meanwhile.
	maxSleep = 30 * time.Second
)

// Run starts due executions until ctx is done and returns the cause. fence must be higher than in all earlier calls on
// any replica. If another call has a higher fence, the error is reprise.ErrFenced.
func (s *Schedules) Run(ctx context.Context, fence uint64) error {
	return s.known.Each(ctx, func(one *Schedule) bool { return one.Disabled == nil },
		func(ctx context.Context, e registry.Entry[Schedule]) error { return s.run(ctx, e, fence) })
}

// run runs one schedule and retries failures of the store.
func (s *Schedules) run(ctx context.Context, e registry.Entry[Schedule], fence uint64) error {
	wait := backoff.Backoff{First: 100 * time.Millisecond, Most: 10 * time.Second}
	for {
		err := s.runOnce(ctx, &e.Value, reprise.Owner{Name: ownerName, Fence: fence}, &wait)
		if ctx.Err() != nil || errors.Is(err, reprise.ErrFenced) || err == nil {
			return err
		}
		s.opts.Logger.Info("a schedule has to wait", "schedule", e.Value.ID, "tenant", e.Value.Tenant, "error", err)
		if err := wait.Wait(ctx); err != nil {
			return err
		}
	}
}

// runOnce runs one schedule until an error. It returns nil if the schedule is disabled.
func (s *Schedules) runOnce(ctx context.Context, one *Schedule, owner reprise.Owner,
	wait *backoff.Backoff,
) error {
	st, last, err := s.claim(ctx, one, owner)
	if err != nil {
		return err
	}
	if last == nil {
		last = &Slot{At: one.Created}
	} else if last.At.Before(one.Created) { // it was enabled after that slot
		last = &Slot{At: one.Created, Last: last.Last}
	}
	for {
		next := one.next(last.At)
		if next.IsZero() {
			return s.giveUp(ctx, one, "it is due no more")
		}
		if err := sleepUntil(ctx, next); err != nil {
			return err
		}
		slot, err := s.pass(ctx, one, next, last.Last)
		if errors.Is(err, identity.ErrUnauthenticated) || errors.Is(err, identity.ErrForbidden) {
			return s.giveUp(ctx, one, "the credential of "+one.Principal+", who made it, does not allow it any more")
		}
		if mayPass(err) {
			s.opts.Logger.Info("a schedule cannot start its execution yet",
				"schedule", one.ID, "tenant", one.Tenant, "error", err)
			if err := wait.Wait(ctx); err != nil {
				return err
			}
			continue // until the slot is missed
		}
		if err == nil {
			err = note(ctx, st, owner, slot)
		}
		if err != nil {
			return err
		}
		s.opts.Passed(one, slot)
		last = &slot
		wait.Reset()
	}
}

// giveUp disables a schedule that can start nothing any more. ctx ends as soon as that is read, before it is answered.
func (s *Schedules) giveUp(ctx context.Context, one *Schedule, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mostDisabling)
	defer cancel()
	_, err := s.Disable(ctx, one.Tenant, one.ID, reason)
	if err == nil {
		s.opts.Disabled(one, reason)
	}
	return err
}

// mostDisabling bounds the time that it takes to disable a schedule.
const mostDisabling = 10 * time.Second

// mayPass reports whether a failed start may succeed later.
func mayPass(err error) bool {
	return errors.Is(err, reprise.ErrUnavailable) || errors.Is(err, reprise.ErrQuota) ||
		errors.Is(err, reprise.ErrClosed)
}

// sleepUntil waits for a moment.
func sleepUntil(ctx context.Context, at time.Time) error {
	for {
		left := time.Until(at)
		if left <= 0 {
			return nil
		}
		if err := backoff.Sleep(ctx, min(left, maxSleep)); err != nil {
			return err
		}
	}
}

// pass handles a slot.
func (s *Schedules) pass(ctx context.Context, one *Schedule, at time.Time, last string) (Slot, error) {
	if time.Since(at) <= late || one.Once && one.isNewest(at) {
		return s.start(ctx, one, at, last)
	}
	missed := Slot{At: at, Outcome: Missed, Count: 1, Last: last}
	for missed.Count < maxMissed {
		next := one.next(missed.At)
		if next.IsZero() || time.Since(next) <= late || one.Once && one.isNewest(next) {
			break
		}
		missed.At, missed.Count = next, missed.Count+1
	}
	return missed, nil
}

// isNewest reports whether the slot after one is still to come.
func (s *Schedule) isNewest(at time.Time) bool {
	next := s.next(at)
	return next.IsZero() || time.Since(next) < 0
}

// start starts the execution of a slot.
func (s *Schedules) start(ctx context.Context, one *Schedule, at time.Time, last string) (Slot, error) {
	slot := Slot{At: at, Last: last}
	who, err := s.opts.Principal(ctx, one.Tenant, one.Principal)
	if err != nil {
		return slot, err
	}
	if !who.MayOn(identity.ScopeRun, one.Execution.Session) ||
		one.Execution.User != "" && !who.May(identity.ScopeAdmin) {
		return slot, identity.ErrForbidden
	}
	q := one.Execution
	q.ID = one.ID + "-" + at.UTC().Format("20060102T150405Z")
	if last != "" && last != q.ID && !one.Overlap {
		runs, err := s.isRunning(ctx, one.Tenant, last)
		if err != nil {
			return slot, err
		}
		if runs {
			slot.Outcome, slot.Execution = Skipped, last
			return slot, nil
		}
	}
	q.Labels = maps.Clone(q.Labels)
	if q.Labels == nil {
		q.Labels = map[string]string{}
	}
	q.Labels[label] = one.ID
	_, _, err = s.opts.Start(ctx, &who, q)
	switch _, wrong := errors.AsType[*execution.FieldError](err); {
	case err == nil:
		slot.Outcome, slot.Execution, slot.Last = Started, q.ID, q.ID
	case wrong, errors.Is(err, reprise.ErrConflict), errors.Is(err, reprise.ErrExpired):
		slot.Outcome, slot.Error = Failed, err.Error()
	case errors.Is(err, reprise.ErrQuota) && time.Since(at) > late/2:
		slot.Outcome, slot.Error = Failed, err.Error()
	default:
		return slot, err // the caller tries again
	}
	return slot, nil
}

// isRunning reports whether an execution has not ended.
func (s *Schedules) isRunning(ctx context.Context, tenant reprise.Tenant, id string) (bool, error) {
	x, err := s.opts.Show(ctx, tenant, id)
	if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
		return false, nil
	}
	return x.Status != execution.StatusEnded, err
}
