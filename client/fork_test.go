package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"reprise"
	"reprise/client"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// failover is a real server on a store of which a promotion can lose the newest events.
type failover struct {
	hub *shared.Hub
	c   *client.Client
	s   *reprise.Stream
}

// newFailover makes the stream "s" with ten events, one a batch.
func newFailover(t *testing.T) *failover {
	t.Helper()
	hub := shared.New(memstore.New(nil))
	url, log := liveServerOn(t, hub.Store())
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
	s, _, err := log.Create(t.Context(), key, reprise.StreamConfig{})
	if err != nil {
		t.Fatal(err)
	}
	f := &failover{hub: hub, c: liveClient(t, url, &cutter{after: -1}), s: s}
	f.add(t, "old", 10)
	return f
}

func (f *failover) add(t *testing.T, name string, count int) {
	t.Helper()
	for i := range count {
		_, err := f.s.Append(t.Context(), reprise.Event{Type: "note", Data: fmt.Appendf(nil, "%s %d", name, i+1)})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (f *failover) lose(t *testing.T, keep uint64) {
	t.Helper()
	if err := f.hub.Lose(t.Context(), f.s.Key(), keep); err != nil {
		t.Fatal(err)
	}
}

func (f *failover) end(t *testing.T) {
	t.Helper()
	event := reprise.Event{Format: reprise.FormatMembers, Data: []byte(`{"outcome":"completed"}`)}
	if _, err := f.s.End(t.Context(), "completed", event); err != nil {
		t.Fatal(err)
	}
}

// TestFollowOverPromotionThatLostEvents (G1, G2): a loop in mid-stream yields the gap with the fork and the number of
// events that were taken back, then each event of the new epoch once, and comes to the end.
func TestFollowOverPromotionThatLostEvents(t *testing.T) {
	for _, types := range [][]string{nil, {"note"}} {
		t.Run(fmt.Sprintf("types=%v", types), func(t *testing.T) {
			f := newFailover(t)
			var got []string
			for e, err := range f.c.FollowStream(t.Context(), "s", &client.FollowOptions{Types: types}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%d %s", e.Seq, e.Data))
				switch {
				case e.Seq == 10 && e.Type == "note" && len(got) == 10:
					f.lose(t, 6)
				case e.Gap != nil:
					got[len(got)-1] = "gap"
					fork := f.s.Cursor(6).String()
					if g := e.Gap; g.Code != "epoch_changed" || g.Fork != fork || g.TakenBack != 4 || g.Missed != 0 ||
						e.Cursor != fork {
						t.Errorf("%+v at %s, want the fork %s", g, e.Cursor, fork)
					}
					f.add(t, "new", 5) // 7 to 11: the seqs of lost events are given again
					f.end(t)
				case e.End != nil:
					got[len(got)-1] = "end"
				}
			}
			var want []string
			for i := range 10 {
				want = append(want, fmt.Sprintf("%d old %d", i+1, i+1))
			}
			want = append(want, "gap")
			for i := range 5 {
				want = append(want, fmt.Sprintf("%d new %d", i+7, i+1))
			}
			want = append(want, "end")
			if g, w := strings.Join(got, ", "), strings.Join(want, ", "); g != w {
				t.Errorf("got  %s\nwant %s", g, w)
			}
		})
	}
}

// TestFollowResumesOverPromotionThatLostEvents: a cursor that was kept over the promotion is exact up to the fork, and
// beyond it a gap, or a *GapError with the same numbers.
func TestFollowResumesOverPromotionThatLostEvents(t *testing.T) {
	f := newFailover(t)
	cursors := map[uint64]string{}
	for _, seq := range []uint64{5, 6, 9} {
		cursors[seq] = f.s.Cursor(seq).String()
	}
	f.lose(t, 6)
	f.add(t, "new", 2)
	f.end(t)
	for seq, want := range map[uint64]string{
		5: "6 note,7 note,8 note,9 end",
		6: "7 note,8 note,9 end",
		9: "0 gap,7 note,8 note,9 end",
	} {
		got, err := collect(f.c.FollowStream(t.Context(), "s", &client.FollowOptions{After: cursors[seq]}))
		if err != nil || seqs(got) != want {
			t.Errorf("after %d: %s, %v", seq, seqs(got), err)
		}
	}
	_, err := collect(f.c.FollowStream(t.Context(), "s",
		&client.FollowOptions{After: cursors[9], OnGap: client.GapFail}))
	gap, ok := errors.AsType[*client.GapError](err)
	if !ok || gap.Gap.Fork != f.s.Cursor(6).String() || gap.Gap.TakenBack != 3 || gap.Gap.Missed != 0 {
		t.Fatalf("%+v", err)
	}
	if window, ok := errors.AsType[*reprise.WindowError](err); !ok || window.Resume() != f.s.Cursor(6) {
		t.Errorf("%v", err)
	}
}

// TestFollowGoesOnAfterCursorAhead: a position that the stream has never had is a gap, after which all that is kept
// comes.
func TestFollowGoesOnAfterCursorAhead(t *testing.T) {
	f := newFailover(t)
	f.end(t)
	ahead := f.s.Cursor(20).String()
	got, err := collect(f.c.FollowStream(t.Context(), "s", &client.FollowOptions{After: ahead, Types: []string{"end"}}))
	if err != nil || seqs(got) != "0 gap,11 end" || got[0].Gap.Code != "cursor_ahead" {
		t.Errorf("%s, %v", seqs(got), err)
	}
	_, err = collect(f.c.FollowStream(t.Context(), "s", &client.FollowOptions{After: ahead, OnGap: client.GapFail}))
	if gap, ok := errors.AsType[*client.GapError](err); !ok || gap.Gap.Code != "cursor_ahead" {
		t.Errorf("%v", err)
	}
}

// TestMissingStartOfFilteredStream: the head of the real server tells a reader of some types where the stream begins.
func TestMissingStartOfFilteredStream(t *testing.T) {
	f := newFailover(t)
	if err := f.s.Trim(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	f.end(t)
	got, err := collect(f.c.FollowStream(t.Context(), "s", &client.FollowOptions{Types: []string{"end"}}))
	if err != nil || seqs(got) != "0 gap,11 end" || got[0].Gap.Missed != 4 {
		t.Errorf("%s, %v", seqs(got), err)
	}
}

// TestAnotherEpochNeverGoesBack: an event of another epoch whose seq the reader has had in the last one is an error,
// because no gap has taken the reader's event back. So is a bare id, for a reader of some types.
func TestAnotherEpochNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := script(events(text(1, "note", "a"), text(2, "note", "b")),
			plain(200, sseHeader+"Stream-Tail: "+cursorAt(2, "B")+"\r\n", "id: "+cursorAt(2, "B")+"\n\n"))
		got, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x",
			&client.FollowOptions{Types: []string{"note"}}))
		if !errors.Is(err, client.ErrProtocol) || len(got) != 2 {
			t.Errorf("a bare id: %s, %v", seqs(got), err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		back := frame(2, "B", "note", `{"seq":2,"time":"2026-11-20T09:30:00.000Z","text":"x"}`)
		w := script(events(text(1, "note", "a"), text(2, "note", "b")),
			plain(200, sseHeader+"Stream-Tail: "+cursorAt(2, "B")+"\r\n", back))
		got, err := collect(w.client(t, client.Options{}).Follow(t.Context(), "x", nil))
		if !errors.Is(err, client.ErrProtocol) || len(got) != 2 {
			t.Errorf("%s, %v", seqs(got), err)
		}
	})
}
