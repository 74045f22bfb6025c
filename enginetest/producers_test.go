package enginetest

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"reprise"
	"reprise/store/memstore"
)

func producing(id string, epoch, seq uint64) reprise.AppendOptions {
	return reprise.AppendOptions{Producer: &reprise.ProducerID{ID: id, Epoch: epoch, Seq: seq}}
}

func TestProducersAppendOnce(t *testing.T) {
	type answer struct {
		first, last uint64
		duplicate   bool
		err         error
	}
	eachStore(t, func(t *testing.T, store reprise.Store) {
		keys := reprise.NewKeyset()
		log := openLog(t, store, &reprise.Options{Keys: keys})
		s := create(t, log, "s", reprise.Retention{})
		steps := []struct {
			what       string
			id         string
			epoch, seq uint64
			events     int
			want       answer
		}{
			{"a new one", "a", 0, 0, 2, answer{first: 1, last: 2}},
			{"a repeat", "a", 0, 0, 2, answer{first: 1, last: 2, duplicate: true}},
			{"the next", "a", 0, 1, 1, answer{first: 3, last: 3}},
			{"an old repeat", "a", 0, 0, 2, answer{duplicate: true}},
			{"a gap", "a", 0, 3, 1, answer{err: reprise.ErrConflict}},
			{"a gap at the end of numbers", "a", 0, math.MaxUint64, 1, answer{err: reprise.ErrConflict}},
			{"another one", "b", 7, 0, 1, answer{first: 4, last: 4}},
			{"an unknown one in the middle", "c", 0, 5, 1, answer{err: reprise.ErrConflict}},
			{"an unknown one at the end of numbers", "c", 0, math.MaxUint64, 1, answer{err: reprise.ErrConflict}},
			{"a new epoch in the middle", "a", 1, 2, 1, answer{err: reprise.ErrConflict}},
			{"a new epoch", "a", 1, 0, 1, answer{first: 5, last: 5}},
			{"the old epoch", "a", 0, 2, 1, answer{err: reprise.ErrFenced}},
			{"the old epoch, a repeat", "a", 0, 1, 1, answer{err: reprise.ErrFenced}},
			{"the new epoch, a repeat", "a", 1, 0, 1, answer{first: 5, last: 5, duplicate: true}},
		}
		for _, step := range steps {
			appended, err := s.AppendWith(t.Context(), producing(step.id, step.epoch, step.seq),
				numbered(1, step.events)...)
			if step.want.err != nil {
				wantError(t, err, step.want.err)
				continue
			}
			want := reprise.Appended{
				First: step.want.first, Last: step.want.last, Epoch: appended.Epoch, Duplicate: step.want.duplicate,
			}
			if err != nil || appended != want {
				t.Errorf("%s: %+v, %v, want %+v", step.what, appended, err, want)
			}
		}
		if tail := info(t, s).Tail; tail != 5 {
			t.Errorf("%d events, want 5", tail)
		}

		check(t, log.Close())
		again, err := openLog(t, store, &reprise.Options{Keys: keys}).Stream(t.Context(), named("s"))
		check(t, err)
		appended, err := again.AppendWith(t.Context(), producing("a", 1, 0), text("1"))
		if err != nil || !appended.Duplicate || appended.First != 5 {
			t.Errorf("after a restart: %+v, %v", appended, err)
		}
	})
}

func TestProducerIDs(t *testing.T) {
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{})
	for _, id := range []string{"", fmt.Sprintf("%065d", 0)} {
		_, err := s.AppendWith(t.Context(), producing(id, 0, 0), text("1"))
		wantError(t, err, reprise.ErrInvalid)
	}
	_, err := s.AppendWith(t.Context(), producing(fmt.Sprintf("%064d", 0), 0, 0), text("1"))
	check(t, err)
}

