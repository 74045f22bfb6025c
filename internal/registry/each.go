package registry

import (
	"context"
	"errors"
	"sync"

	"reprise"
)

// worker runs the work for one version of a definition.
type worker struct {
	version uint64
	stop    context.CancelFunc
	done    chan struct{}
}

// Each calls work in its own goroutine for every definition for which enabled is true, until ctx is done, and returns
// the cause. When a definition is changed or removed, the context of its work is cancelled; work for the new version
// starts after the old has returned. An error of work that wraps reprise.ErrFenced ends all work and is returned. After
// any other error the definition gets no work until its next version. Each returns after all work has returned.
func (r *Registry[T]) Each(
	ctx context.Context, enabled func(*T) bool, work func(context.Context, Entry[T]) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	workers := map[string]*worker{}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel(nil)
	for {
		all, changed := r.All()
		for id, w := range workers {
			if e, ok := all[id]; !ok || e.Version != w.version {
				w.stop()
				<-w.done
				delete(workers, id)
			}
		}
		for id, e := range all {
			if workers[id] != nil || !enabled(&e.Value) {
				continue
			}
			life, stop := context.WithCancel(ctx)
			w := &worker{version: e.Version, stop: stop, done: make(chan struct{})}
			workers[id] = w
			tasks.Go(func() {
				defer close(w.done)
				if err := work(life, e); errors.Is(err, reprise.ErrFenced) {
					cancel(err)
				}
			})
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
