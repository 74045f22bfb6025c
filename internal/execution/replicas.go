package execution

import (
	"fmt"
	"time"

	"reprise"
	"reprise/internal/execution/command"
	"reprise/replica"
)

// This file makes a Host one of several replicas. A run belongs to the replica that has started it: its stream has an
// Owner, and the store refuses appends of others without a higher fence. If the others end the name of a replica, that
// replica is dead, and the first one to reach each of its executions ends it as lost, under the next fence.

const (
	// scanEvery is the interval of the scans for abandoned executions, in addition to those when a replica has left.
	scanEvery = 5 * time.Minute
	// scanRetry is the time after one that has failed.
	scanRetry = time.Second
)

// attendReplicas starts to receive messages of the other replicas.
func (h *Host) attendReplicas() {
	if h.opts.Replica == nil {
		return
	}
	h.unwatch = h.opts.Replica.Watch(replica.Watch{
		Left: func(name string) {
			h.followersLeft(name)
			select {
			case h.gone <- struct{}{}:
			default:
			}
		},
		Fenced: h.fence,
	})
	h.opts.Replica.Serve(service, h.answer)
	h.caretaker.Go(h.takeCare)
}

// leaveReplicas ends what attendReplicas began, once h.ctx is done.
func (h *Host) leaveReplicas() {
	h.unwatch()
	if h.opts.Replica != nil {
		h.opts.Replica.Serve(service, nil)
	}
	h.caretaker.Wait()
}

// takeCare ends what dead replicas have left, whenever one has gone and now and then.
func (h *Host) takeCare() {
	timer := time.NewTimer(scanEvery)
	defer timer.Stop()
	for {
		select {
		case <-h.gone:
		case <-timer.C:
		case <-h.ctx.Done():
			return
		}
		next := scanEvery
		if err := h.recover(h.ctx); err != nil && h.ctx.Err() == nil {
			h.opts.Logger.Warn("executions of dead replicas have no end yet", "error", err)
			next = scanRetry
		}
		timer.Reset(next)
	}
}

// aloneName is the name with which a Host without replicas takes over executions of replicas.
const aloneName = "host"

// owner returns the owner under which executions are started: this replica, under its current name, or none without
// replicas.
func (h *Host) owner() (reprise.Owner, error) {
	if h.opts.Replica == nil {
		return reprise.Owner{}, nil
	}
	name := h.opts.Replica.Name()
	if name == "" {
		return reprise.Owner{}, fmt.Errorf("%w: this replica was taken for dead and has not joined again",
			reprise.ErrUnavailable)
	}
	return reprise.Owner{Name: name, Fence: 1}, nil
}

// fence kills the runs that this replica owns under a name that was declared dead.
func (h *Host) fence(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		if r.owner.Name == name {
			r.fence()
		}
	}
}

// checkOwner fences a new run whose owner was taken for dead while it was made.
func (h *Host) checkOwner(r *Run) {
	if h.opts.Replica != nil && h.opts.Replica.Name() != r.owner.Name {
		r.fence()
	}
}

// checkOwners calls checkOwner for the runs that were adopted before messages of other replicas were received.
func (h *Host) checkOwners() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		h.checkOwner(r)
	}
}

// fencedOff is why a run of a replica was killed that was taken for dead.
const fencedOff = "the server stood still or could not reach the store, and was taken for dead"

// fence kills a run that others have taken over, or will: it must not run twice. It is safe to call more than once.
func (r *Run) fence() {
	r.mu.Lock()
	again := r.fenced
	r.fenced = true
	r.mu.Unlock()
	if again {
		return
	}
	r.Logger().Error("killing execution: other replicas declared it lost", "owner", r.owner.Name)
	if hook := r.host.opts.Hooks.Fenced; hook != nil {
		hook(r.key.Tenant)
	}
	r.Stop(command.Verdict{Outcome: Lost, Reason: fencedOff, Now: true})
}
