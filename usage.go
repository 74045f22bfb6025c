package reprise

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
)

// usage counts the kept data in total, by tenant and by account: the bytes of events and the overhead of each stream.
type usage struct {
	maxTenant, maxTotal int64
	quota               func(tenant Tenant, account string) Quota // nil for none

	total    atomic.Int64
	mu       sync.Mutex
	tenants  map[Tenant]*tally
	accounts map[accountKey]*tally
	// exact is set when accounts were counted while nothing was added to them.
	exact atomic.Bool
}

type accountKey struct {
	tenant Tenant
	name   string
}

// tally is the usage of one tenant, or of one account within a tenant.
type tally struct {
	streams, events, bytes atomic.Int64

	key    accountKey
	tenant *tally // of an account; nil for a tenant. Both are charged.
}

// amount is a change of a tally, or its value at one time. Its bytes include the overhead of streams.
type amount struct{ streams, events, bytes int64 }

func (t *tally) add(a amount) {
	if a.streams != 0 { // an append adds none
		t.streams.Add(a.streams)
	}
	if a.events != 0 { // at the bound of a stream, an append drops as many as it adds
		t.events.Add(a.events)
	}
	t.bytes.Add(a.bytes)
}

func (t *tally) amount() amount { return amount{t.streams.Load(), t.events.Load(), t.bytes.Load()} }

func (a amount) minus(b amount) amount {
	return amount{a.streams - b.streams, a.events - b.events, a.bytes - b.bytes}
}

func (a amount) plus(b amount) amount {
	return amount{a.streams + b.streams, a.events + b.events, a.bytes + b.bytes}
}

func (u *usage) init(opts *Options) {
	u.maxTenant, u.maxTotal, u.quota = opts.MaxTenantBytes, opts.MaxTotalBytes, opts.Quota
	u.tenants, u.accounts = map[Tenant]*tally{}, map[accountKey]*tally{}
}

// of returns the tally that a stream is charged to.
func (u *usage) of(info *StreamInfo) *tally {
	if name := info.Config.Account(); name != "" && u.quota != nil {
		return u.account(accountKey{info.Key.Tenant, name})
	}
	return u.ofTenant(info.Key.Tenant)
}

// ofTenant returns the tally of a tenant.
func (u *usage) ofTenant(t Tenant) *tally {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := u.tenants[t]
	if n == nil {
		n = &tally{key: accountKey{tenant: t}}
		u.tenants[t] = n
	}
	return n
}

// account returns the tally of an account.
func (u *usage) account(key accountKey) *tally {
	tenant := u.ofTenant(key.tenant)
	u.mu.Lock()
	defer u.mu.Unlock()
	n := u.accounts[key]
	if n == nil {
		n = &tally{key: key, tenant: tenant}
		u.accounts[key] = n
	}
	return n
}

// find returns the tally of an account or, if account is "", of a tenant; nil if there is none.
func (u *usage) find(t Tenant, account string) *tally {
	u.mu.Lock()
	defer u.mu.Unlock()
	if account != "" {
		return u.accounts[accountKey{t, account}]
	}
	return u.tenants[t]
}

func (u *usage) add(whose *tally, a amount) {
	for t := whose; t != nil; t = t.tenant {
		t.add(a)
	}
	u.total.Add(a.bytes)
}

// excess is the number of bytes by which a bound would be exceeded; it is not positive if there is room.
type excess struct {
	bytes, bound int64
	of           *tally // nil for the process
}

// over returns by how much more bytes would exceed the bound that they would exceed most.
func (u *usage) over(whose *tally, more int64) excess {
	most := excess{bytes: u.total.Load() + more - u.maxTotal, bound: u.maxTotal}
	for t := whose; t != nil; t = t.tenant {
		bound := u.bound(t).Bytes
		if bound == 0 {
			continue
		}
		bound = max(0, bound)
		if bytes := t.bytes.Load() + more - bound; bytes > most.bytes {
			most = excess{bytes, bound, t}
		}
	}
	return most
}

