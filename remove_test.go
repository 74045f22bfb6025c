package reprise_test

import (
	"fmt"
	"testing"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// TestStreamRemoveKeepsNewerEpoch: Remove of a Stream removes the epoch that the Stream was opened with and no newer
// one, whichever replica created that one and whether or not it is in memory.
func TestStreamRemoveKeepsNewerEpoch(t *testing.T) {
	for _, again := range []int{0, 1} { // the replica that uses the name again
		t.Run(fmt.Sprint("again=", again), func(t *testing.T) {
			hub := shared.New(memstore.New(nil))
			logs := []*reprise.Log{openLog(t, hub.Store(), nil), openLog(t, hub.Store(), nil)}
			old := createOn(t, logs[0], "s")
			add(t, old, text("old"))
			check(t, logs[1-again].Remove(t.Context(), old.Key()))
			later := createOn(t, logs[again], "s")
			add(t, later, text("later"))
			check(t, old.Remove(t.Context()))
			check(t, old.Remove(t.Context()))
			for _, log := range logs {
				s, err := log.Stream(t.Context(), old.Key())
				check(t, err)
				info, err := s.Info(t.Context())
				if err != nil || info.Tail != 1 {
					t.Errorf("the later life has %d events, %v", info.Tail, err)
				}
			}
			check(t, later.Remove(t.Context()))
			_, err := later.Info(t.Context())
			wantError(t, err, reprise.ErrNotFound)
			_, err = logs[0].Stream(t.Context(), old.Key())
			if err == nil { // a shared Log finds out when the handle is used
				s, _ := logs[0].Stream(t.Context(), old.Key())
				_, err = s.Info(t.Context())
			}
			wantError(t, err, reprise.ErrNotFound)
			sizes, err := logs[again].Sizes(t.Context())
			if err != nil || sizes[reprise.DefaultTenant].Bytes != 0 {
				t.Errorf("sizes %v, %v", sizes, err)
			}
		})
	}
}
