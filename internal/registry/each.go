package registry

import (
	"context"
	"errors"
	"sync"

	"reprise"
)

// worker works for one definition in one version.
type worker struct {
	version uint64
	stop    context.CancelFunc
	done    chan struct{}
}

// Each calls work, in a goroutine of its own, for every definition for which enabled is true, until ctx is done, whose
// cause it returns. When a definition is changed or removed, the context of its work is cancelled, and its new version
// is taken up after that work has returned. An error of work that wraps reprise.ErrFenced ends all work and is
// returned; any other leaves its definition alone until the next version. Each returns after all work has.
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
