package reprise

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
)

// usage counts what is kept, in all and by tenant.
type usage struct {
	maxTenant, maxTotal int64

	total   atomic.Int64
	mu      sync.Mutex
	tenants map[Tenant]*atomic.Int64
}

func (u *usage) init(opts *Options) {
	u.maxTenant, u.maxTotal = opts.MaxTenantBytes, opts.MaxTotalBytes
	u.tenants = map[Tenant]*atomic.Int64{}
}

// of is the counter of a tenant.
func (u *usage) of(t Tenant) *atomic.Int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := u.tenants[t]
	if n == nil {
		n = new(atomic.Int64)
		u.tenants[t] = n
	}
	return n
}

func (u *usage) add(tenant *atomic.Int64, bytes int64) {
	tenant.Add(bytes)
	u.total.Add(bytes)
}

// over is by how much the bounds would be exceeded with more bytes.
func (u *usage) over(tenant *atomic.Int64, more int64) int64 {
	over := u.total.Load() + more - u.maxTotal
	if u.maxTenant > 0 {
		over = max(over, tenant.Load()+more-u.maxTenant)
	}
	return over
}

// counts is what was counted at some time.
type counts struct {
	total   int64
	tenants map[Tenant]int64
}

func (u *usage) counts() counts {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := counts{total: u.total.Load(), tenants: make(map[Tenant]int64, len(u.tenants))}
	for t, n := range u.tenants {
		c.tenants[t] = n.Load()
	}
	return c
}

// correct replaces what was counted before by what the store has. What was counted meanwhile stays.
func (u *usage) correct(before counts, sizes map[Tenant]Size) {
	var total int64
	for t, size := range sizes {
		u.of(t).Add(size.Bytes - before.tenants[t])
		total += size.Bytes
	}
	for t, n := range before.tenants {
		if _, ok := sizes[t]; !ok {
			u.of(t).Add(-n)
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
	if sizes[SystemTenant] = size; size == (Size{}) {
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
