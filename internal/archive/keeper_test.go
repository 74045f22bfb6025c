package archive_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/internal/archive"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
	"reprise/store/storetest"
)

var (
	_ reprise.Store   = (*archive.Store)(nil)
	_ archive.Sink    = (*archive.Store)(nil)
	_ reprise.Store   = (*archive.Keeper)(nil)
	_ reprise.Watcher = (*archive.Keeper)(nil)
	_ reprise.Sweeper = (*archive.Keeper)(nil)
	_ reprise.Sizer   = (*archive.Keeper)(nil)

	_ reprise.CreateAppender = (*archive.Keeper)(nil)

	_ reprise.Concurrent = (*archive.Keeper)(nil)
)

// writeOnly hides that an archive can be read, and refuses streams while down is true.
type writeOnly struct {
	archive.Sink
	down *atomic.Bool
	puts *atomic.Int64
}

func (w writeOnly) Put(ctx context.Context, info reprise.StreamInfo, batches iter.Seq2[reprise.Batch, error]) error {
	if w.down.Load() {
		return fmt.Errorf("%w: down", reprise.ErrUnavailable)
	}
	w.puts.Add(1)
	return w.Sink.Put(ctx, info, batches)
}

// eager is a Keeper that archives before each sweep, and so sweeps what a Store must.
type eager struct{ *archive.Keeper }

func (e eager) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	e.PassNow(ctx, now)
	e.PassNow(ctx, now) // what has just ended is held back for one more
	return e.Keeper.Sweep(ctx, now, remember, limit)
}

// TestKeeperIsAStore: around a store it keeps the contract, with what it sweeps archived. Its archive
// is not read here, for then nothing expires.
func TestKeeperIsAStore(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		dir := tb.TempDir()
		return storetest.Harness{Persistent: true, Open: func() (reprise.Store, error) {
			live, err := sqlitestore.Open(context.Background(), filepath.Join(dir, "live.db"),
				&sqlitestore.Options{Sync: sqlitestore.SyncNormal})
			if err != nil {
				return nil, err
			}
			sink := writeOnly{openStore(filepath.Join(dir, "archive")), &atomic.Bool{}, &atomic.Int64{}}
			keeper := archive.Keep(live, sink, &archive.Options{Every: time.Hour})
			time.Sleep(5 * time.Millisecond) // its first pass, over next to nothing
			return eager{keeper}, nil
		}}
	}, &storetest.Options{Events: 2_000, Streams: 200})
}

// openLog opens a Log that sweeps every minute.
func openLog(t *testing.T, store reprise.Store) *reprise.Log {
	t.Helper()
	log, err := reprise.Open(t.Context(), store, &reprise.Options{
		Retention: reprise.Retention{MaxAge: time.Hour}, SweepEvery: time.Minute,
	})
	check(t, err)
	return log
}

// fill appends n events to a new stream and ends it.
func fill(t *testing.T, log *reprise.Log, name string, n int) *reprise.Stream {
	t.Helper()
	s, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: "default", Name: name}, reprise.StreamConfig{})
	check(t, err)
	for i := range n {
		_, err := s.Append(t.Context(), reprise.Event{Data: fmt.Append(nil, "event ", i)})
		check(t, err)
	}
	_, err = s.End(t.Context(), "completed", reprise.Event{})
	check(t, err)
	return s
}

// texts are the data of the events after a cursor.
func texts(t *testing.T, log *reprise.Log, s *reprise.Stream, after reprise.Position) (all []string) {
	t.Helper()
	found, err := log.Stream(t.Context(), s.Key())
	check(t, err)
	r, err := found.Reader(t.Context(), after)
	check(t, err)
	defer r.Close()
	for e, err := range r.Events(t.Context()) {
		check(t, err)
		all = append(all, string(e.Data))
	}
	return all
}

// TestSweptStreamIsReadFromTheArchive lets a stream expire and reads on with a cursor of before.
func TestSweptStreamIsReadFromTheArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, dir := memstore.New(nil), t.TempDir()
		keeper := archive.Keep(live, openStore(dir), nil)
		log := openLog(t, keeper)
		s := fill(t, log, "s", 5)
		want := texts(t, log, s, reprise.Earliest())
		time.Sleep(2 * time.Hour)
		if _, err := live.Read(t.Context(), s.Key(), 0, 1); !errors.Is(err, reprise.ErrExpired) {
			t.Fatal("the live store still has it:", err)
		}
		if diff := cmp.Diff(want, texts(t, log, s, reprise.Earliest())); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(want[3:], texts(t, log, s, reprise.After(s.Cursor(3)))); diff != "" {
			t.Fatal(diff)
		}
		check(t, log.Remove(t.Context(), s.Key())) // removes nothing there
		if sizes, err := log.Sizes(t.Context()); err != nil || len(sizes) != 0 {
			t.Fatal(sizes, err)
		}
		if diff := cmp.Diff(want, texts(t, log, s, reprise.Earliest())); diff != "" {
			t.Fatal(diff)
		}
		if _, err := log.Stream(t.Context(), reprise.StreamKey{Tenant: "other", Name: "s"}); !errors.Is(err,
			reprise.ErrNotFound) {
			t.Fatal("a stream of nobody:", err)
		}
		check(t, log.Close())
		check(t, keeper.Close())
		check(t, keeper.Close())
	})
}

