package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"reprise"
)

// Watch listens to the channel of the stream, on a connection for all that are watched (one to each server of a
// Redis Cluster).
func (s *Store) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	_, leave, err := s.enter(context.Background())
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.watches.add(s.keys.state(key), moved), nil
}

// watches are the streams of a Store that are watched. A goroutine, which starts with the first of them, keeps the
// subscriptions of a connection as they are to be.
type watches struct {
	store   *Store
	stop    context.CancelFunc
	stopped context.Context
	loop    sync.WaitGroup
	changed chan struct{} // wakes the loop

	mu        sync.Mutex
	started   bool
	byChannel map[string]map[*watch]struct{}
	touched   map[string]struct{} // channels to look at: somebody has come or gone
}

// watch is a call of Watch.
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

// touch has the loop look at a channel. The caller holds mu.
func (w *watches) touch(channel string) {
	w.touched[channel] = struct{}{}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// tell calls moved of all who watch a channel.
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

// reconnectAfter is how long the loop waits before it tries to connect again.
const reconnectAfter = 50 * time.Millisecond

// run listens until the Store is closed, over one connection after the other.
func (w *watches) run() {
	for w.stopped.Err() == nil {
		w.listen()
		select {
		case <-time.After(reconnectAfter):
		case <-w.stopped.Done():
		}
	}
}

// listen connects, subscribes to all channels and follows changes of what is watched, until the connection is lost. Whoever
// watches is told when his subscription is confirmed, since he was blind until then.
func (w *watches) listen() {
	client, release := w.store.client.Dedicate()
	defer release()
	lost := client.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			if m.Message != w.store.me {
				w.tell(m.Channel)
			}
		},
		OnSubscription: func(m rueidis.PubSubSubscription) {
			if m.Kind == "ssubscribe" {
				w.tell(m.Channel)
			}
		},
	})
	subscribed := map[string]struct{}{}
	w.mu.Lock()
	for channel := range w.byChannel {
		w.touched[channel] = struct{}{}
	}
	w.mu.Unlock()
	for {
		if err := w.follow(client, subscribed); err != nil {
			return
		}
		select {
		case <-w.changed:
		case <-lost:
			return
		case <-w.stopped.Done():
			return
		}
	}
}

// subscribeAtOnce is how many channels are in one command.
const subscribeAtOnce = 512

// follow makes the subscriptions of the connection what they are to be.
func (w *watches) follow(client rueidis.DedicatedClient, subscribed map[string]struct{}) error {
	var come, gone []string
	w.mu.Lock()
	for channel := range w.touched {
		_, is := subscribed[channel]
		wanted := w.byChannel[channel] != nil
		switch {
		case wanted && !is:
			come = append(come, channel)
			subscribed[channel] = struct{}{}
		case !wanted && is:
			gone = append(gone, channel)
			delete(subscribed, channel)
		}
	}
	clear(w.touched)
	w.mu.Unlock()
	return errors.Join(
		w.inPieces(come, func(some []string) rueidis.Completed { return client.B().Ssubscribe().Channel(some...).Build() }, client),
		w.inPieces(gone, func(some []string) rueidis.Completed { return client.B().Sunsubscribe().Channel(some...).Build() }, client),
	)
}

func (w *watches) inPieces(channels []string, command func([]string) rueidis.Completed, client rueidis.DedicatedClient) error {
	ctx, cancel := context.WithTimeout(w.stopped, w.store.opts.Timeout)
	defer cancel()
	for len(channels) > 0 {
		n := min(len(channels), subscribeAtOnce)
		if err := client.Do(ctx, command(channels[:n])).Error(); err != nil {
			return err
		}
		channels = channels[n:]
	}
	return nil
}
