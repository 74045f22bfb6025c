package natsstore

import (
	"context"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"reprise"
	"reprise/store/internal/driver"
)

// watch notifies the watchers of streams. The server republishes the header of each stored message. All subscriptions
// to those headers write to one channel, which one goroutine reads.
type watch struct {
	s      *Store
	mine   string // prefix of the header of messages from this Store
	msgs   chan *nats.Msg
	ask    chan struct{} // has room for one: a new watcher waits until the server has its subscription
	cancel context.CancelFunc
	wg     sync.WaitGroup

	hub  driver.Hub[string, func()]    // by subject
	subs map[string]*nats.Subscription // of the subjects in hub, which calls subscribe

	mu    sync.Mutex
	fresh map[*func()]struct{} // new watchers
}

const (
	// maxWakeUps is the maximum number of pending wake-ups. If there are more, all watchers are notified.
	maxWakeUps = 64 << 10
	// wakeAllEvery is the interval at which all watchers are notified if several servers hold the streams: a wake-up
	// between servers may be lost without notice.
	wakeAllEvery = 30 * time.Second
)

func (w *watch) start(s *Store) error {
	ctx, cancel := context.WithCancel(context.Background())
	w.s, w.cancel = s, cancel
	w.mine = base64.RawStdEncoding.EncodeToString(s.writer[:])
	w.msgs, w.ask = make(chan *nats.Msg, maxWakeUps), make(chan struct{}, 1)
	w.fresh = map[*func()]struct{}{}
	w.subs, w.hub.Turn = map[string]*nats.Subscription{}, w.subscribe
	w.wg.Go(func() { w.run(ctx) })
	w.wg.Go(func() { w.confirm(ctx) })
	s.wire.mu.Lock()
	s.wire.returned = w.all
	s.wire.mu.Unlock()
	if s.single {
		return nil
	}
	for _, stream := range []string{s.name, s.index} {
		if _, err := s.wire.nc.Subscribe("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."+stream, func(*nats.Msg) {
			w.newLeader()
		}); err != nil {
			return err
		}
	}
	return nil
}

// graceOfLeaders is how long answers of a previous leader may still arrive.
const graceOfLeaders = 500 * time.Millisecond

// newLeader is called when another server becomes the leader. The previous one will not answer pending requests
// anymore.
func (w *watch) newLeader() {
	asked := w.s.wire.next.Load()
	time.AfterFunc(graceOfLeaders, func() { w.s.wire.failOlder(asked, unavailable(errLost)) })
	w.all()
}

func (w *watch) end() {
	w.cancel()
	w.wg.Wait()
}

// Watch calls moved when another Store changes the stream; see reprise.Watcher. All watches of a Store share its
// connection.
func (s *Store) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	defer func() { err = storeError(context.Background(), err) }()
	if err := s.use.Enter(context.Background()); err != nil {
		return nil, err
	}
	defer s.use.Leave()
	w := &s.watch
	leave, err := w.hub.Add(s.subjects.watch(key), &moved)
	if err != nil {
		return nil, err
	}
	w.confirmed(&moved)
	return func() {
		leave()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.fresh, &moved)
	}, nil
}

// subscribe begins or ends the subscription to a subject.
func (w *watch) subscribe(subject string, watched bool) error {
	if !watched {
		// Unsubscribe fails if the connection is closed, and then nothing needs to be done.
		_ = w.subs[subject].Unsubscribe()
		delete(w.subs, subject)
		return nil
	}
	sub, err := w.s.wire.nc.ChanSubscribe(subject, w.msgs)
	if err != nil {
		return unavailable(err)
	}
	w.subs[subject] = sub
	return nil
}

// confirmed notifies watchers once the server has their subscriptions.
func (w *watch) confirmed(list ...*func()) {
	w.mu.Lock()
	for _, moved := range list {
		w.fresh[moved] = struct{}{}
	}
	w.mu.Unlock()
	select {
	case w.ask <- struct{}{}:
	default:
	}
}

// all notifies all watchers once the server has their subscriptions.
func (w *watch) all() { w.confirmed(w.hub.All()...) }

// run notifies the watchers of streams that have changed.
func (w *watch) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-w.msgs:
			if head := msg.Header[header]; len(head) == 1 && strings.HasPrefix(head[0], w.mine[:writerChars]) {
				continue
			}
			for _, moved := range w.hub.Of(msg.Subject) {
				(*moved)()
			}
		}
	}
}

// confirm sends a request to the leader of the stream. When the leader answers, it has processed all earlier
// subscriptions, and later changes are notified. confirm then notifies the new watchers, which may have missed earlier
// changes.
func (w *watch) confirm(ctx context.Context) {
	var often <-chan time.Time
	if !w.s.single {
		ticker := time.NewTicker(wakeAllEvery)
		defer ticker.Stop()
		often = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-often:
			w.all()
			continue
		case <-w.ask:
		}
		w.mu.Lock()
		fresh := w.fresh
		w.fresh = map[*func()]struct{}{}
		w.mu.Unlock()
		if len(fresh) == 0 {
			continue
		}
		if err := w.reach(ctx); err != nil {
			return
		}
		for moved := range fresh {
			(*moved)()
		}
	}
}

// reach waits until the leader of the stream has answered.
func (w *watch) reach(ctx context.Context) error {
	for {
		err := w.s.ping(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if err := pause(ctx, retryEvery); err != nil {
			return err
		}
	}
}

// ping asks the leader of the stream for a message that need not exist.
func (s *Store) ping(ctx context.Context) error {
	ctx, cancel := withTimeout(ctx, s.timeout)
	defer cancel()
	var answer stored
	err := s.request(ctx, "STREAM.MSG.GET."+s.name, &getRequest{Last: s.name + ".s"}, &answer)
	if isCode(err, codeNoMessage) {
		return nil
	}
	return err
}
