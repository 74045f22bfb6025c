package reprise

import (
	"context"
	"errors"
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

// set replaces the counts by what the store has.
func (u *usage) set(sizes map[Tenant]Size) {
	var total int64
	for t, size := range sizes {
		u.of(t).Store(size.Bytes)
		total += size.Bytes
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for t, n := range u.tenants {
		if _, ok := sizes[t]; !ok {
			n.Store(0)
		}
	}
	u.total.Store(total)
}

// measure counts anew what the store keeps.
func (l *Log) measure(ctx context.Context) error {
	sizes, err := l.Sizes(ctx)
	if err == nil {
		l.usage.set(sizes)
	}
	return err
}

// Sizes returns what each tenant keeps.
func (l *Log) Sizes(ctx context.Context) (map[Tenant]Size, error) {
	if s, ok := l.store.(Sizer); ok {
		if sizes, err := s.Sizes(ctx); !errors.Is(err, errors.ErrUnsupported) {
			return sizes, err
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

// each calls f with every stream of the store.
func (l *Log) each(ctx context.Context, f func(*StreamInfo)) error {
	q := ListQuery{AllNamespaces: true, Limit: 1000}
	for {
		page, err := l.store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Streams {
			f(&page.Streams[i])
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}
