package reprise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
)

// usage counts what is kept, in all and by tenant: the bytes of events, and the overhead of each stream.
type usage struct {
	maxTenant, maxTotal int64

	total   atomic.Int64
	mu      sync.Mutex
	tenants map[Tenant]*tally
}

// tally is what one tenant keeps.
type tally struct{ streams, events, bytes atomic.Int64 }

// amount is what is added to a tally, or a tally at one time. Its bytes are those of events and the overhead of
// streams.
type amount struct{ streams, events, bytes int64 }

func (t *tally) add(a amount) {
	t.streams.Add(a.streams)
	t.events.Add(a.events)
	t.bytes.Add(a.bytes)
}

func (t *tally) amount() amount { return amount{t.streams.Load(), t.events.Load(), t.bytes.Load()} }

func (a amount) minus(b amount) amount {
	return amount{a.streams - b.streams, a.events - b.events, a.bytes - b.bytes}
}

func (u *usage) init(opts *Options) {
	u.maxTenant, u.maxTotal = opts.MaxTenantBytes, opts.MaxTotalBytes
	u.tenants = map[Tenant]*tally{}
}

// of is the tally of a tenant.
func (u *usage) of(t Tenant) *tally {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := u.tenants[t]
	if n == nil {
		n = new(tally)
		u.tenants[t] = n
	}
	return n
}

func (u *usage) add(tenant *tally, a amount) {
	tenant.add(a)
	u.total.Add(a.bytes)
}

// over is by how much the bounds would be exceeded with more bytes.
func (u *usage) over(tenant *tally, more int64) int64 {
	over := u.total.Load() + more - u.maxTotal
	if u.maxTenant > 0 {
		over = max(over, tenant.bytes.Load()+more-u.maxTenant)
	}
	return over
}

// charge is what a stream counts for.
func charge(info *StreamInfo) amount {
	return amount{1, int64(info.Kept()), info.Bytes + info.Overhead()}
}

// grown is what a stream counts for more in a later state of it.
func grown(before, after *StreamInfo) amount {
	return amount{0, int64(after.Kept()) - int64(before.Kept()), after.Bytes - before.Bytes}
}

// checkRoom refuses to make a stream for which its tenant or the process has no room. One that exists is found whatever
// is kept. What is made at the same time may exceed a bound together.
func (l *Log) checkRoom(ctx context.Context, info *StreamInfo) error {
	if info.Key.Tenant == SystemTenant || l.usage.over(l.usage.of(info.Key.Tenant), info.Overhead()) <= 0 {
		return nil
	}
	if _, err := l.store.Read(ctx, info.Key, 1<<63, 0); !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrExpired) {
		return nil // Create says what is wrong
	}
	return fmt.Errorf("%w: tenant %s has no room for another stream", ErrQuota, info.Key.Tenant)
}

// Memory is what a Log holds in memory; see Options.TailBytes, TailTotalBytes and MaxStreams.
type Memory struct {
	// Streams is how many streams it holds, with and without events.
	Streams int
	// TailBytes is what the newest events of all streams take.
	TailBytes int64
}

// Memory returns what the Log holds in memory now.
func (l *Log) Memory() Memory {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Memory{Streams: len(l.streams), TailBytes: l.hotBytes.Load()}
}

// Usage is what a Log has counted of what is kept, for its bounds. On a store that replicas share, what another replica
// has appended is counted when this one reads the stream, and at the next sweep.
type Usage struct {
	// Tenants is what each tenant keeps. Its Bytes are those that
	// quotas count, with the overhead of streams, and its Overhead is 0.
	Tenants map[Tenant]Size
	// Bytes is the sum over all tenants, MaxBytes and MaxTenantBytes are the bounds, 0 for none;
	// see Options.MaxTotalBytes.
	Bytes, MaxBytes, MaxTenantBytes int64
}

// Usage returns what is counted now. It asks nobody.
func (l *Log) Usage() Usage {
	counts := l.usage.counts()
	u := Usage{
		Tenants: make(map[Tenant]Size, len(counts.tenants)),
		Bytes:   counts.total, MaxBytes: l.usage.maxTotal, MaxTenantBytes: l.usage.maxTenant,
	}
	for t, n := range counts.tenants {
		if n != (amount{}) {
			u.Tenants[t] = Size{Streams: n.streams, Events: n.events, Bytes: n.bytes}
		}
	}
	return u
}

// counts is what was counted at some time.
type counts struct {
	total   int64
	tenants map[Tenant]amount
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

// correct replaces what was counted before by what the store has. What was counted meanwhile stays.
func (u *usage) correct(before counts, sizes map[Tenant]Size) {
	var total int64
	for t, size := range sizes {
		kept := amount{size.Streams, size.Events, size.Bytes + size.Overhead}
		u.of(t).add(kept.minus(before.tenants[t]))
		total += kept.bytes
	}
	for t, n := range before.tenants {
		if _, ok := sizes[t]; !ok {
			u.of(t).add(amount{}.minus(n))
		}
	}
	u.total.Add(total - before.total)
}

// measure counts anew what the store keeps. Appends go on meanwhile; what they add may be counted twice, until
// the next time.
func (l *Log) measure(ctx context.Context) error {
	before := l.usage.counts()
	sizes, err := l.Sizes(ctx)
	if err == nil {
		l.usage.correct(before, sizes)
	}
	return err
}

// Sizes returns what each tenant keeps.
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

// withoutMarker takes the marker of the wrappers, one stream with one event, out of what the store keeps.
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

// each calls f with every stream of the store but the marker of its wrappers.
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
	// listStep is how many streams are listed before it is known how large their configurations are.
	listStep = 100
	// listBytes ends a page early: a stream may have 84 kB of labels and Meta.
	listBytes = 4 << 20
)

// listBounded is one page, which ends early when what the streams have beside their events comes to listBytes. The rest
// of a page is asked for at once if it is likely to fit.
func (l *Log) listBounded(ctx context.Context, q ListQuery) (page ListPage, err error) {
	limit, size := q.Limit, int64(0)
	for q.Limit = min(limit, listStep); ; {
		part, err := l.store.List(ctx, q)
		if err != nil {
			return ListPage{}, err
		}
		for i := range part.Streams {
			size += part.Streams[i].Overhead()
		}
		page.Streams, page.Next = append(page.Streams, part.Streams...), part.Next
		left := limit - len(page.Streams)
		if part.Next == "" || left <= 0 || size >= listBytes {
			return page, nil
		}
		likely := (listBytes - size) / max(1, size/int64(max(1, len(page.Streams))))
		q.After, q.Limit = part.Next, max(1, min(left, int(likely)))
	}
}
