package execution

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"reprise"
	"reprise/internal/durable"
	"reprise/internal/execution/supervisor"
	"reprise/internal/quota"
)

// waited is a run that waited for its turn when its server ended.
type waited struct {
	waiting
	info   *reprise.StreamInfo
	suffix string
}

// takeWaiting finds the runs among open that were waiting when their server ended, in the order of the queue, and
// removes them from left, the directories of runs. It removes files without a run. It excludes runs whose turn had come
// and whose command may have been started: their directory, which is created if missing, holds their state.
func (h *Host) takeWaiting(
	open []reprise.StreamInfo, left map[reprise.Epoch]bool, files map[reprise.Epoch]string,
) []waited {
	var queue []waited
	for i := range open {
		epoch := open[i].Epoch
		suffix, ok := files[epoch]
		if !ok {
			continue
		}
		file := h.waitingFile(epoch) + suffix
		w, err := loadWaiting(file)
		switch {
		case err != nil:
			h.opts.Logger.Error("an execution that waited cannot be read", "file", file, "error", err)
		case h.neverBegan(epoch, &w, suffix):
			queue = append(queue, waited{w, &open[i], suffix})
			delete(files, epoch)
			delete(left, epoch)
			continue
		}
		if suffix == begunSuffix && !left[epoch] {
			left[epoch] = supervisor.Create(h.waitingFile(epoch)) == nil
		}
	}
	for epoch, suffix := range files {
		_ = os.Remove(h.waitingFile(epoch) + suffix)
	}
	slices.SortFunc(queue, func(a, b waited) int { return cmp.Compare(a.Arrived, b.Arrived) })
	return queue
}

// requeue lets a run wait again that an earlier server has accepted.
func (h *Host) requeue(ctx context.Context, a *waited) error {
	r, err := h.acceptedRun(ctx, a)
	if isOver(err) || errors.Is(err, reprise.ErrFenced) { // it was removed, or another replica has taken it for lost
		return os.Remove(h.waitingFile(a.info.Epoch) + a.suffix)
	}
	if err != nil {
		return err
	}
	if err := h.reserve(r); err != nil {
		return err
	}
	r.Logger().Info("an execution waits again")
	h.admit(r)
	return nil
}

// acceptedRun creates the run again and takes over its stream.
func (h *Host) acceptedRun(ctx context.Context, a *waited) (*Run, error) {
	r, err := h.takeUp(ctx, a.info, a.Request)
	if err != nil {
		return nil, err
	}
	r.arrived = a.Arrived
	r.holder = quota.Holder{
		Account: quota.Account{Tenant: a.info.Key.Tenant, Principal: a.Principal},
		Limits:  a.Quotas, Operator: a.Operator,
	}
	if r.hold = newHold(time.Duration(a.Request.Hold), h.log.Retention(a.info.Config)); r.hold != nil {
		r.hold.token = a.HoldToken
	}
	if a.Language != "" {
		if r.driver, err = h.opts.Drive(a.Language, a.Idle); err != nil {
			return nil, err
		}
	}
	if h.opts.Replica != nil { // see Run.claim
		if err := r.append([]reprise.Event{{Type: Stdout, Format: reprise.FormatBytes}}); err != nil {
			return nil, err
		}
	}
	return r, r.keepAgain(a)
}

// keepAgain is keepWaiting for a run that has a file.
func (r *Run) keepAgain(a *waited) error {
	file := r.host.waitingFile(r.Epoch())
	r.waitsIn = file
	if a.Machine != thisMachine() {
		a.Machine = thisMachine()
		return durable.Write(file+waitingSuffix, mustMarshal(&a.waiting))
	}
	if a.suffix == begunSuffix {
		return durable.Rename(file+begunSuffix, file+waitingSuffix)
	}
	return nil
}
