package reprise_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"reprise"
)

// sharedGate is a shared store whose first append waits until open is closed, and whose append number refuse is
// refused as unavailable and stores nothing.
type sharedGate struct {
	reprise.Store
	appends atomic.Int32
	refuse  int32
	open    chan struct{}
}

func (g *sharedGate) Watch(key reprise.StreamKey, moved func()) (func(), error) {
	return g.Store.(reprise.Watcher).Watch(key, moved)
}

func (g *sharedGate) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	n := g.appends.Add(1)
	if n == 1 {
		<-g.open
	}
	if n == g.refuse {
		errs := make([]error, len(reqs))
		for i := range errs {
			errs[i] = reprise.ErrUnavailable
		}
		return errs
	}
	return g.Store.Append(ctx, reqs)
}

// TestAppendIsNotAcknowledgedWhenItsBatchFailed (G6): of two appends in one commit, one fails with its batch and the
// other is tried again because its producer is in doubt. The second try does not make a success of the first append.
func TestAppendIsNotAcknowledgedWhenItsBatchFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sharedGate{refuse: 2, open: make(chan struct{})}
		log := replicas(t, 1, func(s reprise.Store) reprise.Store { store.Store = s; return store })[0]
		s := createOn(t, log, "s")
		type answer struct {
			reprise.Appended
			err error
		}
		first, plain, gap := make(chan answer, 1), make(chan answer, 1), make(chan answer, 1)
		try := func(to chan answer, opts reprise.AppendOptions, data string) {
			go func() {
				a, err := s.AppendWith(t.Context(), opts, text(data))
				to <- answer{a, err}
			}()
			synctest.Wait()
		}
		try(first, reprise.AppendOptions{}, "first")
		try(plain, reprise.AppendOptions{}, "in the batch that fails")
		try(gap, producing("p", 0, 7), "after a gap in the producer's numbers")
		close(store.open)

		if a := <-first; a.err != nil || a.Last != 1 {
			t.Errorf("the first append: %+v", a)
		}
		if a := <-plain; !errors.Is(a.err, reprise.ErrUnavailable) {
			t.Errorf("the append of the failed batch: %+v, want ErrUnavailable", a)
		}
		if a := <-gap; !errors.Is(a.err, reprise.ErrConflict) {
			t.Errorf("the append after a gap: %+v, want ErrConflict", a)
		}
		if tail := info(t, s).Tail; tail != 1 {
			t.Errorf("the tail is %d, want 1", tail)
		}
	})
}
