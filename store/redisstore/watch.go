package redisstore

import (
	"context"
	"sync"
	"time"

	"reprise"
)

// Watch subscribes to the channel of the stream. All watched streams share one connection, or one for each server of a
// Redis Cluster.
func (s *Store) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	defer func() { err = storeError(context.Background(), err) }()
	_, leave, err := s.enter(context.Background())
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.watches.add(s.keys.state(key), moved), nil
}

// watches are the watched streams of a Store. A goroutine, which starts with the first watch, keeps the subscriptions
// up to date.
type watches struct {
	store   *Store
	stop    context.CancelFunc
	stopped context.Context
	loop    sync.WaitGroup
	changed chan struct{} // wakes the loop

	mu        sync.Mutex
	started   bool
	byChannel map[string]map[*watch]struct{}
	touched   map[string]struct{} // channels whose watchers have changed
}

// watch is one call of Watch.
type watch struct{ moved func() }

func (w *watches) init(s *Store) {
	w.store = s
	w.stopped, w.stop = context.WithCancel(context.Background())
	w.changed = make(chan struct{}, 1)
	w.byChannel = map[string]map[*watch]struct{}{}
	w.touched = map[string]struct{}{}
}

func (w *watches) close() {
	w.stop()
	w.loop.Wait()
}

func (w *watches) add(channel string, moved func()) (stop func()) {
	one := &watch{moved}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.started {
		w.started = true
		w.loop.Go(w.run)
	}
	if w.byChannel[channel] == nil {
		w.byChannel[channel] = map[*watch]struct{}{}
		w.touch(channel)
	}
	w.byChannel[channel][one] = struct{}{}
	return func() { w.remove(channel, one) }
}

func (w *watches) remove(channel string, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := w.byChannel[channel]; all != nil {
		delete(all, one)
		if len(all) == 0 {
			delete(w.byChannel, channel)
			w.touch(channel)
		}
	}
}

// touch makes the loop check a channel. The caller holds mu.
func (w *watches) touch(channel string) {
	w.touched[channel] = struct{}{}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// touchAll makes the loop check all channels.
func (w *watches) touchAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for channel := range w.byChannel {
		w.touched[channel] = struct{}{}
	}
}

// take returns the touched channels, and whether each is watched.
func (w *watches) take() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := make(map[string]bool, len(w.touched))
	for channel := range w.touched {
		taken[channel] = w.byChannel[channel] != nil
	}
	clear(w.touched)
	return taken
}

// tell calls moved of all watchers of a channel.
func (w *watches) tell(channel string) {
	w.mu.Lock()
	all := make([]*watch, 0, len(w.byChannel[channel]))
	for one := range w.byChannel[channel] {
		all = append(all, one)
	}
	w.mu.Unlock()
	for _, one := range all {
		one.moved()
	}
}

// reconnectAfter is the pause before the loop connects again.
const reconnectAfter = 50 * time.Millisecond

// run listens until the Store is closed. After a lost connection it starts again from the beginning.
func (w *watches) run() {
	for w.stopped.Err() == nil {
		w.touchAll()
		e := newEars(w)
		e.follow()
		e.close()
		select {
		case <-time.After(reconnectAfter):
		case <-w.stopped.Done():
		}
	}
}
