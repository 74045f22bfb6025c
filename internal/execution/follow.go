package execution

import (
	"context"
	"sync"
	"time"

	"reprise"
)

// Follow counts somebody who reads an execution until release is called, for
// Request.KillOnDisconnect. It is safe for concurrent use and does not block;
// release may be called more than once. An execution that does not exist or has
// ended is followed to no effect. Where another replica runs it, that one is told, and
// forgets those who follow here if this replica dies.
func (h *Host) Follow(tenant reprise.Tenant, id string) (release func()) {
	key := keyOf(tenant, id)
	r := h.find(key)
	switch {
	case r == nil && h.opts.Replica != nil:
		return sync.OnceFunc(h.followFar(key, id))
	case r == nil || !r.request.KillOnDisconnect:
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.follow()
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.unfollow()
	})
}

// follow counts one more. The caller holds mu.
func (r *run) follow() {
	r.followers++
	if r.alone != nil {
		r.alone.Stop()
	}
}

// unfollow counts one less. The caller holds mu.
func (r *run) unfollow() {
	r.followers--
	if r.followers == 0 {
		r.alone = time.AfterFunc(r.host.opts.DisconnectGrace, r.deserted)
	}
}

// deserted cancels the run if still nobody follows it.
func (r *run) deserted() {
	r.mu.Lock()
	alone := r.followers == 0
	r.mu.Unlock()
	if alone {
		r.stop(verdict{Outcome: Cancelled, Reason: "nobody followed it any more"})
	}
}

// followedFrom counts those who follow a run of ours on another replica, as one.
func (r *run) followedFrom(ctx context.Context, from string) error {
	if !r.request.KillOnDisconnect {
		return nil
	}
	r.mu.Lock()
	if !r.replicas[from] {
		if r.replicas == nil {
			r.replicas = map[string]bool{}
		}
		r.replicas[from] = true
		r.follow()
	}
	r.mu.Unlock()
	member := r.host.opts.Replica
	if member.Alive(from) {
		return nil
	}
	// It has joined just now, or it died after it asked, and nobody will tell us again.
	err := member.Look(ctx)
	if !member.Alive(from) {
		r.unfollowedFrom(from)
	}
	return err
}

// unfollowedFrom is the inverse of followedFrom.
func (r *run) unfollowedFrom(from string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replicas[from] {
		delete(r.replicas, from)
		r.unfollow()
	}
}

// followersLeft forgets who followed on a replica that has gone.
func (h *Host) followersLeft(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		r.unfollowedFrom(name)
	}
}