// refusal returns the error of an append or a stream for which there is no room.
func (e excess) refusal() error {
	of := ofServer
	if e.of != nil {
		of = e.of.of()
	}
	return &QuotaError{Quota: quotaBytes, Of: of, Limit: e.bound}
}

// The names in a QuotaError.
const (
	quotaStreams = "streams"
	quotaBytes   = "bytes"
	ofPrincipal  = "principal"
	ofTenant     = "tenant"
	ofServer     = "server"
)

// of returns the kind of t's owner.
func (t *tally) of() string {
	if t.tenant != nil {
		return ofPrincipal
	}
	return ofTenant
}

// bound returns the quota of a tenant or an account.
func (u *usage) bound(t *tally) (q Quota) {
	if t.key.tenant == SystemTenant {
		return Quota{}
	}
	if u.quota != nil {
		q = u.quota(t.key.tenant, t.key.name)
	}
	if t.tenant == nil && q.Bytes == 0 {
		q.Bytes = u.maxTenant
	}
	return q
}

// charge returns the usage that a stream is charged for.
func charge(info *StreamInfo) amount {
	return amount{1, int64(info.Kept()), info.Bytes + info.Overhead()}
}

// grown returns the difference in usage to a later state of the stream.
func grown(before, after *StreamInfo) amount {
	return amount{0, int64(after.Kept()) - int64(before.Kept()), after.Bytes - before.Bytes}
}

// checkRoom refuses to create a stream for which its tenant or the process has no room. An existing stream is found
// regardless. Concurrent creations may exceed a bound together.
func (l *Log) checkRoom(ctx context.Context, info *StreamInfo) error {
	refused := l.usage.refuses(info)
	if refused == nil {
		return nil
	}
	if _, err := l.store.Read(ctx, info.Key, 1<<63, 0); !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrExpired) {
		return nil // Create returns the error
	}
	return refused
}

// refuses returns a *QuotaError if there is no room for another stream.
func (u *usage) refuses(info *StreamInfo) error {
	if info.Key.Tenant == SystemTenant {
		return nil
	}
	whose := u.of(info)
	for t := whose; t != nil; t = t.tenant {
		if bound := u.bound(t).Streams; bound != 0 && t.streams.Load() >= bound {
			return &QuotaError{Quota: quotaStreams, Of: t.of(), Limit: max(0, bound)}
		}
	}
	if over := u.over(whose, info.Overhead()); over.bytes > 0 {
		return over.refusal()
	}
	return nil
}

// Memory is the memory use of a Log; see Options.TailBytes, TailTotalBytes and MaxStreams.
type Memory struct {
	// Streams is the number of streams in memory, with and without events.
	Streams int
	// TailBytes is the size of the newest events of all streams.
	TailBytes int64
}

// Memory returns the current memory use of the Log.
func (l *Log) Memory() Memory {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Memory{Streams: len(l.streams), TailBytes: l.hotBytes.Load()}
}

// Usage is the usage that a Log has counted for its limits. On a shared store, appends of another replica are counted
// when this one reads the stream, and at the next sweep.
type Usage struct {
	// Tenants is the usage of each tenant. Its Bytes are those that quotas count, including the overhead of streams,
	// and its Overhead is 0.
	Tenants map[Tenant]Size
	// Bytes is the sum over all tenants, MaxBytes and MaxTenantBytes are the bounds, 0 for none;
	// see Options.MaxTotalBytes.
	Bytes, MaxBytes, MaxTenantBytes int64
}

