package redisstore

import (
	"context"
	"sync"
	"time"

	"reprise"
	"reprise/store/internal/driver"
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
	return s.watches.hub.Add(s.keys.state(key), &moved)
}

// watches are the watched streams of a Store. A goroutine, which starts with the first watch, keeps the subscriptions
// up to date.
type watches struct {
	store   *Store
	stop    context.CancelFunc
	stopped context.Context
	loop    sync.WaitGroup
	changed chan struct{} // wakes the loop

	hub  driver.Hub[string, func()] // by channel
	once sync.Once                  // starts the loop

	mu sync.Mutex
	// touched are the channels that the loop is to check, and whether each is watched.
	touched map[string]bool
}

func (w *watches) init(s *Store) {
	w.store = s
	w.stopped, w.stop = context.WithCancel(context.Background())
	w.changed = make(chan struct{}, 1)
	w.touched = map[string]bool{}
	w.hub.Turn = w.touch
}

func (w *watches) close() {
	w.stop()
	w.loop.Wait()
}

// touch makes the loop check a channel.
func (w *watches) touch(channel string, watched bool) error {
	w.once.Do(func() { w.loop.Go(w.run) })
	w.mu.Lock()
	w.touched[channel] = watched
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return nil
}

// take returns the touched channels, and whether each is watched.
func (w *watches) take() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.touched
	w.touched = map[string]bool{}
	return taken
}

// tell calls moved of all watchers of a channel.
func (w *watches) tell(channel string) {
	for _, moved := range w.hub.Of(channel) {
		(*moved)()
	}
}

// reconnectAfter is the pause before the loop connects again.
const reconnectAfter = 50 * time.Millisecond

// run listens until the Store is closed. After a lost connection it starts again from the beginning.
func (w *watches) run() {
	for w.stopped.Err() == nil {
		w.hub.Again()
		e := newEars(w)
		e.follow()
		e.close()
		select {
		case <-time.After(reconnectAfter):
		case <-w.stopped.Done():
		}
	}
}
