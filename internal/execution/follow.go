package execution

import (
	"context"
	"sync"
	"time"

	"reprise"
	"reprise/internal/execution/command"
)

// Follow counts a follower of an execution until release is called, for Request.KillOnDisconnect. It is safe for
// concurrent use and does not block; release may be called more than once. Following an execution that does not exist
// or has ended has no effect. If another replica runs the execution, that replica is notified, and forgets the
// followers if this replica dies.
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

// FollowIf is Follow if may is true for the session and the principal that has started the execution, "" for none. Only
// who may cancel an execution should do so by leaving it. If another replica runs the execution, FollowIf reads from
// the store until ctx is done.
func (h *Host) FollowIf(ctx context.Context, tenant reprise.Tenant, id string,
	may func(session, starter string) bool,
) (release func()) {
	session, starter := "", ""
	switch r := h.find(keyOf(tenant, id)); {
	case r != nil && r.request.KillOnDisconnect:
		session, starter = r.session, r.holder.Principal
	case r != nil || h.opts.Replica == nil:
		return func() {}
	default:
		_, info, err := h.streamInfo(ctx, tenant, id)
		if err != nil {
			return func() {}
		}
		session, starter = info.Config.Labels[labelSession], info.Config.Account()
	}
	if !may(session, starter) {
		return func() {}
	}
	return h.Follow(tenant, id)
}

// following are the followers of a run. It is guarded by the mu of the run.
type following struct {
	followers int
	replicas  map[string]bool // other replicas with followers; each counts as one follower
	alone     *time.Timer     // until the run is cancelled because no client follows it
}

// follow counts one more. The caller holds mu.
func (r *Run) follow() {
	r.followers++
	if r.alone != nil {
		r.alone.Stop()
	}
}

// unfollow counts one less. The caller holds mu.
func (r *Run) unfollow() {
	r.followers--
	if r.followers == 0 {
		r.alone = time.AfterFunc(r.host.opts.DisconnectGrace, r.deserted)
	}
}

// deserted cancels the run if it still has no followers.
func (r *Run) deserted() {
	r.mu.Lock()
	alone := r.followers == 0
	r.mu.Unlock()
	if alone {
		r.Stop(command.Verdict{Outcome: Cancelled, Reason: "nobody followed it any more"})
	}
}

// followedFrom counts the followers on another replica as one follower of our run.
func (r *Run) followedFrom(ctx context.Context, from string) error {
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
	// The replica has just joined, or it died after its request and will not send another one.
	err := member.Look(ctx)
	if !member.Alive(from) {
		r.unfollowedFrom(from)
	}
	return err
}

// unfollowedFrom is the inverse of followedFrom.
func (r *Run) unfollowedFrom(from string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replicas[from] {
		delete(r.replicas, from)
		r.unfollow()
	}
}

// followersLeft removes the followers on a replica that has left.
func (h *Host) followersLeft(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		r.unfollowedFrom(name)
	}
}
