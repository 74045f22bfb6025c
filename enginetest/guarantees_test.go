package enginetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"reprise"
)

// The guarantees of the package doc of reprise, over each store. What one test of a guarantee cannot say stands in the
// files of its parts: cursors_test.go, commits_test.go, readers_test.go, retention_test.go, model_test.go.

func TestG1NoSilentLoss(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{TailBytes: 1}) // most of it cold
		s := create(t, log, "s", reprise.Retention{MaxEvents: 50})
		for i := 1; i <= 100; i += 10 {
			add(t, s, numbered(i, 10)...)
		}
		for seq := uint64(50); seq <= 100; seq++ {
			events, _ := drain(t, openReader(t, s, reprise.After(s.Cursor(seq))))
			wantNumbered(t, events, seq+1, int(100-seq))
		}
		for seq := range uint64(50) {
			_, err := s.Reader(t.Context(), reprise.After(s.Cursor(seq)))
			refused := windowError(t, err, reprise.CursorExpired)
			if refused.Missed() != 50-seq || refused.Earliest != s.Cursor(50) || refused.Tail != s.Cursor(100) {
				t.Fatalf("after %d: missed %d, window %v to %v", seq, refused.Missed(), refused.Earliest, refused.Tail)
			}
		}
	})
}

func TestG1ReaderInTheMiddleIsToldOfALoss(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{MaxEvents: 10})
		r := openReader(t, s, reprise.Earliest())
		add(t, s, numbered(1, 5)...)
		events, _ := drain(t, r)
		wantNumbered(t, events, 1, 5)
		add(t, s, numbered(6, 30)...)
		_, err := r.Next(t.Context())
		if missed := windowError(t, err, reprise.CursorExpired).Missed(); missed != 20 {
			t.Errorf("missed %d, want 20", missed)
		}
		check(t, r.Seek(reprise.Earliest()))
		events, _ = drain(t, r)
		wantNumbered(t, events, 26, 10)
	})
}

// TestG2NoDuplicates: a reader that comes back at each event with the cursor of the last one
// gets each once. (That a program gets each once over a network is tested by package client.)
func TestG2NoDuplicates(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{TailBytes: 1})
		s := create(t, log, "s", reprise.Retention{})
		for i := 1; i <= 60; i += 3 {
			add(t, s, numbered(i, 3)...)
		}
		end(t, s)
		at := reprise.Earliest()
		for seq := uint64(1); ; seq++ {
			r := openReader(t, s, at)
			run, err := r.Poll(t.Context())
			check(t, r.Close())
			if errors.Is(err, reprise.ErrEnded) {
				if seq != 62 {
					t.Fatalf("the end came after %d events", seq-1)
				}
				return
			}
			check(t, err)
			if run.First() != seq {
				t.Fatalf("got event %d, want %d", run.First(), seq)
			}
			cursor, err := reprise.ParseCursor(s.Cursor(run.First()).String())
			check(t, err)
			at = reprise.After(cursor)
		}
	})
}

func TestG3OneOrder(t *testing.T) {
	const writers, each = 8, 25
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{})
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					if _, err := s.Append(t.Context(), text(fmt.Sprint(w, " ", i))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		readers := make([][]reprise.Event, 3)
		for i := range readers {
			r := openReader(t, s, reprise.Earliest())
			wg.Go(func() {
				for e, err := range r.Events(t.Context()) {
					if err != nil {
						t.Error(err)
						return
					}
					if readers[i] = append(readers[i], e); len(readers[i]) == writers*each {
						return
					}
				}
			})
		}
		wg.Wait()
		next := [writers]int{}
		for i, e := range readers[0] {
			var w, n int
			if _, err := fmt.Sscan(string(e.Data), &w, &n); err != nil || n != next[w] || e.Seq != uint64(i+1) {
				t.Fatalf("event %d at place %d is %q, the writer's next is %d", e.Seq, i+1, e.Data, next[w])
			}
			next[w]++
			for _, other := range readers[1:] {
				if string(other[i].Data) != string(e.Data) || other[i].Seq != e.Seq {
					t.Fatalf("one reader got %d %q, another %d %q", e.Seq, e.Data, other[i].Seq, other[i].Data)
				}
			}
		}
	})
}

func TestG4OneEnd(t *testing.T) {
	const writers = 8
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{})
		var mu sync.Mutex
		won := 0
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				_, err := s.Append(t.Context(), text("before or never"))
				if err != nil && !errors.Is(err, reprise.ErrEnded) {
					t.Error(err)
				}
				_, err = s.End(t.Context(), fmt.Sprint(w), reprise.Event{})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if !errors.Is(err, reprise.ErrEnded) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Errorf("%d ends were accepted", won)
		}
		events := kept(t, s)
		for i, e := range events {
			if last := i == len(events)-1; (e.Type == reprise.TypeEnd) != last {
				t.Errorf("event %d of %d has the type %q", e.Seq, len(events), e.Type)
			}
		}
		_, err := s.Append(t.Context(), text("late"))
		wantError(t, err, reprise.ErrEnded)
		if i := info(t, s); i.End == nil || i.Tail != uint64(len(events)) {
			t.Errorf("the state after the end is %+v", i)
		}
	})
}

func TestG5ReadingIsHarmless(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{})
		add(t, s, numbered(1, 20)...)
		before := info(t, s)
		idle := openReader(t, s, reprise.Earliest()) // never reads, and holds nobody up
		for range 3 {
			wantNumbered(t, kept(t, s), 1, 20)
		}
		if after := info(t, s); after.Earliest != before.Earliest || after.Tail != before.Tail ||
			after.Bytes != before.Bytes {
			t.Errorf("reading has changed %+v to %+v", before, after)
		}
		add(t, s, numbered(21, 1)...)
		events, _ := drain(t, idle)
		wantNumbered(t, events, 1, 21)

		_, err := log.Stream(t.Context(), named("other"))
		wantError(t, err, reprise.ErrNotFound)
		page, err := log.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
		check(t, err)
		if len(page.Streams) != 1 {
			t.Errorf("asking for a stream has made it: %d streams", len(page.Streams))
		}
	})
}