// TestProducersAreForgotten: the oldest goes, and comes back as an unknown one.
func TestProducersAreForgotten(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{})
		for i := range reprise.MaxProducers + 1 {
			_, err := s.AppendWith(t.Context(), producing(fmt.Sprint(i), 0, 0), text("x"))
			check(t, err)
		}
		producers := info(t, s).Producers
		if len(producers) != reprise.MaxProducers || producers[0].ID != "1" {
			t.Errorf("%d producers are known, the oldest is %q", len(producers), producers[0].ID)
		}
		appended, err := s.AppendWith(t.Context(), producing("1", 0, 0), text("x"))
		if err != nil || !appended.Duplicate {
			t.Errorf("one that is known: %+v, %v", appended, err)
		}
		_, err = s.AppendWith(t.Context(), producing("0", 0, 1), text("x"))
		wantError(t, err, reprise.ErrConflict)
	})
}

// TestProducerRepeatsInOneCommit: a repeat that waits beside its original is a duplicate of it, in the commit of both.
func TestProducerRepeatsInOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, s := behindGate(t)
		store.shut()
		under := appending(t.Context(), s, text("1"))
		<-store.stored
		type answer struct {
			appended reprise.Appended
			err      error
		}
		answers := make(chan answer, 3)
		for range cap(answers) {
			go func() {
				appended, err := s.AppendWith(t.Context(), producing("p", 0, 0), numbered(2, 2)...)
				answers <- answer{appended, err}
			}()
			synctest.Wait()
		}
		store.open()
		check(t, <-under)
		originals := 0
		for range cap(answers) {
			a := <-answers
			check(t, a.err)
			if a.appended.First != 2 || a.appended.Last != 3 {
				t.Errorf("%+v", a.appended)
			}
			if !a.appended.Duplicate {
				originals++
			}
		}
		if originals != 1 {
			t.Errorf("%d of 3 were taken for the original", originals)
		}
		wantNumbered(t, kept(t, s), 1, 3)
	})
}

// TestEndOnce: an end that is tried again with its producer is a duplicate, not an append after the end.
func TestEndOnce(t *testing.T) {
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{})
	for i := range 2 {
		appended, err := s.EndWith(t.Context(), producing("p", 0, 0), "completed", reprise.Event{})
		if err != nil || appended.Duplicate != (i == 1) || appended.First != 1 {
			t.Errorf("%d: %+v, %v", i, appended, err)
		}
	}
	_, err := s.EndWith(t.Context(), producing("p", 0, 1), "failed", reprise.Event{})
	wantError(t, err, reprise.ErrEnded)
	_, err = s.End(t.Context(), "", reprise.Event{})
	wantError(t, err, reprise.ErrInvalid)
	if outcome := info(t, s).End.Outcome; outcome != "completed" {
		t.Errorf("the outcome is %q", outcome)
	}
}

func producingEvents(id string, epoch, seq uint64) reprise.AppendOptions {
	opts := producing(id, epoch, seq)
	opts.Producer.PerEvent = true
	return opts
}

// TestProducersOfEvents: what is sent again in other groups than before is added once, in order.
func TestProducersOfEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		keys := reprise.NewKeyset()
		log := openLog(t, store, &reprise.Options{Keys: keys})
		s := create(t, log, "s", reprise.Retention{})
		for _, step := range []struct {
			what      string
			seq       uint64
			events    int
			first     uint64
			last      uint64
			duplicate bool
			err       error
		}{
			{"the first three", 0, 3, 1, 3, false, nil},
			{"all of them again", 0, 3, 3, 3, true, nil},
			{"the last two again", 1, 2, 3, 3, true, nil},
			{"the first again", 0, 1, 0, 0, true, nil},
			{"two known, three new", 1, 5, 4, 6, false, nil},
			{"a gap", 7, 1, 0, 0, false, reprise.ErrConflict},
			{"no number left", math.MaxUint64, 1, 0, 0, false, reprise.ErrInvalid},
			{"new ones alone", 6, 2, 7, 8, false, nil},
		} {
			appended, err := s.AppendWith(t.Context(), producingEvents("a", 0, step.seq),
				numbered(int(step.seq)+1, step.events)...)
			if step.err != nil {
				wantError(t, err, step.err)
				continue
			}
			want := reprise.Appended{
				First: step.first, Last: step.last, Epoch: appended.Epoch, Duplicate: step.duplicate,
			}
			if err != nil || appended != want {
				t.Errorf("%s: %+v, %v, want %+v", step.what, appended, err, want)
			}
		}
		check(t, log.Close())
		again, err := openLog(t, store, &reprise.Options{Keys: keys}).Stream(t.Context(), named("s"))
		check(t, err)
		appended, err := again.AppendWith(t.Context(), producingEvents("a", 0, 4), numbered(5, 6)...)
		if err != nil || appended.First != 9 || appended.Last != 10 {
			t.Errorf("after a restart: %+v, %v", appended, err)
		}
		wantNumbered(t, kept(t, again), 1, 10)
		_, err = again.AppendWith(t.Context(), producing("a", 0, 10), numbered(11, 3)...)
		check(t, err) // an append that takes one number goes on behind them
		appended, err = again.AppendWith(t.Context(), producingEvents("a", 0, 10), numbered(11, 2)...)
		if err != nil || appended.First != 14 || appended.Last != 14 {
			t.Errorf("after an append with one number: %+v, %v", appended, err)
		}
	})
}

