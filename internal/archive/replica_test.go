package archive_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/archive"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// TestReplicasWithKeepers lets two servers on one store archive and sweep for half a day: each stream is archived,
// and swept by one of them, and both read it afterwards.
func TestReplicasWithKeepers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := memstore.New(nil)
		hub, dir, keys := shared.New(live), t.TempDir(), reprise.NewKeyset()
		var logs []*reprise.Log
		var keepers []*archive.Keeper
		var swept [2]int64
		for i := range 2 {
			keeper := archive.Keep(hub.Store(), openStore(dir), nil)
			log, err := reprise.Open(t.Context(), keeper, &reprise.Options{
				Keys: keys, Retention: reprise.Retention{MaxAge: time.Hour}, SweepEvery: time.Minute,
				Hooks: &reprise.Hooks{Swept: func(r reprise.SweepResult, _ error) { swept[i] += r.Streams }},
			})
			check(t, err)
			if !log.Shared() {
				t.Error("the Log does not see that its store is shared")
			}
			logs, keepers = append(logs, log), append(keepers, keeper)
			time.Sleep(17 * time.Second)
		}
		var streams []*reprise.Stream
		for i := range 20 {
			streams = append(streams, fill(t, logs[i%2], fmt.Sprint("s", i), 3))
			time.Sleep(30 * time.Minute)
		}
		time.Sleep(3 * time.Hour)
		for _, s := range streams {
			if _, err := live.Read(t.Context(), s.Key(), 0, 1); !errors.Is(err, reprise.ErrExpired) {
				t.Errorf("%s is not swept: %v", s.Key(), err)
			}
			for _, log := range logs {
				if got := texts(t, log, s, reprise.After(s.Cursor(1))); len(got) != 3 {
					t.Errorf("%s: %q", s.Key(), got)
				}
			}
		}
		for i := range 2 {
			check(t, logs[i].Close())
			check(t, keepers[i].Close())
		}
		if swept[0]+swept[1] != int64(len(streams)) {
			t.Errorf("%d streams were swept, want %d", swept, len(streams))
		}
	})
}
