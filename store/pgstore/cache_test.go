package pgstore_test

import (
	"slices"
	"testing"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/storewrap"
)

// TestCacheTellsOfLostEvents: with failover=keeps the store takes events for lost only if somebody knows of them. A
// cache that has them in memory does, whatever position is read.
func TestCacheTellsOfLostEvents(t *testing.T) {
	for name, after := range map[string]uint64{"before the fork": 3, "at a lost event": 6, "at the last event": 8} {
		t.Run(name, func(t *testing.T) {
			own := testserver.Postgres(t, &testserver.PostgresOptions{Config: []string{"fsync = off"}})
			s := mustOpen(t, own.URL()+"&failover=keeps", nil)
			cached, err := storewrap.Cache(s, nil)
			check(t, err)
			req := create(t, s, "s")
			for range 5 {
				put(t, s, &req, 100, 1000)
			}
			check(t, own.Backup())
			tail(t, s, "s")
			for range 3 {
				put(t, s, &req, 100, 1000)
			}
			page, err := cached.Read(t.Context(), key("s"), 0, 1<<20)
			check(t, err)
			if len(page.Batches) != 8 {
				t.Fatalf("%d batches, want 8", len(page.Batches))
			}
			check(t, own.Recover())
			tail(t, s, "s")
			page, err = cached.Read(t.Context(), key("s"), after, 1<<20)
			check(t, err)
			want := []reprise.Ancestor{{Epoch: req.Epoch, Fork: 5}}
			if got := page.Info; got.Epoch == req.Epoch || got.Tail != 5 || !slices.Equal(got.Lineage, want) {
				t.Errorf("%+v, want another epoch, with the fork %+v", got, want)
			}
			if got, want := len(page.Batches), max(0, 5-int(after)); got != want {
				t.Errorf("%d batches after %d, want %d", got, after, want)
			}
		})
	}
}
