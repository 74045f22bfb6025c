package transfer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

func TestMain(m *testing.M) {
	code := m.Run()
	// The driver of Redis leaves a goroutine that sleeps for a second when it has asked whether a server is of a
	// cluster.
	err := goleak.Find()
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func memory(tb testing.TB) reprise.Store {
	store := memstore.New(nil)
	tb.Cleanup(func() { _ = store.Close() })
	return store
}

func sqlite(tb testing.TB) reprise.Store {
	tb.Helper()
	store, err := sqlitestore.Open(tb.Context(), filepath.Join(tb.TempDir(), "events.db"),
		&sqlitestore.Options{Sync: sqlitestore.SyncNormal})
	check(tb, err)
	tb.Cleanup(func() { _ = store.Close() })
	return store
}

// eachPair runs f with stores of all kinds on both sides.
func eachPair(t *testing.T, f func(t *testing.T, from, to reprise.Store)) {
	kinds := map[string]func(testing.TB) reprise.Store{"memory": memory, "sqlite": sqlite}
	for a, open := range kinds {
		for b, openOther := range kinds {
			t.Run(a+" to "+b, func(t *testing.T) { f(t, open(t), openOther(t)) })
		}
	}
}

var nobody reprise.Owner

func key(name string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}
}

// openLog opens a Log that does not sweep.
func openLog(tb testing.TB, store reprise.Store) *reprise.Log {
	tb.Helper()
	log, err := reprise.Open(tb.Context(), store, &reprise.Options{SweepEvery: -1})
	check(tb, err)
	tb.Cleanup(func() { _ = log.Close() })
	return log
}

func create(tb testing.TB, log *reprise.Log, k reprise.StreamKey, config reprise.StreamConfig,
	owner reprise.Owner,
) *reprise.Stream {
	tb.Helper()
	s, _, err := log.CreateWith(tb.Context(), reprise.CreateOptions{Owner: owner}, k, config)
	check(tb, err)
	return s
}

// add appends n events, per of them in a batch.
func add(tb testing.TB, s *reprise.Stream, n, per int, opts reprise.AppendOptions) {
	tb.Helper()
	for i := 0; i < n; i += per {
		var events []reprise.Event
		for k := range min(per, n-i) {
			events = append(events,
				reprise.Event{Type: "stdout", Data: fmt.Appendf(nil, "line %d of %s\n", i+k, s.Key())})
		}
		_, err := s.AppendWith(tb.Context(), opts, events...)
		check(tb, err)
	}
}

func end(tb testing.TB, s *reprise.Stream) {
	tb.Helper()
	_, err := s.End(tb.Context(), "completed", reprise.Event{Data: []byte("done")})
	check(tb, err)
}

// fill makes a stream of every kind, and returns how many.
func fill(tb testing.TB, store reprise.Store) int {
	tb.Helper()
	log := openLog(tb, store)
	config := reprise.StreamConfig{
		Retention: reprise.Retention{MaxEvents: 50, MaxAge: 90 * time.Minute},
		Labels:    map[string]string{"a": "b", "bytes": "\xff\x00"}, Meta: []byte("meta\x00"),
	}
	create(tb, log, key("empty"), reprise.StreamConfig{}, nobody)
	add(tb, create(tb, log, key("open"), config, nobody), 40, 3, reprise.AppendOptions{})
	ended := create(tb, log, reprise.StreamKey{Tenant: "other", Name: "execution:ended"}, reprise.StreamConfig{},
		nobody)
	add(tb, ended, 10, 1, reprise.AppendOptions{})
	end(tb, ended)
	// the window begins within a batch
	add(tb, create(tb, log, key("retained"), config, nobody), 230, 7, reprise.AppendOptions{})
	trimmed := create(tb, log, key("trimmed/deep"), reprise.StreamConfig{}, nobody)
	add(tb, trimmed, 30, 10, reprise.AppendOptions{})
	check(tb, trimmed.Trim(tb.Context(), 15))
	bare := create(tb, log, key("bare"), reprise.StreamConfig{}, nobody)
	add(tb, bare, 5, 1, reprise.AppendOptions{})
	check(tb, bare.Trim(tb.Context(), 6))
	over := create(tb, log, key("over"), reprise.StreamConfig{}, nobody)
	add(tb, over, 5, 1, reprise.AppendOptions{})
	end(tb, over)
	check(tb, over.Trim(tb.Context(), 7))
	owner := reprise.Owner{Name: "replica-1", Fence: 1}
	owned := create(tb, log, key("owned"), reprise.StreamConfig{}, owner)
	add(tb, owned, 3, 1, reprise.AppendOptions{Owner: owner})
	add(tb, owned, 3, 1, reprise.AppendOptions{Owner: reprise.Owner{Name: "replica-2", Fence: 2}})
	produced := create(tb, log, key("produced"), reprise.StreamConfig{}, nobody)
	for i := range 100 {
		id := reprise.ProducerID{ID: fmt.Sprint("p", i*7%80), Epoch: uint64(i)}
		add(tb, produced, 2, 2, reprise.AppendOptions{Producer: &id})
	}
	check(tb, produced.Trim(tb.Context(), 201))
	quiet := create(tb, log, key("produced/on"), reprise.StreamConfig{}, nobody)
	add(tb, quiet, 2, 2, reprise.AppendOptions{Producer: &reprise.ProducerID{ID: "p"}})
	add(tb, quiet, 2, 2, reprise.AppendOptions{})
	check(tb, log.Close())
	return 10
}

// infos are all streams of a store as Read tells them, without the marker of its wrappers.
func infos(tb testing.TB, store reprise.Store) map[reprise.StreamKey]reprise.StreamInfo {
	tb.Helper()
	all := map[reprise.StreamKey]reprise.StreamInfo{}
	page, err := store.List(tb.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 1000})
	check(tb, err)
	for _, s := range page.Streams {
		if s.Key.IsMarker() {
			continue
		}
		page, err := store.Read(tb.Context(), s.Key, 1<<63, 0)
		check(tb, err)
		all[s.Key] = page.Info
	}
	return all
}

// events are all events of a stream.
func events(tb testing.TB, store reprise.Store, k reprise.StreamKey) (all []reprise.Event) {
	tb.Helper()
	for after := uint64(0); ; {
		page, err := store.Read(context.WithoutCancel(tb.Context()), k, after, 1<<20)
		check(tb, err)
		if len(page.Batches) == 0 {
			return all
		}
		for _, b := range page.Batches {
			for e, err := range reprise.Records(b) {
				check(tb, err)
				if e.Seq >= page.Info.Earliest {
					all = append(all, e)
				}
			}
			after = b.Last()
		}
	}
}
