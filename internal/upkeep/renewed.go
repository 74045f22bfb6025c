package upkeep

import (
	"context"
	"sync"

	"reprise"
)

// renewed is a Store that is only read, in which each stream that has not ended is in another epoch that shares all of
// its history.
type renewed struct {
	reprise.Store

	mu     sync.Mutex
	epochs map[reprise.StreamKey]reprise.Epoch
}

func newRenewed(store reprise.Store) *renewed {
	return &renewed{Store: store, epochs: map[reprise.StreamKey]reprise.Epoch{}}
}

// Read implements reprise.Store.
func (r *renewed) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	page, err := r.Store.Read(ctx, key, after, maxBytes)
	if err == nil {
		r.renew(&page.Info)
	}
	return page, err
}

// List implements reprise.Store.
func (r *renewed) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	page, err := r.Store.List(ctx, q)
	for i := range page.Streams {
		r.renew(&page.Streams[i])
	}
	return page, err
}

func (r *renewed) renew(info *reprise.StreamInfo) {
	if info.End != nil || info.Key.IsMarker() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	epoch, ok := r.epochs[info.Key]
	if !ok {
		epoch = reprise.NewEpoch()
		r.epochs[info.Key] = epoch
	}
	info.Renew(epoch)
}
