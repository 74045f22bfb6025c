package quota

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
)

// Options are the settings of a Book. The zero value of each field means its default.
type Options struct {
	// Names are the quotas that the program counts, in display order. Default: all.
	Names []Name
	// Principal are the limits of each principal without limits of its own. Default: no limits.
	Principal Limits
	// Tenant bounds each tenant, and Tenants single ones, quota by quota. Default: no bound.
	Tenant  Limits
	Tenants map[reprise.Tenant]Limits
	// Several reports whether there are several principals; see Book.Several. Default: unknown.
	Several func() bool
	// Refused is called when a quota is exhausted, for metrics. It must return quickly. Default: none.
	Refused func(*Error)
}

// Book counts what accounts use, and knows the bounds. It is safe for concurrent use.
type Book struct {
	opts Options
	// seen is set once a sender other than the operator has made a request.
	seen atomic.Bool

	mu      sync.Mutex
	entries map[Account]*entry
	pruneAt int
}

// entry is what one account uses.
type entry struct {
	counts  map[Name]int64
	buckets map[Name]*bucket
}

// New returns a Book in which nothing is used. opts may be nil.
func New(opts *Options) *Book {
	b := &Book{entries: map[Account]*entry{}, pruneAt: minPrune}
	if opts != nil {
		b.opts = *opts
	}
	return b
}

// Names returns the quotas that the program counts, in display order.
func (b *Book) Names() []Name {
	if b.opts.Names != nil {
		return slices.Clone(b.opts.Names)
	}
	return slices.Clone(names)
}

// Limit returns the limit of a quota for a principal or its tenant. ok is false if there is none.
func (b *Book) Limit(h *Holder, of Of, name Name) (bound int64, ok bool) {
	if of == OfTenant {
		if bound, ok = b.opts.Tenants[h.Tenant][name]; !ok {
			bound, ok = b.opts.Tenant[name]
		}
		return bound, ok
	}
	if bound, ok = h.Limits[name]; !ok && !h.Operator && h.Principal != "" {
		bound, ok = b.opts.Principal[name]
	}
	return bound, ok
}

// Several reports whether several principals use the server, so that none may use all of its capacity.
func (b *Book) Several() bool {
	return b.seen.Load() || b.opts.Several != nil && b.opts.Several()
}

// Meet records the sender of a request.
func (b *Book) Meet(h *Holder) {
	if !h.Operator && h.Principal != "" && !b.seen.Load() {
		b.seen.Store(true)
	}
}

// Check returns an *Error if a quota has no room for another one in a count that is kept elsewhere.
func (b *Book) Check(h *Holder, of Of, name Name, used int64) error {
	if bound, ok := b.Limit(h, of, name); ok && used >= bound {
		return b.Refuse(&Error{Quota: name, Of: of, Limit: bound})
	}
	return nil
}

// Refuse returns e once it has been counted.
func (b *Book) Refuse(e *Error) error {
	if b.opts.Refused != nil {
		b.opts.Refused(e)
	}
	return e
}

// counted is an Account in which something is counted.
type counted struct {
	of Of
	Account
}

// accounts are where something is counted: with the principal, if there is one, and with its tenant.
func accounts(h *Holder) []counted {
	tenant := counted{OfTenant, Account{Tenant: h.Tenant}}
	if h.Principal == "" {
		return []counted{tenant}
	}
	return []counted{{OfPrincipal, h.Account}, tenant}
}

// Take takes one of a quota that is given back by release, which may be called more than once. The error is an *Error.
func (b *Book) Take(h *Holder, name Name) (release func(), err error) {
	b.Meet(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range accounts(h) {
		if bound, ok := b.Limit(h, a.of, name); ok && b.count(a.Account, name) >= bound {
			return nil, b.Refuse(&Error{Quota: name, Of: a.of, Limit: bound})
		}
	}
	return b.take(h, name), nil
}

// Hold is Take for resources that are already in use, regardless of the limits.
func (b *Book) Hold(h *Holder, name Name) (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(h, name)
}

// take counts one more. The caller holds mu.
func (b *Book) take(h *Holder, name Name) (release func()) {
	for _, a := range accounts(h) {
		b.add(a.Account, name, 1)
	}
	return (&taken{book: b, account: h.Account, name: name}).release
}

// taken is one of a quota that is in use. There is one for each waiting reader, so it is small.
type taken struct {
	book     *Book
	account  Account
	name     Name
	released bool // guarded by book.mu
}

// release gives t back. Calling it again does nothing.
func (t *taken) release() {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	if t.released {
		return
	}
	t.released = true
	for _, a := range accounts(&Holder{Account: t.account}) {
		t.book.add(a.Account, t.name, -1)
	}
}

// count returns the usage of an account. The caller holds mu.
func (b *Book) count(a Account, name Name) int64 {
	if e := b.entries[a]; e != nil {
		return e.counts[name]
	}
	return 0
}

// add changes the usage by n, and removes unused entries. The caller holds mu.
func (b *Book) add(a Account, name Name, n int64) {
	e := b.entry(a)
	if e.counts == nil {
		e.counts = map[Name]int64{}
	}
	if e.counts[name] += n; e.counts[name] == 0 {
		delete(e.counts, name)
	}
	if len(e.counts) == 0 && len(e.buckets) == 0 {
		delete(b.entries, a)
	}
}

// Spend takes n of a rate. It is given back with time, or by Refund. The error is an *Error, and then nothing is taken.
func (b *Book) Spend(h *Holder, name Name, n int64) error {
	b.Meet(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	var from [2]*bucket
	for i, a := range accounts(h) {
		bound, ok := b.Limit(h, a.of, name)
		if !ok {
			continue
		}
		from[i] = b.bucket(a.Account, name, bound, now)
		if wait := from[i].wait(float64(n)); wait > 0 {
			return b.Refuse(&Error{Quota: name, Of: a.of, Limit: bound, RetryAfter: wait})
		}
	}
	for _, k := range from {
		if k != nil {
			k.level -= float64(n)
		}
	}
	return nil
}

// Refund returns the amount that Spend has taken for a failed operation.
func (b *Book) Refund(h *Holder, name Name, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, a := range accounts(h) {
		if bound, ok := b.Limit(h, a.of, name); ok {
			k := b.bucket(a.Account, name, bound, now)
			k.level = min(k.level+float64(n), float64(bound))
		}
	}
}

// Used returns the current usage of an account; for a rate, the amount that is not available again yet. Executions,
// streams and bytes are counted elsewhere.
func (b *Book) Used(a Account, name Name) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[a]
	switch {
	case e == nil:
		return 0
	case !name.isRate():
		return e.counts[name]
	}
	if k := e.buckets[name]; k != nil {
		k.refill(time.Now())
		return int64(k.bound - k.level)
	}
	return 0
}

// Tenants returns the tenants that use something that the Book counts.
func (b *Book) Tenants() []reprise.Tenant {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []reprise.Tenant
	for a := range b.entries {
		if a.Principal == "" {
			list = append(list, a.Tenant)
		}
	}
	return list
}

// Accounts returns the number of accounts in the Book.
func (b *Book) Accounts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.entries)
}

