package execution

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"reprise"
	"reprise/internal/execution/command"
)

// recover ends the executions without an end that no server runs any more, and kills their remaining processes on this
// machine.
func (h *Host) recover(ctx context.Context) error {
	left, err := h.abandoned(ctx)
	if err != nil {
		return err
	}
	marks := make([]string, len(left))
	for i := range left {
		marks[i] = markOf(left[i].Epoch)
	}
	if h.opts.Replica == nil {
		command.KillMarked(marks) // no process outlives its execution
	} else {
		// The owner must be fenced off first. If it is only slow, and on this machine too, it would otherwise report
		// that the killed processes ended by a signal.
		defer command.KillMarked(marks)
	}
	for _, i := range rand.Perm(len(left)) { // other replicas do the same now, and each begins somewhere else
		if err := h.takeOver(ctx, &left[i]); err != nil {
			return err
		}
	}
	return h.endKeys(ctx)
}

// abandoned returns the streams of the executions of all tenants that have no end and that no server runs.
func (h *Host) abandoned(ctx context.Context) ([]reprise.StreamInfo, error) {
	open, err := h.unended(ctx)
	open = slices.DeleteFunc(open, func(info reprise.StreamInfo) bool { // ours, under whatever name
		return h.find(info.Key) != nil
	})
	if err != nil || len(open) == 0 || h.opts.Replica == nil {
		return open, err
	}
	// Every owner joined before its executions began, so one that is not there now has gone.
	if err := h.opts.Replica.Look(ctx); err != nil {
		return nil, err
	}
	self := h.opts.Replica.Name()
	left := open[:0]
	for _, info := range open {
		switch {
		case h.find(info.Key) != nil: // since
		case info.Owner.Name == self:
			if err := h.forgotten(ctx, &info); err != nil {
				return nil, err
			}
		case !h.opts.Replica.Alive(info.Owner.Name):
			left = append(left, info)
		}
	}
	return left, nil
}

// forgotten ends an execution of ours that has no run, if that is still the case: its stream was created, but its start
// was reported as failed.
func (h *Host) forgotten(ctx context.Context, info *reprise.StreamInfo) error {
	unlock, err := h.lock(ctx, info.Key)
	if err != nil {
		return err
	}
	defer unlock()
	if h.find(info.Key) != nil {
		return nil
	}
	return h.takeOver(ctx, info)
}

// unended are the streams of all tenants' executions that have no end.
func (h *Host) unended(ctx context.Context) ([]reprise.StreamInfo, error) {
	var open []reprise.StreamInfo
	query := reprise.ListQuery{Namespace: Namespace, Open: true}
	err := eachStream(ctx, h.log, query, func(info *reprise.StreamInfo) error {
		open = append(open, *info)
		return nil
	})
	return open, err
}

// takeOver ends an execution as lost, unless another replica does so or has done so.
func (h *Host) takeOver(ctx context.Context, info *reprise.StreamInfo) error {
	owner, err := h.nextOwner(info)
	if err != nil {
		return err
	}
	duration, err := h.lose(ctx, info, reprise.AppendOptions{Owner: owner})
	switch {
	case err == nil:
		h.opts.Logger.Warn("an execution was lost",
			"execution", info.Key.Name, "tenant", info.Key.Tenant, "owner", info.Owner.Name)
		if hook := h.opts.Hooks.TakenOver; hook != nil && h.opts.Replica != nil {
			hook(info.Key.Tenant)
		}
		if hook := h.opts.Hooks.Ended; hook != nil {
			hook(info.Key.Tenant, Lost, duration)
		}
	case isOver(err), errors.Is(err, reprise.ErrFenced): // by another replica
	default:
		return err
	}
	return nil
}

// isOver reports whether nothing more can be appended.
func isOver(err error) bool {
	return errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) || errors.Is(err, reprise.ErrEnded)
}

// lose ends an execution as lost, with the data in its kept events. It returns how long the execution is known to have
// run. Events that were appended since info was listed are kept and not counted.
func (h *Host) lose(ctx context.Context, info *reprise.StreamInfo, opts reprise.AppendOptions) (time.Duration, error) {
	s, err := h.log.Stream(ctx, info.Key)
	if err != nil {
		return 0, err
	}
	if s.Cursor(0).Epoch != info.Epoch {
		return 0, reprise.ErrNotFound // the id was used again
	}
	t, err := count(ctx, s, info.Tail)
	if err != nil {
		return 0, err
	}
	e := ending{Ending: command.Ending{
		Outcome: Lost, Bytes: t.bytes,
		Error: "the server died while the command ran",
	}}
	if t.from > 1 {
		e.BytesFrom = t.from
	}
	if info.Tail == 0 {
		e.Error = neverStarted
	}
	t.date(&e.Ending)
	at := time.Now()
	if err := h.remember(ctx, info, &e, at); err != nil {
		return 0, err
	}
	_, err = s.EndWith(ctx, opts, string(Lost), reprise.Event{
		Time: at, Format: reprise.FormatMembers, Data: mustMarshal(e),
	})
	if err == nil {
		h.endKey(ctx, info.Key, &info.Config, Lost)
	}
	return time.Duration(e.DurationMS) * time.Millisecond, err
}