// TestExpiredStreamIsKeptUntilArchived makes the archive unavailable for hours.
func TestExpiredStreamIsKeptUntilArchived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, dir := memstore.New(nil), t.TempDir()
		sink := writeOnly{openStore(dir), &atomic.Bool{}, &atomic.Int64{}}
		keeper := archive.Keep(live, sink, nil)
		log := openLog(t, keeper)
		before := fill(t, log, "before", 5)
		time.Sleep(50 * time.Minute) // it is archived, and not expired
		sink.down.Store(true)
		after := fill(t, log, "after", 5)
		time.Sleep(5 * time.Hour)
		if _, err := live.Read(t.Context(), before.Key(), 0, 1); !errors.Is(err, reprise.ErrExpired) {
			t.Error("what was archived before is not swept:", err)
		}
		if _, err := live.Read(t.Context(), after.Key(), 0, 1); err != nil {
			t.Error("what is not archived was swept:", err)
		}
		sink.down.Store(false)
		time.Sleep(3 * time.Minute)
		if _, err := live.Read(t.Context(), after.Key(), 0, 1); !errors.Is(err, reprise.ErrExpired) {
			t.Error("what is archived by now is not swept:", err)
		}
		if n := sink.puts.Load(); n != 2 {
			t.Errorf("%d streams were archived, want each of 2 once", n)
		}
		check(t, log.Close())
		check(t, keeper.Close())
	})
}

// TestEndInThePastIsArchivedToo ends streams with times so long ago that they have expired at once, at
// all moments between passes.
func TestEndInThePastIsArchivedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, dir := memstore.New(nil), t.TempDir()
		sink := openStore(dir)
		keeper := archive.Keep(live, sink, nil)
		log := openLog(t, keeper)
		for i := range 100 {
			s, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: "default", Name: fmt.Sprint("s", i)},
				reprise.StreamConfig{})
			check(t, err)
			_, err = s.End(t.Context(), "completed", reprise.Event{Time: time.Now().Add(-24 * time.Hour)})
			check(t, err)
			time.Sleep(7 * time.Second)
			_, err = log.Sweep(t.Context())
			check(t, err)
		}
		time.Sleep(10 * time.Minute)
		page, err := sink.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 1000})
		if err != nil || len(page.Streams) != 100 {
			t.Errorf("%d streams are archived, want 100: %v", len(page.Streams), err)
		}
		if page, err := live.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 1000}); err != nil ||
			len(page.Streams) != 0 {
			t.Errorf("%d streams are not swept: %v", len(page.Streams), err)
		}
		check(t, log.Close())
		check(t, keeper.Close())
	})
}

// unreadable is a Store that cannot read one stream any more.
type unreadable struct {
	*memstore.Store
	name string
}

func (u unreadable) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if key.Name == u.name {
		return reprise.Page{}, errors.New("damaged")
	}
	return u.Store.Read(ctx, key, after, maxBytes)
}

// TestLostStreamKeepsNothingBack: what can never be archived does not fill the store.
func TestLostStreamKeepsNothingBack(t *testing.T) {
	live := memstore.New(nil)
	log := openLog(t, live)
	fill(t, log, "lost", 1)
	fill(t, log, "fine", 1)
	check(t, log.Close())
	store := newStore(t)
	result, err := archive.New(unreadable{live, "lost"}, store, nil).Pass(t.Context(), nil, false)
	if err != nil || result.Archived != 1 || len(result.Failed) != 1 || !result.Failed[0].Lost {
		t.Fatalf("%+v, %v", result, err)
	}
	keeper := archive.Keep(unreadable{live, "lost"}, writeOnly{store, &atomic.Bool{}, &atomic.Int64{}},
		&archive.Options{Every: time.Hour})
	time.Sleep(20 * time.Millisecond)
	at := time.Now().Add(24 * time.Hour)
	keeper.PassNow(t.Context(), at)
	swept, err := keeper.Sweep(t.Context(), at, at, 10)
	if err != nil || len(swept) != 2 {
		t.Fatalf("%d streams were swept, want 2: %v", len(swept), err)
	}
	check(t, keeper.Close())
}

func TestPassArchivesEndedStreamsOnce(t *testing.T) {
	live := memstore.New(nil)
	log := openLog(t, live)
	for i := range 20 {
		fill(t, log, fmt.Sprint("s", i), i)
	}
	_, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: "default", Name: "open"}, reprise.StreamConfig{})
	check(t, err)
	check(t, log.Close())
	store := newStore(t)
	archiver := archive.New(live, store, &archive.Options{PageBytes: 30})
	some := func(info *reprise.StreamInfo) bool { return info.Tail <= 10 }
	for _, c := range []struct {
		chosen func(*reprise.StreamInfo) bool
		remove bool
		want   archive.Result
	}{
		{some, false, archive.Result{Archived: 10, Events: 55}},
		{some, false, archive.Result{Present: 10}},
		{nil, true, archive.Result{Archived: 10, Present: 10, Removed: 20, Events: 155}},
		{nil, true, archive.Result{}},
	} {
		got, err := archiver.Pass(t.Context(), c.chosen, c.remove)
		got.Bytes = 0
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
	}
	page, err := live.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 100})
	if err != nil || len(page.Streams) != 1 || page.Streams[0].Key.Name != "open" {
		t.Fatal(page, err)
	}
}
