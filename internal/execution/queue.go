package execution

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"reprise"
	"reprise/internal/quota"
)

// queue starts runs while there is room for them: in total, in their session, and in the quotas of their principal and
// tenant. Among the waiting runs that fit, the next turn goes to the tenant whose last turn is the longest ago, within
// it to such a principal, and within that to its oldest run.
//
// With several principals, no principal gets all places: see hasShare.
type queue struct {
	maxRunning, maxPerSession, maxQueued, maxDriven int

	book *quota.Book

	mu       sync.Mutex
	running  map[*Run]bool
	sessions map[sessionKey]int // running, of each session
	waiting  int
	ending   int                     // runs that have left and are not over
	lines    map[quota.Account]*line // of accounts with running or waiting runs
	tenants  map[reprise.Tenant]*tenantLine
	arrived  uint64 // number of runs that have waited
	turns    uint64 // number of turns so far
}

// line is what one principal has.
type line struct {
	tenant  *tenantLine
	running int
	waiting []*Run // in the order in which they came
	last    uint64 // the number of its last turn
}

// tenantLine is what one tenant has.
type tenantLine struct {
	running, waiting int
	last             uint64 // the number of its last turn
}

// place is what the queue knows of a run. It is guarded by the mu of the queue.
type place struct {
	turn    chan struct{} // closed when it may begin
	stage   stage
	arrived uint64 // the number of the run among those that have waited
}

type sessionKey struct {
	tenant  reprise.Tenant
	session string
}

func (r *Run) sessionKey() sessionKey { return sessionKey{r.key.Tenant, r.session} }

func newQueue(opts *Options) *queue {
	return &queue{
		maxRunning:    opts.MaxRunning,
		maxPerSession: opts.MaxRunningPerSession,
		maxQueued:     opts.MaxQueued,
		maxDriven:     opts.MaxInterpreters,
		book:          opts.Quotas,
		running:       map[*Run]bool{},
		sessions:      map[sessionKey]int{},
		lines:         map[quota.Account]*line{},
		tenants:       map[reprise.Tenant]*tenantLine{},
	}
}

// enter gives r a turn or lets it wait. The error is a *quota.Error if too many wait, or were started in a minute; then
// nothing is counted. A run that another server has accepted is not refused: one that a supervisor has gets its turn
// whether it fits or not, and any other one its place in the queue. Code has no place of its own, and no turn.
func (q *queue) enter(r *Run) error {
	switch {
	case r.outer != nil:
	case r.again:
		q.book.Meet(&r.holder)
	default:
		if err := q.book.Spend(&r.holder, quota.Starts, 1); err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.outer != nil {
		r.stage = stageRunning
		return nil
	}
	l := q.line(r)
	q.arrived = max(q.arrived, r.arrived)
	fits := r.remote != nil || q.fits(l, r)
	if !r.again {
		err := q.mayDrive(r)
		if err == nil && !fits {
			err = q.mayWait(l, r)
		}
		if err != nil {
			q.forget(r)
			q.book.Refund(&r.holder, quota.Starts, 1)
			return err
		}
	}
	if fits {
		q.begin(l, r)
	} else {
		q.await(l, r)
	}
	return nil
}

// mayWait refuses a run if there is no place to wait.
func (q *queue) mayWait(l *line, r *Run) error {
	if err := q.book.Check(&r.holder, quota.OfPrincipal, quota.Queued, int64(len(l.waiting))); err != nil {
		return err
	}
	if err := q.book.Check(&r.holder, quota.OfTenant, quota.Queued, int64(l.tenant.waiting)); err != nil {
		return err
	}
	if q.waiting >= q.maxQueued || !q.hasShare(len(l.waiting), q.maxQueued-q.waiting) {
		return q.book.Refuse(&quota.Error{Quota: quota.Queued, Of: quota.OfServer, Limit: int64(max(0, q.maxQueued))})
	}
	return nil
}

// mayDrive refuses an interpreter if there are too many. With several principals, none gets all places; see hasShare.
func (q *queue) mayDrive(r *Run) error {
	if r.driver == nil {
		return nil
	}
	n, own := 0, 0
	count := func(other *Run) {
		if other.driver != nil {
			n++
			if other.holder.Account == r.holder.Account {
				own++
			}
		}
	}
	for other := range q.running {
		count(other)
	}
	for _, l := range q.lines {
		for _, other := range l.waiting {
			count(other)
		}
	}
	switch {
	case n >= q.maxDriven:
		return fmt.Errorf("%w: there are %d interpreters", reprise.ErrQuota, n)
	case !q.hasShare(own, q.maxDriven-n):
		return fmt.Errorf("%w: %d of %d interpreters are of the same principal", reprise.ErrQuota, own, n)
	}
	return nil
}

// await lets r wait.
func (q *queue) await(l *line, r *Run) {
	if r.arrived == 0 { // no earlier server has let it wait
		q.arrived++
		r.arrived = q.arrived
	}
	r.stage = stageQueued
	l.waiting = append(l.waiting, r)
	l.tenant.waiting++
	q.waiting++
}

// line returns the line of the principal of r.
func (q *queue) line(r *Run) *line {
	l := q.lines[r.holder.Account]
	if l == nil {
		t := q.tenants[r.holder.Tenant]
		if t == nil {
			t = &tenantLine{}
			q.tenants[r.holder.Tenant] = t
		}
		l = &line{tenant: t}
		q.lines[r.holder.Account] = l
	}
	return l
}

// forget removes the line of r if it is empty.
func (q *queue) forget(r *Run) {
	l := q.lines[r.holder.Account]
	if l.running > 0 || len(l.waiting) > 0 {
		return
	}
	delete(q.lines, r.holder.Account)
	if l.tenant.running == 0 && l.tenant.waiting == 0 {
		delete(q.tenants, r.holder.Tenant)
	}
}

// shareOfFree is the ratio of places that a principal may have to the free places. A single principal that wants all
// places gets three quarters, and each of two gets three sevenths. A place stays free for another principal as long as
// there are more places than principals.
const shareOfFree = 3

// hasShare reports whether a principal with some places may have another one: it must have fewer than shareOfFree times
// the free places. A single principal may have all.
func (q *queue) hasShare(has, free int) bool {
	return !q.book.Several() || has < shareOfFree*free
}

func (q *queue) fits(l *line, r *Run) bool {
	if free := q.maxRunning - len(q.running); free <= 0 || !q.hasShare(l.running, free) {
		return false
	}
	if bound, ok := q.book.Limit(&r.holder, quota.OfPrincipal, quota.Running); ok && int64(l.running) >= bound {
		return false
	}
	if bound, ok := q.book.Limit(&r.holder, quota.OfTenant, quota.Running); ok && int64(l.tenant.running) >= bound {
		return false
	}
	return q.maxPerSession == 0 || r.session == "" || q.sessions[r.sessionKey()] < q.maxPerSession
}

func (q *queue) begin(l *line, r *Run) {
	q.turns++
	l.last, l.tenant.last = q.turns, q.turns
	l.running++
	l.tenant.running++
	q.running[r] = true
	r.stage = stageRunning
	q.sessions[r.sessionKey()]++
	close(r.turn)
}

// withdraw is leave for a run that did not come about: it does not count as a start.
func (q *queue) withdraw(r *Run) {
	q.forgo(r)
	if r.outer == nil {
		q.book.Refund(&r.holder, quota.Starts, 1)
	}
}

// leave frees the place of r, which ran or waited. It is called before the end of r is kept, because a client that sees
// the end may start the next run immediately. Leaving again, or without having entered, does nothing.
func (q *queue) leave(r *Run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[r.holder.Account]
	switch r.stage {
	case stageQueued:
		r.stage = stageWithdrawn
		q.unwait(l, r)
		q.forget(r)
		return
	case stageRunning:
		r.stage = stageEnding
	default:
		return
	}
	if r.outer != nil { // it has no place of its own
		return
	}
	delete(q.running, r)
	q.ending++
	l.running--
	l.tenant.running--
	if key := r.sessionKey(); q.sessions[key] > 1 {
		q.sessions[key]--
	} else {
		delete(q.sessions, key)
	}
	q.forget(r)
	for len(q.running) < q.maxRunning {
		l, next := q.next()
		if next == nil {
			return
		}
		q.unwait(l, next)
		q.begin(l, next)
	}
}

// forgo is leave for a run that is over and no longer counted.
func (q *queue) forgo(r *Run) {
	q.leave(r)
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.stage == stageEnding {
		r.stage = stageEnded
		if r.outer == nil {
			q.ending--
		}
	}
}

// unwait takes r out of its line.
func (q *queue) unwait(l *line, r *Run) {
	if i := slices.Index(l.waiting, r); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		l.tenant.waiting--
		q.waiting--
	}
}

