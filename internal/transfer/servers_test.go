package transfer_test

import (
	"testing"

	"reprise"
	"reprise/internal/storeurl"
	"reprise/internal/testserver"
)

// remote opens a store of a server.
func remote(tb testing.TB, url string) reprise.Store {
	tb.Helper()
	store, err := storeurl.Open(tb.Context(), url, nil)
	check(tb, err)
	tb.Cleanup(func() { check(tb, store.Close()) })
	return store
}

// TestCopyBetweenServers takes every kind of stream through every kind of store and back: memory, Redis,
// PostgreSQL, NATS and SQLite. Nothing is lost on the way.
func TestCopyBetweenServers(t *testing.T) {
	first := memory(t)
	n := fill(t, first)
	stores := []struct {
		name string
		open func(testing.TB) reprise.Store
	}{
		{"redis", func(tb testing.TB) reprise.Store { return remote(tb, testserver.Redis(tb, nil).URL()) }},
		{"postgres", func(tb testing.TB) reprise.Store {
			return remote(tb,
				testserver.Postgres(tb, &testserver.PostgresOptions{Config: []string{"fsync = off"}}).URL())
		}},
		{"nats", func(tb testing.TB) reprise.Store { return remote(tb, testserver.NATS(tb, nil).URL()) }},
		{"sqlite", sqlite},
	}
	for i, at := range stores {
		t.Run("memory to "+at.name+" to "+stores[(i+1)%len(stores)].name, func(t *testing.T) {
			from, to := at.open(t), stores[(i+1)%len(stores)].open(t)
			for _, pair := range [][2]reprise.Store{{first, from}, {from, to}} {
				result := copyAll(t, pair[0], pair[1])
				if result.Copied != int64(n) {
					t.Errorf("%+v, want %d copied", result, n)
				}
				wantSame(t, first, pair[1])
				if all, checked := problems(t, pair[1], nil); len(all) > 0 || checked.Streams != int64(n) {
					t.Errorf("%+v: %q", checked, all)
				}
				if again := copyAll(t, pair[0], pair[1]); again.Present != int64(n) {
					t.Errorf("the second time: %+v", again)
				}
			}
		})
	}
}