// TestProducerOfEventsOverlapsInOneCommit: what waits beside its original leaves out what that one adds.
func TestProducerOfEventsOverlapsInOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, s := behindGate(t)
		store.shut()
		under := appending(t.Context(), s, text("first"))
		<-store.stored
		appends := make(chan error, 2)
		send := func(seq uint64, events int) {
			_, err := s.AppendWith(t.Context(), producingEvents("p", 0, seq), numbered(int(seq)+2, events)...)
			appends <- err
		}
		go send(0, 4)
		synctest.Wait()
		go send(2, 5)
		synctest.Wait()
		store.open()
		check(t, <-under)
		check(t, <-appends)
		check(t, <-appends)
		wantNumbered(t, kept(t, s)[1:], 2, 7)
	})
}

// TestExpectedSeq: an append that expects its seq is refused if it would get another one, whichever replica has
// appended meanwhile, and a producer's repetition of it is still a duplicate.
func TestExpectedSeq(t *testing.T) {
	logs := replicas(t, 2, nil)
	a, b := createOn(t, logs[0], "s"), createOn(t, logs[1], "s")
	expect := func(seq uint64, p *reprise.ProducerID) reprise.AppendOptions {
		return reprise.AppendOptions{ExpectedSeq: seq, Producer: p}
	}
	producer := &reprise.ProducerID{ID: "p"}
	for _, one := range []struct {
		s       *reprise.Stream
		opts    reprise.AppendOptions
		want    uint64
		refused bool
	}{
		{a, expect(2, nil), 0, true},
		{a, expect(1, producer), 1, false},
		{b, expect(2, nil), 2, false}, // though b has not seen the event of a
		{a, expect(2, nil), 0, true},
		{a, expect(3, nil), 3, false},
		{b, expect(3, nil), 0, true},
		{b, expect(1, producer), 1, false}, // again
		{a, reprise.AppendOptions{}, 4, false},
	} {
		appended, err := one.s.AppendWith(t.Context(), one.opts, text("x"))
		if one.refused != errors.Is(err, reprise.ErrConflict) || appended.First != one.want {
			t.Errorf("expected %d: %+v, %v", one.opts.ExpectedSeq, appended, err)
		}
	}
}

// TestExpectedSeqUnderContention: of many appends that expect the same seq, one is made.
func TestExpectedSeqUnderContention(t *testing.T) {
	const writers, rounds = 8, 50
	logs := replicas(t, 2, nil)
	streams := []*reprise.Stream{createOn(t, logs[0], "s"), createOn(t, logs[1], "s")}
	for seq := uint64(1); seq <= rounds; seq++ {
		var made atomic.Int64
		var all sync.WaitGroup
		for n := range writers {
			all.Go(func() {
				opts := reprise.AppendOptions{ExpectedSeq: seq}
				appended, err := streams[n%2].AppendWith(t.Context(), opts, text("x"))
				if err == nil && appended.First == seq {
					made.Add(1)
				} else if !errors.Is(err, reprise.ErrConflict) {
					t.Errorf("%+v, %v", appended, err)
				}
			})
		}
		all.Wait()
		if made.Load() != 1 {
			t.Fatalf("%d appends got the seq %d", made.Load(), seq)
		}
	}
}

