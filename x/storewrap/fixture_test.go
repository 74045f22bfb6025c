package storewrap_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/shared"
	"reprise/internal/wrap"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
	"reprise/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// short keeps the suite to what a wrapper can get wrong; the Stores inside have their own tests at full size.
var short = &storetest.Options{Events: 5_000, Streams: 320}

// wrapping puts a wrapper around a Store.
type wrapping func(tb testing.TB, inner reprise.Store) reprise.Store

// conform runs the suite with the wrapper around a Store in memory, which replicas share, and around one in a file.
func conform(t *testing.T, put wrapping) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(tb testing.TB) storetest.Harness {
			hub := shared.New(memstore.New(nil))
			another := func() (reprise.Store, error) { return put(tb, hub.Store()), nil }
			lose := func(reprise.Store) (func() error, error) { return hub.PrepareLoss(tb.Context()) }
			return storetest.Harness{Open: another, Share: another, Lose: lose}
		}, short)
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(tb testing.TB) storetest.Harness {
			path := filepath.Join(tb.TempDir(), "reprise.db")
			return storetest.Harness{Persistent: true, Open: func() (reprise.Store, error) {
				inner, err := sqlitestore.Open(tb.Context(), path, &sqlitestore.Options{Sync: sqlitestore.SyncNormal})
				if err != nil {
					return nil, err
				}
				return put(tb, inner), nil
			}}
		}, short)
	})
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
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

// ended is an append of the end event.
func ended(key reprise.StreamKey, first uint64) reprise.AppendRequest {
	req := request(key, first, "the last secret batch")
	req.End = &reprise.End{Outcome: "completed", Time: created, Expires: created, Data: []byte("a secret end")}
	return req
}

// opaque makes events of batches that are none, as those of package storetest are, so that what looks at
// events can be tested with them: the first has the bytes as its data, and the others are empty.
func opaque(inner reprise.Store) reprise.Store {
	o := &asBatches{Around: wrap.Around{Inner: inner}}
	o.pages.Init(inner, 2)
	return o
}

type asBatches struct {
	wrap.Around
	pages wrap.Pager
}

func (o *asBatches) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		reqs[i].Bytes = asEvents(&reqs[i])
	}
	return o.Inner.Append(ctx, reqs)
}

func (o *asBatches) CreateAppend(ctx context.Context, info reprise.StreamInfo,
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

func (o *asBatches) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	return o.pages.Read(ctx, key, after, maxBytes, func(_ *reprise.StreamInfo, b reprise.Batch) ([]byte, error) {
		for e, err := range reprise.Records(b) {
			return e.Data, err
		}
		return nil, nil
	})
}
