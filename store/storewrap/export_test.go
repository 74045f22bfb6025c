package storewrap

import (
	"context"
	"slices"

	"reprise"
	"reprise/internal/wrap"
)

// Opaque makes events of batches that are none, as those of package storetest are, so that what looks at
// events can be tested with them: the first has the bytes as its data, and the others are empty.
func Opaque(inner reprise.Store) reprise.Store {
	o := &opaque{Around: wrap.Around{Inner: inner}}
	o.pages.Init(inner, 2)
	return o
}

type opaque struct {
	wrap.Around
	pages wrap.Pager
}

func (o *opaque) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		reqs[i].Bytes = asEvents(&reqs[i])
	}
	return o.Inner.Append(ctx, reqs)
}

func (o *opaque) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	first.Bytes = asEvents(&first)
	return o.Around.CreateAppend(ctx, info, first)
}

// asEvents is the batch of a request as events.
func asEvents(req *reprise.AppendRequest) []byte {
	e := reprise.Event{Type: "x", Data: req.Bytes}
	b := make([]byte, 0, len(e.Data)+req.Count*16)
	for n := range req.Count {
		if n == req.Count-1 && req.End != nil {
			e.Type = reprise.TypeEnd
		}
		b, _ = reprise.AppendRecord(b, &e)
		e.Data = nil
	}
	return b
}

func (o *opaque) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	return o.pages.Read(ctx, key, after, maxBytes, func(_ *reprise.StreamInfo, b reprise.Batch) ([]byte, error) {
		for e, err := range reprise.Records(b) {
			return e.Data, err
		}
		return nil, nil
	})
}

// Closing is closed when s is about to be closed.
func Closing(s reprise.Store) <-chan struct{} { return s.(*retrying).closing }

// CacheStats are statistics of a Cache.
type CacheStats struct {
	// Bytes and Batches count what is in memory.
	Bytes   int64
	Batches int
	// Hits counts the batches that came from memory, Misses those that came from the wrapped Store.
	Hits, Misses uint64
}

// StatsOf returns the present state of a Cache.
func StatsOf(s reprise.Store) CacheStats {
	m := &s.(*cached).batches
	m.mu.Lock()
	defer m.mu.Unlock()
	return CacheStats{Bytes: m.bytes, Batches: m.recent.Len(), Hits: m.hits, Misses: m.misses}
}