// TestOwnerKeepsOthersFromAppending: a stream with an owner is that one's, until one with a higher fence appends.
func TestOwnerKeepsOthersFromAppending(t *testing.T) {
	ctx := t.Context()
	log, err := reprise.Open(ctx, memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	first, second := reprise.Owner{Name: "first", Fence: 1}, reprise.Owner{Name: "second", Fence: 2}
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "owned"}
	s, _, err := log.CreateWith(ctx, reprise.CreateOptions{Owner: first}, key, reprise.StreamConfig{})
	if err != nil {
		t.Fatal(err)
	}
	appendAs := func(o reprise.Owner) error {
		_, err := s.AppendWith(ctx, reprise.AppendOptions{Owner: o}, text("x"))
		return err
	}
	for _, step := range []struct {
		name  string
		owner reprise.Owner
		want  error
	}{
		{"the owner", first, nil},
		{"nobody", reprise.Owner{}, reprise.ErrFenced},
		{"another with the same fence", reprise.Owner{Name: "other", Fence: 1}, reprise.ErrFenced},
		{"one with a higher fence", second, nil},
		{"the owner before", first, reprise.ErrFenced},
		{"one without a name", reprise.Owner{Fence: 3}, reprise.ErrInvalid},
		{"one without a fence", reprise.Owner{Name: "second"}, reprise.ErrInvalid},
		{"the owner now", second, nil},
	} {
		if err := appendAs(step.owner); !errors.Is(err, step.want) {
			t.Errorf("append by %s: %v, want %v", step.name, err, step.want)
		}
	}
	info, err := s.Info(ctx)
	if err != nil || info.Owner != second || info.Tail != 3 {
		t.Errorf("owner %+v, tail %d (%v), want %+v and 3", info.Owner, info.Tail, err, second)
	}
	if _, err := s.EndWith(ctx, reprise.AppendOptions{Owner: second}, "completed", reprise.Event{}); err != nil {
		t.Fatal(err)
	}
	if err := appendAs(first); !errors.Is(err, reprise.ErrFenced) {
		t.Errorf("append by the owner before, after the end: %v, want ErrFenced", err)
	}
	if err := appendAs(reprise.Owner{Name: "third", Fence: 3}); !errors.Is(err, reprise.ErrEnded) {
		t.Errorf("take-over after the end: %v, want ErrEnded", err)
	}
}

// TestTwoOwnersInOneGroup: of two owners whose appends share a commit the one with the lower fence is refused, as if
// the other had appended before.
func TestTwoOwnersInOneGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGate(memory(t))
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		first, second := reprise.Owner{Name: "first", Fence: 1}, reprise.Owner{Name: "second", Fence: 2}
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "owned"}
		s, _, err := log.CreateWith(t.Context(), reprise.CreateOptions{Owner: first}, key, reprise.StreamConfig{})
		check(t, err)
		store.shut()
		under := make(chan error, 1)
		later := map[reprise.Owner]chan error{second: make(chan error, 1), first: make(chan error, 1)}
		appendAs := func(o reprise.Owner, data string, done chan error) {
			go func() {
				_, err := s.AppendWith(t.Context(), reprise.AppendOptions{Owner: o}, text(data))
				done <- err
			}()
			synctest.Wait()
		}
		appendAs(first, "before", under)
		appendAs(second, "taken over", later[second])
		appendAs(first, "too late", later[first])
		store.open()
		check(t, <-under)
		check(t, <-later[second])
		wantError(t, <-later[first], reprise.ErrFenced)
		wantTexts(t, kept(t, s), 1, "before", "taken over")
	})
}
