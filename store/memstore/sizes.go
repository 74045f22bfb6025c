package memstore

import (
	"context"
	"sync/atomic"

	"reprise"
)

// tenant counts what the streams of a tenant keep.
type tenant struct {
	streams       int64 // guarded by Store.mu, as overhead is
	overhead      int64
	events, bytes atomic.Int64
}

// count adds to what is kept. In a stream that loses as much as it gains, as most
// long ones do, there is nothing to add.
func (t *tenant) count(events, bytes int64) {
	if events != 0 {
		t.events.Add(events)
	}
	if bytes != 0 {
		t.bytes.Add(bytes)
	}
}

// Sizes returns what each tenant keeps; see reprise.Sizer. The cost is O(1) for each tenant.
func (s *Store) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	if err := s.use(ctx); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	sizes := make(map[reprise.Tenant]reprise.Size, len(s.tenants))
	for name, t := range s.tenants {
		sizes[name] = reprise.Size{
			Streams: t.streams, Events: t.events.Load(), Bytes: t.bytes.Load(), Overhead: t.overhead,
		}
	}
	return sizes, nil
}
