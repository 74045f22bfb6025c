package enginetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// aroundRemove is a Store that calls before and after it removes.
type aroundRemove struct {
	*shared.Store
	before, after func()
}

func (s *aroundRemove) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if s.before != nil {
		s.before()
	}
	err := s.Store.Remove(ctx, key, spec)
	if s.after != nil {
		s.after()
	}
	return err
}

// TestTrimDuringPromotionIsDone: a store that has put the stream into another epoch meanwhile trims nothing and tells
// no error. A trim that is acknowledged is done all the same, whether the Log has heard of the new epoch or not.
func TestTrimDuringPromotionIsDone(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("known=%t", known), func(t *testing.T) {
			hub := shared.New(memstore.New(nil))
			store := &aroundRemove{Store: hub.Store()}
			s := createOn(t, openLog(t, store, nil), "s")
			add(t, s, text("1"), text("2"), text("3"), text("4"))
			store.before = func() {
				store.before = nil
				check(t, hub.Lose(t.Context(), s.Key(), 4))
				if known {
					info(t, s)
				}
			}
			check(t, s.Trim(t.Context(), 3))
			if got := info(t, s); got.Earliest != 3 || got.Tail != 4 {
				t.Errorf("the window is %d to %d, want 3 to 4", got.Earliest, got.Tail)
			}
		})
	}
}

// TestRemoveDuringPromotionIsDone is the same for the removal of a stream.
func TestRemoveDuringPromotionIsDone(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	store := &aroundRemove{Store: hub.Store()}
	s := createOn(t, openLog(t, store, nil), "s")
	add(t, s, text("1"))
	store.before = func() {
		store.before = nil
		check(t, hub.Lose(t.Context(), s.Key(), 1))
	}
	check(t, s.Remove(t.Context()))
	if _, err := s.Info(t.Context()); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("the stream that was removed answers %v", err)
	}
	if _, err := store.Read(t.Context(), s.Key(), 1<<63, 0); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("the stream that was removed is in the store: %v", err)
	}
}

// TestRemovalThatPanics: a store panics after it has removed a stream or trimmed it. The Log asks it what there is.
func TestRemovalThatPanics(t *testing.T) {
	store := &aroundRemove{Store: shared.New(memstore.New(nil)).Store()}
	log := openLog(t, unshared{store}, &reprise.Options{Retention: reprise.Retention{MaxBytes: 1000}})
	panics := func(f func()) {
		t.Helper()
		store.after = func() {
			store.after = nil
			panic("after its effect")
		}
		defer func() {
			if p := recover(); p != "after its effect" {
				t.Errorf("the panic that came to the caller is %v", p)
			}
		}()
		f()
	}
	s := createOn(t, log, "s")
	add(t, s, text("1"), text("2"), text("3"))
	panics(func() { _ = s.Trim(t.Context(), 3) })
	add(t, s, text("4"))
	if got, _ := drain(t, openReader(t, s, reprise.Earliest())); len(got) != 2 {
		t.Errorf("%d events are read after a trim, want 2", len(got))
	}
	panics(func() { _ = log.Remove(t.Context(), s.Key()) })
	for range 2 { // the first may be the one that finds out
		_, err := createOn(t, log, "s").Append(t.Context(), text("4"))
		if err == nil {
			return
		}
	}
	t.Error("nothing can be appended under a name that was removed")
}

// unshared hides that others may use the Store.
type unshared struct{ reprise.Store }
