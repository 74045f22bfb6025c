package enginetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"reprise"
)

// slowTrim is a Store whose removals wait.
type slowTrim struct {
	reprise.Store
	pass chan struct{}
}

func (s *slowTrim) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	<-s.pass
	return s.Store.Remove(ctx, key, spec)
}

// TestHeldStreamStaysInMemory: a stream is not evicted while it is trimmed, so that no append overtakes the trim.
func TestHeldStreamStaysInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowTrim{Store: memory(t), pass: make(chan struct{})}
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, MaxStreams: 2})
		s := create(t, log, "s", reprise.Retention{})
		add(t, s, numbered(1, 3)...)
		var all sync.WaitGroup
		all.Go(func() { check(t, s.Trim(t.Context(), 3)) })
		synctest.Wait()
		for i := range 12 { // which need its place
			add(t, create(t, log, fmt.Sprint("other", i), reprise.Retention{}), text("x"))
		}
		appended := false
		all.Go(func() {
			add(t, s, text("after"))
			appended = true
		})
		synctest.Wait()
		if appended {
			t.Error("an append has overtaken the trim")
		}
		close(store.pass)
		all.Wait()
	})
}
