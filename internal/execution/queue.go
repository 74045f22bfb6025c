package execution

import (
	"fmt"
	"slices"
	"sync"

	"reprise"
)

// queue lets runs begin, in the order in which they came, as far as there is room
// for them in all and in their session.
type queue struct {
	maxRunning, maxPerSession, maxQueued int

	mu       sync.Mutex
	running  map[*run]bool
	sessions map[sessionKey]int // running, of each session
	waiting  []*run
}

type sessionKey struct {
	tenant  reprise.Tenant
	session string
}

func (r *run) sessionKey() sessionKey { return sessionKey{r.key.Tenant, r.session} }

func newQueue(opts *Options) *queue {
	return &queue{
		maxRunning: opts.MaxRunning, maxPerSession: opts.MaxRunningPerSession, maxQueued: opts.MaxQueued,
		running: map[*run]bool{}, sessions: map[sessionKey]int{},
	}
}

// enter gives r a turn or lets it wait. The error is reprise.ErrQuota if too many wait.
func (q *queue) enter(r *run) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fits(r) {
		q.begin(r)
		return nil
	}
	if len(q.waiting) >= q.maxQueued {
		return fmt.Errorf("%w: %d executions wait to be run", reprise.ErrQuota, len(q.waiting))
	}
	q.waiting = append(q.waiting, r)
	return nil
}

// adopt gives a run its turn that has had it before, whether it fits or not.
func (q *queue) adopt(r *run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.begin(r)
}

func (q *queue) fits(r *run) bool {
	return len(q.running) < q.maxRunning &&
		(q.maxPerSession == 0 || r.session == "" || q.sessions[r.sessionKey()] < q.maxPerSession)
}

func (q *queue) begin(r *run) {
	q.running[r] = true
	q.sessions[r.sessionKey()]++
	close(r.turn)
}

// leave makes room, whether r ran or waited.
func (q *queue) leave(r *run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(w *run) bool { return w == r })
	if !q.running[r] {
		return
	}
	delete(q.running, r)
	if key := r.sessionKey(); q.sessions[key] > 1 {
		q.sessions[key]--
	} else {
		delete(q.sessions, key)
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *run) bool {
		fits := q.fits(w)
		if fits {
			q.begin(w)
		}
		return fits
	})
}

// status is queued or running.
func (q *queue) status(r *run) Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running[r] || r.inside != nil {
		return StatusRunning
	}
	return StatusQueued
}

// byTenant counts what runs and waits of each tenant that has anything.
func (q *queue) byTenant() map[reprise.Tenant]Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	tenants := map[reprise.Tenant]Counts{}
	for r := range q.running {
		c := tenants[r.key.Tenant]
		c.Running++
		tenants[r.key.Tenant] = c
	}
	for _, r := range q.waiting {
		c := tenants[r.key.Tenant]
		c.Queued++
		tenants[r.key.Tenant] = c
	}
	return tenants
}

func (q *queue) counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Counts{Running: len(q.running), Queued: len(q.waiting)}
}
