package reprise_test

import (
	"errors"
	"testing"

	"reprise"
	"reprise/store/memstore"
)

// TestReadyFailsWhileStoreCannotBeWritten: a store that can be read and not written is not ready, until it can be
// written again.
func TestReadyFailsWhileStoreCannotBeWritten(t *testing.T) {
	store := &faulty{Store: memstore.New(nil)}
	log := openLog(t, store, nil)
	s := createOn(t, log, "s")
	check(t, log.Ready(t.Context()))
	store.before.Store(true)
	store.creating.Store(true)
	if _, err := s.Append(t.Context(), text("x")); !errors.Is(err, reprise.ErrUnavailable) {
		t.Fatalf("append: %v", err)
	}
	for range 2 {
		if err := log.Ready(t.Context()); !errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("ready: %v, want ErrUnavailable", err)
		}
	}
	store.before.Store(false)
	store.creating.Store(false)
	check(t, log.Ready(t.Context()))
	sizes, err := log.Sizes(t.Context())
	if err != nil || len(sizes) > 1 {
		t.Errorf("something is left of looking: %v, %v", sizes, err)
	}
}