func TestG6AcknowledgedIsKept(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		keys := reprise.NewKeyset()
		log, err := reprise.Open(t.Context(), store, &reprise.Options{Keys: keys})
		check(t, err)
		s := create(t, log, "s", reprise.Retention{})
		for i := 1; i <= 40; i += 4 {
			add(t, s, numbered(i, 4)...)
		}
		cursor := s.Cursor(17)
		check(t, log.Close())

		again, err := openLog(t, store, &reprise.Options{Keys: keys}).Stream(t.Context(), named("s"))
		check(t, err)
		wantNumbered(t, kept(t, again), 1, 40)
		events, _ := drain(t, openReader(t, again, reprise.After(cursor)))
		wantNumbered(t, events, 18, 23)
		if add(t, again, text("41")).First != 41 {
			t.Error("the seqs do not go on where they were")
		}
	})
}

// TestG6DeliveryFollowsCommit: while the store has not answered, nobody is shown the event.
func TestG6DeliveryFollowsCommit(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		gated := newGate(store)
		log := openLog(t, gated, nil)
		s := create(t, log, "s", reprise.Retention{})
		r := openReader(t, s, reprise.Earliest())
		changed := r.Changed()
		gated.shut()
		appended := appending(t.Context(), s, text("1"))
		<-gated.stored // in the store, and the Log has not been told
		select {
		case <-changed:
			t.Error("readers were woken before the commit")
		default:
		}
		if events, _ := drain(t, r); len(events) != 0 || info(t, s).Tail != 0 {
			t.Errorf("%d events were shown before the commit", len(events))
		}
		gated.open()
		check(t, <-appended)
		<-changed
		events, _ := drain(t, r)
		wantTexts(t, events, 1, "1")
	})
}

func TestG7Bounded(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{MaxReaders: 2, MaxEventBytes: 1000})
		s := create(t, log, "s", reprise.Retention{MaxEvents: 100, MaxBytes: 5000})
		for i := range 300 {
			add(t, s, text(fmt.Sprintf("%0100d", i)))
			if state := info(t, s); state.Kept() > 100 || state.Bytes > 5000 || state.Kept() == 0 {
				t.Fatalf("after %d appends %d events of %d bytes are kept", i+1, state.Kept(), state.Bytes)
			}
		}
		for range 2 {
			openReader(t, s, reprise.Tail())
		}
		_, err := s.Reader(t.Context(), reprise.Tail())
		wantError(t, err, reprise.ErrTooManyReaders)
		_, err = s.Append(t.Context(), reprise.Event{Data: make([]byte, 1001)})
		wantError(t, err, reprise.ErrInvalid)
		add(t, s, reprise.Event{Data: make([]byte, 1000)})
	})
}

func TestG8TenantsAreIsolated(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		mine := reprise.StreamKey{Tenant: "mine", Name: "s"}
		s, _, err := log.Create(t.Context(), mine, reprise.StreamConfig{})
		check(t, err)
		add(t, s, text("secret"))

		yours := reprise.StreamKey{Tenant: "yours", Name: "s"}
		_, err = log.Stream(t.Context(), yours)
		wantError(t, err, reprise.ErrNotFound)
		page, err := log.List(t.Context(), reprise.ListQuery{Tenant: "yours", AllNamespaces: true, Limit: 10})
		check(t, err)
		if len(page.Streams) != 0 {
			t.Errorf("a tenant is shown %d streams of another", len(page.Streams))
		}
		check(t, log.Remove(t.Context(), yours))

		other, _, err := log.Create(t.Context(), yours, reprise.StreamConfig{})
		check(t, err)
		_, err = other.Reader(t.Context(), reprise.After(s.Cursor(0)))
		wantError(t, err, reprise.ErrCursorForeign)
		if events := kept(t, s); len(events) != 1 || len(kept(t, other)) != 0 {
			t.Errorf("the streams of two tenants are not apart: %d events", len(events))
		}
	})
}

func TestG9CreationAndAppendTakeEffectOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		config := reprise.StreamConfig{Labels: map[string]string{"k": "v"}}
		var wg sync.WaitGroup
		made := make(chan bool, 8)
		for range 8 {
			wg.Go(func() {
				_, created, err := log.Create(t.Context(), named("s"), config)
				if err != nil {
					t.Error(err)
				}
				made <- created
				s, err := log.Stream(t.Context(), named("s"))
				if err != nil {
					t.Error(err)
					return
				}
				opts := reprise.AppendOptions{Producer: &reprise.ProducerID{ID: "p"}}
				if appended, err := s.AppendWith(t.Context(), opts, numbered(1, 3)...); err != nil ||
					appended.First != 1 || appended.Last != 3 {
					t.Errorf("%+v, %v", appended, err)
				}
			})
		}
		wg.Wait()
		close(made)
		count := 0
		for created := range made {
			if created {
				count++
			}
		}
		if count != 1 {
			t.Errorf("%d of 8 have created the stream", count)
		}
		s, err := log.Stream(t.Context(), named("s"))
		check(t, err)
		wantNumbered(t, kept(t, s), 1, 3)
		_, _, err = log.Create(t.Context(), named("s"), reprise.StreamConfig{})
		wantError(t, err, reprise.ErrConflict)
	})
}
