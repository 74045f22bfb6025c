package enginetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
)

// panicking is a Store that panics in Append or Read while it is told to.
type panicking struct {
	reprise.Store
	appends, reads atomic.Bool
}

func (p *panicking) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if p.appends.Load() {
		panic("append")
	}
	return p.Store.Append(ctx, reqs)
}

func (p *panicking) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if p.reads.Load() {
		panic("read")
	}
	return p.Store.Read(ctx, key, after, maxBytes)
}

// panicOf returns what f panics with, nil if it does not.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// TestLogWorksAfterPanicInStore: a panic in the store reaches the caller, and the next append goes on as after any
// failure of the store.
func TestLogWorksAfterPanicInStore(t *testing.T) {
	store := &panicking{Store: memory(t)}
	log := openLog(t, store, nil)
	s := create(t, log, "s", reprise.Retention{})
	add(t, s, text("1"))
	store.appends.Store(true)
	if p := panicOf(func() { _, _ = s.Append(t.Context(), text("lost")) }); p != "append" {
		t.Errorf("Append panicked with %v", p)
	}
	store.appends.Store(false)
	store.reads.Store(true)
	_, err := s.Append(t.Context(), text("lost")) // what the store has cannot be read, by a goroutine of the Log
	wantError(t, err, reprise.ErrUnavailable)
	store.reads.Store(false)
	add(t, s, text("2"))
	wantNumbered(t, kept(t, s), 1, 2)
}

// TestLogWorksAfterPanicInHook: what was stored before the hook panicked is kept and shown.
func TestLogWorksAfterPanicInHook(t *testing.T) {
	var armed atomic.Bool
	log := openLog(t, memory(t), &reprise.Options{Hooks: &reprise.Hooks{Committed: func(reprise.CommitInfo) {
		if armed.Load() {
			panic("hook")
		}
	}}})
	s := create(t, log, "s", reprise.Retention{})
	armed.Store(true)
	if p := panicOf(func() { _, _ = s.Append(t.Context(), text("1")) }); p != "hook" {
		t.Errorf("Append panicked with %v", p)
	}
	armed.Store(false)
	add(t, s, text("2"))
	wantNumbered(t, kept(t, s), 1, 2)
}

// TestPanicFailsItsGroup: of the calls that share a commit one gets the panic and the others an error, whether or
// not the call that was to do the work is still there.
func TestPanicFailsItsGroup(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := &panicking{Store: memory(t)}
			gate := newGate(store)
			log := openLog(t, gate, &reprise.Options{SweepEvery: -1})
			s, other := create(t, log, "s", reprise.Retention{}), create(t, log, "other", reprise.Retention{})
			gate.shut()
			go func() { _, _ = other.Append(t.Context(), text("under way")) }()
			synctest.Wait()

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var panics, failures atomic.Int32
			for i := range 3 {
				callCtx := t.Context()
				if i == 0 {
					callCtx = ctx
				}
				go func() {
					p := panicOf(func() {
						if _, err := s.Append(callCtx, text("lost")); errors.Is(err, reprise.ErrUnavailable) {
							failures.Add(1)
						}
					})
					if p != nil {
						panics.Add(1)
					}
				}()
				synctest.Wait()
			}
			want := int32(1)
			if gone {
				cancel()
				synctest.Wait()
				want = 0
			}
			store.appends.Store(true)
			gate.open()
			synctest.Wait()
			if panics.Load() != want || failures.Load() != 2 {
				t.Errorf("%d panics and %d failures, want %d and 2", panics.Load(), failures.Load(), want)
			}
			store.appends.Store(false)
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			_, err := s.Append(ctx, text("1"))
			check(t, err)
			wantNumbered(t, kept(t, s), 1, 1)
		})
	}
}

// TestRefusalStaysWhenItsGroupPanics: a call that was refused before the commit keeps its refusal.
func TestRefusalStaysWhenItsGroupPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &panicking{Store: memory(t)}
		gate := newGate(store)
		log := openLog(t, gate, &reprise.Options{SweepEvery: -1})
		s, ended := create(t, log, "s", reprise.Retention{}), create(t, log, "ended", reprise.Retention{})
		_, err := ended.End(t.Context(), "completed", reprise.Event{})
		check(t, err)
		gate.shut()
		under := appending(t.Context(), s, text("under way"))
		synctest.Wait()
		go func() { _ = panicOf(func() { _, _ = s.Append(t.Context(), text("panics")) }) }()
		synctest.Wait()
		refused := appending(t.Context(), ended, text("after the end"))
		synctest.Wait()
		store.appends.Store(true)
		gate.open()
		check(t, <-under)
		wantError(t, <-refused, reprise.ErrEnded)
	})
}

// TestPanicInBackgroundReadIsAnError: a read that callers share is made by a goroutine of the Log. A panic there
// fails those who wait for it.
func TestPanicInBackgroundReadIsAnError(t *testing.T) {
	store := &panicking{}
	log := replicas(t, 1, func(s reprise.Store) reprise.Store { store.Store = s; return &watched{store} })[0]
	s := createOn(t, log, "s")
	store.reads.Store(true)
	_, err := s.Info(t.Context())
	wantError(t, err, reprise.ErrUnavailable)
	store.reads.Store(false)
	if tail := info(t, s).Tail; tail != 0 {
		t.Errorf("the tail is %d", tail)
	}
}

// watched is a panicking Store that is shared.
type watched struct{ *panicking }

func (w *watched) Watch(key reprise.StreamKey, moved func()) (func(), error) {
	return w.Store.(reprise.Watcher).Watch(key, moved)
}

// TestStreamIsNotHeldAfterPanic: a trim holds its stream in the same turn as an append of another one is committed, and
// that panics: the trim has ended, and its stream is appended to as before.
func TestStreamIsNotHeldAfterPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &panicking{Store: memory(t)}
		gate := newGate(store)
		log := openLog(t, gate, &reprise.Options{SweepEvery: -1})
		s, other := create(t, log, "s", reprise.Retention{}), create(t, log, "other", reprise.Retention{})
		gate.shut()
		go func() { _ = panicOf(func() { _, _ = other.Append(t.Context(), text("under way")) }) }()
		synctest.Wait()
		panics := make(chan any, 1)
		go func() { panics <- panicOf(func() { _ = s.Trim(t.Context(), 1) }) }()
		synctest.Wait()
		go func() { _, _ = other.Append(t.Context(), text("lost")) }()
		synctest.Wait()
		store.appends.Store(true)
		gate.open()
		if p := <-panics; p != "append" {
			t.Errorf("Trim panicked with %v", p)
		}
		store.appends.Store(false)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err := s.Append(ctx, text("1"))
		check(t, err)
	})
}