// minPrune is the number of accounts above which unused ones are removed.
const minPrune = 1024

// entry returns the entry of an account, and creates it if necessary. The caller holds mu.
func (b *Book) entry(a Account) *entry {
	e := b.entries[a]
	if e == nil {
		if len(b.entries) >= b.pruneAt {
			b.prune()
		}
		e = &entry{}
		b.entries[a] = e
	}
	return e
}

// prune forgets the accounts that use nothing and whose rates are whole again. The caller holds mu.
func (b *Book) prune() {
	now := time.Now()
	for a, e := range b.entries {
		for name, k := range e.buckets {
			if k.refill(now); k.level >= k.bound {
				delete(e.buckets, name)
			}
		}
		if len(e.counts) == 0 && len(e.buckets) == 0 {
			delete(b.entries, a)
		}
	}
	b.pruneAt = max(minPrune, 2*len(b.entries)) // new accounts must not each pay for a scan of all
}

// bucket is the state of a rate: the used amount becomes available again evenly, all of it within a minute.
type bucket struct {
	bound, level float64
	at           time.Time
}

// bucket returns the bucket of an account, and creates it if necessary. The caller holds mu.
func (b *Book) bucket(a Account, name Name, bound int64, now time.Time) *bucket {
	e := b.entry(a)
	k := e.buckets[name]
	if k == nil {
		k = &bucket{bound: float64(bound), level: float64(bound), at: now}
		if e.buckets == nil {
			e.buckets = map[Name]*bucket{}
		}
		e.buckets[name] = k
	}
	k.bound = float64(bound)
	k.refill(now)
	return k
}

func (k *bucket) refill(now time.Time) {
	k.level = min(k.bound, k.level+k.bound*now.Sub(k.at).Minutes())
	k.at = now
}

// wait returns the time until n is available, 0 for now, or a minute if n is never available.
func (k *bucket) wait(n float64) time.Duration {
	switch {
	case k.level >= n:
		return 0
	case k.bound < n:
		return time.Minute
	}
	return max(time.Second, time.Duration((n-k.level)/k.bound*float64(time.Minute)))
}

// uploadStep is the amount that an upload takes from its quota at a time.
const uploadStep = 256 << 10

// Upload returns a reader of body that takes the read bytes from the quota. It returns an *Error once the quota is
// exhausted.
func (b *Book) Upload(h *Holder, body io.Reader) io.Reader { return &upload{b, h, body} }

type upload struct {
	book   *Book
	holder *Holder
	body   io.Reader
}

// Read implements io.Reader. Bytes that were read and refused are lost: an upload resumes after the kept bytes.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.body.Read(p[:min(len(p), u.book.uploadStep(u.holder))])
	if n > 0 {
		if refused := u.book.Spend(u.holder, Upload, int64(n)); refused != nil {
			return 0, refused
		}
	}
	return n, err
}

// uploadStep returns a step that does not exceed the limits.
func (b *Book) uploadStep(h *Holder) int {
	step := int64(uploadStep)
	for _, a := range accounts(h) {
		if bound, ok := b.Limit(h, a.of, Upload); ok {
			step = min(step, max(1, bound/8))
		}
	}
	return int(step)
}

// Kept returns the limits on the kept data of a principal or its tenant, in the form of the engine.
func (b *Book) Kept(h *Holder, of Of) (q reprise.Quota) {
	if bound, ok := b.Limit(h, of, Streams); ok {
		q.Streams = orNone(bound)
	}
	if bound, ok := b.Limit(h, of, Bytes); ok {
		q.Bytes = orNone(bound)
	}
	return q
}

// orNone converts a limit to the form of the engine, in which 0 means no limit.
func orNone(bound int64) int64 {
	if bound == 0 {
		return -1
	}
	return bound
}