// next is the run whose turn it is, nil if none fits.
func (q *queue) next() (of *line, next *Run) {
	if q.waiting == 0 {
		return nil, nil
	}
	for _, l := range q.lines {
		if r := q.first(l); r != nil && (next == nil || isEarlier(l, r, of, next)) {
			of, next = l, r
		}
	}
	return of, next
}

// first is the first run in a line that fits, nil if none does.
func (q *queue) first(l *line) *Run {
	for _, r := range l.waiting {
		if q.fits(l, r) {
			return r
		}
		if q.maxPerSession == 0 { // then none of them fits
			return nil
		}
	}
	return nil
}

// isEarlier reports whether the turn is of r and not of other.
func isEarlier(l *line, r *Run, of *line, other *Run) bool {
	return cmp.Or(cmp.Compare(l.tenant.last, of.tenant.last), cmp.Compare(l.last, of.last),
		cmp.Compare(r.arrived, other.arrived)) < 0
}

// status is queued or, until the end is kept, running.
func (q *queue) status(r *Run) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch r.stage {
	case stageAccepted, stageQueued, stageWithdrawn:
		return StatusQueued
	}
	return StatusRunning
}

// byTenant counts what runs and waits of each tenant that has anything.
func (q *queue) byTenant() map[reprise.Tenant]Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	tenants := map[reprise.Tenant]Counts{}
	for name, t := range q.tenants {
		tenants[name] = Counts{Running: t.running, Queued: t.waiting}
	}
	return tenants
}

// waitingBy counts what waits of each principal of which anything does.
func (q *queue) waitingBy() map[quota.Account]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := map[quota.Account]int{}
	for account, l := range q.lines {
		if len(l.waiting) > 0 {
			waiting[account] = len(l.waiting)
		}
	}
	return waiting
}

// countsOf counts what runs and waits of a principal, or of a tenant as a whole.
func (q *queue) countsOf(a quota.Account) Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.tenants[a.Tenant]; a.Principal == "" && t != nil {
		return Counts{Running: t.running, Queued: t.waiting}
	}
	if l := q.lines[a]; l != nil {
		return Counts{Running: l.running, Queued: len(l.waiting)}
	}
	return Counts{}
}

// counts counts all that waits, and all that had its turn and is not over, whether it has its place still or not.
func (q *queue) counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Counts{Running: len(q.running) + q.ending, Queued: q.waiting}
}