// Usage returns the current counts. It does no I/O.
func (l *Log) Usage() Usage {
	l.usage.mu.Lock()
	defer l.usage.mu.Unlock()
	u := Usage{
		Tenants: make(map[Tenant]Size, len(l.usage.tenants)),
		Bytes:   l.usage.total.Load(), MaxBytes: l.usage.maxTotal, MaxTenantBytes: l.usage.maxTenant,
	}
	for t, n := range l.usage.tenants {
		if a := n.amount(); a != (amount{}) {
			u.Tenants[t] = Size{Streams: a.streams, Events: a.events, Bytes: a.bytes}
		}
	}
	return u
}

// counts is the usage at one time.
type counts struct {
	total   int64
	tenants map[Tenant]amount
}

// accountCounts is the usage of each account at one time.
func (u *usage) accountCounts() map[accountKey]amount {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := make(map[accountKey]amount, len(u.accounts))
	for key, n := range u.accounts {
		c[key] = n.amount()
	}
	return c
}

func (u *usage) counts() counts {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := counts{total: u.total.Load(), tenants: make(map[Tenant]amount, len(u.tenants))}
	for t, n := range u.tenants {
		c.tenants[t] = n.amount()
	}
	return c
}

// correct replaces the counts by those of the store. Changes made meanwhile are kept.
func (u *usage) correct(before counts, sizes map[Tenant]Size) {
	var total int64
	for t, size := range sizes {
		kept := amount{size.Streams, size.Events, size.Bytes + size.Overhead}
		u.ofTenant(t).add(kept.minus(before.tenants[t]))
		total += kept.bytes
	}
	for t, n := range before.tenants {
		if _, ok := sizes[t]; !ok {
			u.ofTenant(t).add(amount{}.minus(n))
		}
	}
	u.total.Add(total - before.total)
}

// measure counts the usage of the store again. Appends continue meanwhile; their bytes may be counted twice until the
// next time.
func (l *Log) measure(ctx context.Context) error {
	before := l.usage.counts()
	sizes, err := l.Sizes(ctx)
	if err == nil {
		l.usage.correct(before, sizes)
	}
	return err
}

// Sizes returns the usage of each tenant in the store.
func (l *Log) Sizes(ctx context.Context) (map[Tenant]Size, error) {
	if s, ok := l.store.(Sizer); ok {
		if sizes, err := s.Sizes(ctx); !errors.Is(err, errors.ErrUnsupported) {
			return l.withoutMarker(sizes), err
		}
	}
	sizes := map[Tenant]Size{}
	err := l.each(ctx, func(info *StreamInfo) {
		size := sizes[info.Key.Tenant]
		size.Streams++
		size.Events += int64(info.Kept())
		size.Bytes += info.Bytes
		size.Overhead += info.Overhead()
		sizes[info.Key.Tenant] = size
	})
	return sizes, err
}

// withoutMarker subtracts the marker of the wrappers, one stream with one event.
func (l *Log) withoutMarker(sizes map[Tenant]Size) map[Tenant]Size {
	size, ok := sizes[SystemTenant]
	if !l.marked || !ok {
		return sizes
	}
	sizes = maps.Clone(sizes)
	size.Streams, size.Events = size.Streams-1, size.Events-1
	if sizes[SystemTenant] = size; size.Streams == 0 {
		delete(sizes, SystemTenant)
	}
	return sizes
}

