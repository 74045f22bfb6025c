package storewrap_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// altered is a Store whose pages and lists somebody has changed.
type altered struct {
	reprise.Store
	page func(key reprise.StreamKey, page *reprise.Page)
}

func (a *altered) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	page, err := a.Store.Read(ctx, key, after, maxBytes)
	if err == nil && a.page != nil {
		page.Batches = slices.Clone(page.Batches)
		a.page(key, &page)
	}
	return page, err
}

func (a *altered) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	list, err := a.Store.List(ctx, q)
	list.Streams = slices.Clone(list.Streams)
	for i := range list.Streams {
		if a.page != nil {
			page := reprise.Page{Info: list.Streams[i]}
			a.page(list.Streams[i].Key, &page)
			list.Streams[i] = page.Info
		}
	}
	return list, err
}

func newAltered(tb testing.TB) *altered {
	inner := memstore.New(nil)
	tb.Cleanup(func() { check(tb, inner.Close()) })
	return &altered{Store: inner}
}

const epoch reprise.Epoch = "7ZK3M9Q2VTX4WB8A"

func key(name string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}
}

var created = time.UnixMilli(1_700_000_000_000)

// mustCreate makes a stream with labels and Meta.
func mustCreate(tb testing.TB, s reprise.Store, key reprise.StreamKey) {
	tb.Helper()
	_, err := s.Create(tb.Context(),
		reprise.StreamInfo{Key: key, Epoch: epoch, Created: created, Config: secretConfig()})
	check(tb, err)
}

func secretConfig() reprise.StreamConfig {
	return reprise.StreamConfig{Labels: map[string]string{"who": "a secret label"}, Meta: []byte("a secret request")}
}

// request is an append of one batch.
func request(key reprise.StreamKey, first uint64, bytes string) reprise.AppendRequest {
	return reprise.AppendRequest{
		Key: key, Epoch: epoch, First: first, Count: 1, Bytes: []byte(bytes), Earliest: 1,
		Kept: int64(first) * 10,
	}
}

func mustAppend(tb testing.TB, s reprise.Store, reqs ...reprise.AppendRequest) {
	tb.Helper()
	for _, req := range reqs {
		if errs := s.Append(tb.Context(), []reprise.AppendRequest{req}); errs != nil {
			tb.Fatal(errs)
		}
	}
}

// texts are the batches of a stream.
func texts(tb testing.TB, s reprise.Store, key reprise.StreamKey) []string {
	tb.Helper()
	page, err := s.Read(tb.Context(), key, 0, 1<<20)
	check(tb, err)
	var out []string
	for _, b := range page.Batches {
		out = append(out, string(b.Bytes))
	}
	return out
}
