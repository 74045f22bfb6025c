package execution

import (
	"sync"
	"time"

	"reprise"
)

// Follow counts somebody who reads an execution until release is called, for
// Request.KillOnDisconnect. It is safe for concurrent use and does not block;
// release may be called more than once. An execution that does not exist or has
// ended is followed to no effect.
func (h *Host) Follow(tenant reprise.Tenant, id string) (release func()) {
	r := h.find(keyOf(tenant, id))
	if r == nil || !r.request.KillOnDisconnect {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followers++
	if r.alone != nil {
		r.alone.Stop()
	}
	return sync.OnceFunc(r.unfollow)
}

func (r *run) unfollow() {
	r.mu.Lock()
	defer r.mu.Unlock()
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
		r.stop(verdict{outcome: Cancelled, reason: "nobody followed it any more"})
	}
}
