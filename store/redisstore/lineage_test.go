package redisstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/redisstore"
)

// restart starts a server again, and waits until s can use it.
func restart(t *testing.T, server *testserver.RedisServer, s *redisstore.Store) {
	t.Helper()
	must(t, server.Kill())
	must(t, server.Start())
	until(t, "the server is back", func() bool {
		_, err := s.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 1})
		return err == nil
	})
}

// TestCreateFindsLoss: Create of a stream that exists answers in the new epoch, as Read does.
func TestCreateFindsLoss(t *testing.T) {
	server := testserver.Redis(t, nil)
	s := mustOpen(t, server.URL()+"?restart=loses", nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 3)
	restart(t, server, s)
	found, err := s.Create(t.Context(),
		reprise.StreamInfo{Key: info.Key, Epoch: reprise.NewEpoch(), Created: time.Now()})
	must(t, err)
	forked(t, found, info.Epoch, 3)
	if again := read(t, s, info.Key).Info; again.Epoch != found.Epoch || len(again.Lineage) != 1 {
		t.Errorf("Read says %+v after Create said %+v", again, found)
	}
}

// TestRestartThatKeepsChangesNothing: reading after a start that lost nothing leaves the epoch and the state alone, so
// that an appender that knows of more events than a restored backup has is still recognized; see TestOlderFile.
func TestRestartThatKeepsChangesNothing(t *testing.T) {
	server := testserver.Redis(t, nil)
	s := mustOpen(t, server.URL(), nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 3)
	before := command(t, server, "HGETALL", "reprise:{default/s}:state")
	restart(t, server, s)
	for range 3 {
		if page := read(t, s, info.Key); page.Info.Epoch != info.Epoch || len(page.Info.Lineage) > 0 {
			t.Fatalf("after a start that lost nothing: %+v", page.Info)
		}
	}
	if after := command(t, server, "HGETALL", "reprise:{default/s}:state"); after != before {
		t.Errorf("the state is %q after reading, was %q", after, before)
	}
}

// TestEndedStreamKeepsItsEpoch: no seq of an ended stream is given again, whatever its server may have lost.
func TestEndedStreamKeepsItsEpoch(t *testing.T) {
	server := testserver.Redis(t, nil)
	s := mustOpen(t, server.URL()+"?restart=loses", nil)
	info := create(t, s, "s")
	req := one(&info, []byte("the end"))
	req.End = &reprise.End{Outcome: "completed", Time: time.Now(), Expires: time.Now().Add(-time.Second)}
	if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
		t.Fatal(errs)
	}
	restart(t, server, s)
	if page := read(t, s, info.Key); page.Info.Epoch != info.Epoch {
		t.Errorf("the epoch was %s: %+v", info.Epoch, page.Info)
	}
	swept, err := s.Sweep(t.Context(), time.Now(), time.Now().Add(time.Hour), 10)
	if err != nil || len(swept) != 1 {
		t.Errorf("%d streams were swept, %v, want 1", len(swept), err)
	}
}

// TestLineageBesideAnOlderVersion: a program of the version before renews the epoch and does not know the lineage. What
// it has left must not be taken for that of the new epoch, whose fork is not known.
func TestLineageBesideAnOlderVersion(t *testing.T) {
	server := testserver.Redis(t, nil)
	s := mustOpen(t, server.URL()+"?restart=loses", nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 5)
	restart(t, server, s)
	forked(t, read(t, s, info.Key).Info, info.Epoch, 5)
	older := reprise.NewEpoch()
	// As adopt.lua of the version before.
	command(t, server, "HSET", "reprise:{default/s}:state", "e", string(older)+"  0", "t", "3")
	got := read(t, s, info.Key).Info
	if got.Epoch != older || len(got.Lineage) > 0 {
		t.Fatalf("%+v, want epoch %s without a lineage", got, older)
	}
	page, err := s.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 1})
	if err != nil || len(page.Streams) != 1 || len(page.Streams[0].Lineage) > 0 {
		t.Errorf("List says %+v, %v", page.Streams, err)
	}
	restart(t, server, s)
	got = read(t, s, info.Key).Info
	forked(t, got, older, 3)
	if want := []reprise.Ancestor{{Epoch: older, Fork: 3}}; !slices.Equal(got.Lineage, want) {
		t.Errorf("the lineage is %v, want %v", got.Lineage, want)
	}
}

// TestTrimByOneWhoKnowsLostEvents: a trim to a seq that the server has lost leaves the stream alone.
func TestTrimByOneWhoKnowsLostEvents(t *testing.T) {
	s := mustOpen(t, place(t, server(t)), nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 3)
	must(t, s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: 9, Epoch: info.Epoch}))
	if got := read(t, s, info.Key).Info; got.Earliest != 1 || got.Tail != 3 {
		t.Errorf("after a trim beyond the tail: %+v", got)
	}
	must(t, s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: 4, Epoch: info.Epoch}))
	if got := read(t, s, info.Key).Info; got.Earliest != 4 || got.Tail != 3 {
		t.Errorf("after a trim of all: %+v", got)
	}
}

// TestLineageHasABound: of more losses than MaxLineage the newest are remembered.
func TestLineageHasABound(t *testing.T) {
	on := server(t)
	s := mustOpen(t, place(t, on)+"&restart=loses", nil)
	state := fmt.Sprintf("t%d:{default/s}:state", prefixes.Load())
	info := create(t, s, "s")
	appendN(t, s, &info, 2)
	var epochs []reprise.Epoch
	for range reprise.MaxLineage + 3 {
		epochs = append(epochs, read(t, s, info.Key).Info.Epoch)
		command(t, on, "HSET", state, "h", "another", "r", "another")
	}
	var got []reprise.Epoch
	for _, a := range read(t, s, info.Key).Info.Lineage {
		got = append(got, a.Epoch)
	}
	if want := epochs[3:]; !slices.Equal(got, want) {
		t.Errorf("the lineage is %v\n\twant %v", got, want)
	}
}