// each calls f with every stream of the store except the marker of its wrappers.
func (l *Log) each(ctx context.Context, f func(*StreamInfo)) error {
	q := ListQuery{AllNamespaces: true, Limit: 1000}
	for {
		page, err := l.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Streams {
			if !page.Streams[i].Key.IsMarker() {
				f(&page.Streams[i])
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

const (
	// listStep is the number of streams listed before the size of their configurations is known.
	listStep = 100
	// listBytes ends a page early: a stream may have 84 kB of labels and Meta.
	listBytes = 4 << 20
)

// listBounded returns one page, which ends early when the data besides events reaches listBytes. The rest of a page is
// requested at once if it is likely to fit.
func (l *Log) listBounded(ctx context.Context, q ListQuery) (page ListPage, err error) {
	limit, size := q.Limit, int64(0)
	for q.Limit = min(limit, listStep); ; {
		part, err := l.store.List(ctx, q)
		if err != nil {
			return ListPage{}, err
		}
		for i := range part.Streams {
			if q.Takes(&part.Streams[i]) {
				size += part.Streams[i].Overhead()
				page.Streams = append(page.Streams, part.Streams[i])
			}
		}
		page.Next = part.Next
		left := limit - len(page.Streams)
		if part.Next == "" || left <= 0 || size >= listBytes {
			return page, nil
		}
		likely := (listBytes - size) / max(1, size/int64(max(1, len(page.Streams))))
		q.After, q.Limit = part.Next, max(1, min(left, int(likely)))
	}
}

// countAccounts is measureAccounts after Open. It lists all streams in the background.
func (l *Log) countAccounts(ctx context.Context) {
	err := l.guard(func() error { return l.measureAccounts(ctx) })
	if err != nil && ctx.Err() == nil {
		l.opts.Logger.Error("the usage of accounts could not be counted; the next sweep tries again", "error", err)
	}
}

// measureTries bounds how often the usage of accounts is counted again because something was added meanwhile.
const measureTries = 5

// measureAccounts counts the usage of each account again, which no store sums up. Data added during the last try may be
// counted twice until the next time.
func (l *Log) measureAccounts(ctx context.Context) error {
	for try := 1; ; try++ {
		before := l.usage.accountCounts()
		sizes := map[accountKey]amount{}
		err := l.eachListed(ctx, func(info *StreamInfo) {
			if name := info.Config.Account(); name != "" {
				key := accountKey{info.Key.Tenant, name}
				sizes[key] = sizes[key].plus(charge(info))
			}
		})
		if err != nil {
			return err
		}
		quiet := maps.Equal(before, l.usage.accountCounts())
		if quiet || try == measureTries {
			l.usage.correctAccounts(before, sizes)
			l.usage.exact.Store(quiet)
			return nil
		}
	}
}

// correctAccounts replaces the counts by those of the store. Changes made meanwhile are kept.
func (u *usage) correctAccounts(before, sizes map[accountKey]amount) {
	for key, size := range sizes {
		u.account(key).add(size.minus(before[key]))
	}
	for key, n := range before {
		if _, ok := sizes[key]; !ok {
			u.account(key).add(amount{}.minus(n))
		}
	}
}

// UsageOf returns the usage of an account or, if account is "", of its tenant, as Usage counts it. The usage of
// accounts is counted only with Options.Quota, soon after Open.
func (l *Log) UsageOf(tenant Tenant, account string) Size {
	t := l.usage.find(tenant, account)
	if t == nil {
		return Size{}
	}
	n := t.amount()
	return Size{Streams: n.streams, Events: n.events, Bytes: n.bytes}
}

// AccountLabel is the label that names the account within the tenant to which a stream is charged; see Options.Quota.
// Creating an existing stream under another account finds it; it stays charged to the first account.
const AccountLabel = "reprise.account"

// Account returns the value of AccountLabel, or "" for a stream that is charged to its tenant only.
func (c StreamConfig) Account() string { return c.Labels[AccountLabel] }

// EqualButAccount is like Equal, but ignores AccountLabel.
func (c StreamConfig) EqualButAccount(o StreamConfig) bool {
	return c.Retention == o.Retention && bytes.Equal(c.Meta, o.Meta) &&
		maps.Equal(withoutAccount(c.Labels), withoutAccount(o.Labels))
}

func withoutAccount(labels map[string]string) map[string]string {
	if _, ok := labels[AccountLabel]; ok {
		labels = maps.Clone(labels)
		delete(labels, AccountLabel)
	}
	return labels
}

// Quota limits what a tenant, or an account within it, keeps. 0 means no limit; a negative value means no room at all.
type Quota struct{ Streams, Bytes int64 }
