package reprise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Log keeps streams of events in a Store and lets any number of readers follow them. It is safe for concurrent use.
// Only one Log may use a Store at a time, unless the Store is a Watcher: then any number of Logs, its replicas, keep
// the same streams.
type Log struct {
	store Store
	opts  Options
	lists *Keyset // seals the positions of List
	// watcher is the store as a Watcher; nil if the store is not shared.
	watcher Watcher
	// marked means that the store lists the marker of its wrappers, which is hidden.
	marked   bool
	lanes    []lane
	usage    usage
	hotBytes atomic.Int64 // of all live streams
	failing  atomic.Bool  // the last commit found the store unavailable
	outages  outages
	idle     idleStreams
	ended    endedStreams
	// sweeping is of size 1, and held while expired or ended streams are removed, so that each is counted once.
	sweeping chan struct{}

	mu      sync.Mutex
	streams map[StreamKey]*live
	closed  bool
	// evictAbove and coolAbove are the numbers of streams and bytes in memory at which eviction is tried again after it
	// could not free enough.
	evictAbove int
	coolAbove  atomic.Int64

	// loading is held for a key while its stream is looked up in the store, so that a stream never has two live values.
	loading keyLocks
	seed    maphash.Seed

	background background
}

// Open returns a Log of the streams in store. The caller keeps ownership of the store and closes
// it after the Log. opts may be nil.
func Open(ctx context.Context, store Store, opts *Options) (*Log, error) {
	l := &Log{store: store, opts: opts.withDefaults(), streams: map[StreamKey]*live{}, seed: maphash.MakeSeed()}
	l.sweeping = make(chan struct{}, 1)
	l.lists = l.opts.Keys.Derive(listPurpose)
	if err := l.opts.Retention.validate(); err != nil {
		return nil, err
	}
	if l.opts.MaxIdle < 0 {
		return nil, fmt.Errorf("open log: %w: a negative MaxIdle", ErrInvalid)
	}
	l.idle.byKey = map[StreamKey]idleStream{}
	if err := l.findWatcher(); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	marked, err := checkMarker(ctx, store)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l.marked = marked
	l.background.init()
	l.usage.init(&l.opts)
	l.lanes = make([]lane, commitsAtATime(store))
	for i := range l.lanes {
		l.lanes[i].init(l)
	}
	if err := l.measure(ctx); err != nil {
		l.background.end()
		return nil, fmt.Errorf("open log: %w", err)
	}
	if l.opts.SweepEvery > 0 {
		l.background.start(l.sweepEvery)
	}
	if l.opts.Quota != nil {
		l.background.start(l.countAccounts)
	}
	return l, nil
}

// commitsAtATime returns the number of lanes of a Log on a store.
func commitsAtATime(store Store) int {
	if c, ok := store.(Concurrent); ok {
		return max(1, c.ConcurrentAppends())
	}
	return 1
}

// Close finishes the commits in progress and ends all readers with ErrClosed. It does not
// close the Store. Closing again does nothing.
func (l *Log) Close() error {
	l.background.end()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	for i := range l.lanes {
		lane := &l.lanes[i]
		if err := lane.do(context.Background(), &call{fn: func() error {
			for _, lv := range l.livesOf(lane) {
				l.forget(lv, ErrClosed)
			}
			return nil
		}}); err != nil {
			return err
		}
	}
	return nil
}

// laneOf returns the lane of a stream, which is always the same, so that its commits have an order.
func (l *Log) laneOf(key StreamKey) *lane {
	return &l.lanes[maphash.Comparable(l.seed, key)%uint64(len(l.lanes))]
}

// livesOf returns the streams of a lane that are in memory.
func (l *Log) livesOf(lane *lane) []*live {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*live
	for _, lv := range l.streams {
		if lv.lane == lane {
			list = append(list, lv)
		}
	}
	return list
}

// Stream finds a stream. The error is ErrNotFound, or ErrExpired while a swept
// stream is remembered.
func (l *Log) Stream(ctx context.Context, key StreamKey) (*Stream, error) {
	lv, err := l.load(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", key, err)
	}
	return l.handle(lv), nil
}

// Retention returns the retention of a stream with the given configuration.
func (l *Log) Retention(config StreamConfig) Retention { return config.Retention.or(l.opts.Retention) }

// List lists streams, the newest first; see ListQuery. The marker of the store's wrappers is omitted, so a page
// of SystemTenant, or of all tenants, may have one stream less than its limit. A page of streams with large
// labels and Meta may have fewer too. ListPage.Next is encrypted with a key of Options.Keys and for ListQuery.Tenant:
// it reveals nothing of the streams of other tenants, and is not the name of the Store.
func (l *Log) List(ctx context.Context, q ListQuery) (ListPage, error) {
	if q.Limit < 1 || q.Limit > 1000 {
		return ListPage{}, fmt.Errorf("list: %w: a limit of %d, 1 to 1000 are taken", ErrInvalid, q.Limit)
	}
	if err := l.usable(); err != nil {
		return ListPage{}, fmt.Errorf("list: %w", err)
	}
	var err error
	if q.After, err = l.lists.openList(q.Tenant, q.After); err != nil {
		return ListPage{}, fmt.Errorf("list: %w", err)
	}
	page, err := l.listBounded(ctx, q)
	l.noteFailure(err)
	if err != nil {
		return ListPage{}, fmt.Errorf("list: %w", err)
	}
	page.Next = l.lists.sealList(q.Tenant, page.Next)
	if i := slices.IndexFunc(page.Streams, func(info StreamInfo) bool { return info.Key.IsMarker() }); i >= 0 {
		page.Streams = slices.Delete(slices.Clone(page.Streams), i, i+1)
	}
	return page, nil
}

// now returns the current time for events and streams: UTC, whole milliseconds.
func now() time.Time { return time.UnixMilli(time.Now().UnixMilli()).UTC() }

// keyLocks is a lock for each key. A caller waits for it until its context is done, since the holder may be waiting for
// the store.
type keyLocks struct {
	mu   sync.Mutex
	held map[StreamKey]*keyLock
}

type keyLock struct {
	turn  chan struct{} // with capacity 1
	users int           // holder and waiters; guarded by keyLocks.mu
}

// lock waits until no other goroutine holds the lock of key. The error is the cause if ctx is cancelled before.
func (k *keyLocks) lock(ctx context.Context, key StreamKey) (unlock func(), err error) {
	k.mu.Lock()
	if k.held == nil {
		k.held = map[StreamKey]*keyLock{}
	}
	lock := k.held[key]
	if lock == nil {
		lock = &keyLock{turn: make(chan struct{}, 1)}
		k.held[key] = lock
	}
	lock.users++
	k.mu.Unlock()
	select {
	case lock.turn <- struct{}{}:
		return func() {
			<-lock.turn
			k.leave(key, lock)
		}, nil
	case <-ctx.Done():
		k.leave(key, lock)
		return nil, context.Cause(ctx)
	}
}

// leave removes the lock of key once it has no users.
func (k *keyLocks) leave(key StreamKey, lock *keyLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if lock.users--; lock.users == 0 {
		delete(k.held, key)
	}
}

// usable returns ErrClosed after Close.
func (l *Log) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	return nil
}

// lookup returns the stream if it is in memory, and otherwise nil.
func (l *Log) lookup(key StreamKey) (*live, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	return l.streams[key], nil
}

// load returns a stream from memory or from the store.
func (l *Log) load(ctx context.Context, key StreamKey) (*live, error) {
	if lv, err := l.lookup(key); lv != nil || err != nil {
		return lv, err
	}
	if err := key.usable(); err != nil {
		return nil, err
	}
	l.evictIfFull(ctx)
	unlock, err := l.loading.lock(ctx, key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if lv, err := l.lookup(key); lv != nil || err != nil {
		return lv, err
	}
	page, err := l.store.Read(ctx, key, 1<<63, 0)
	if err != nil {
		return nil, err
	}
	return l.admit(page.Info, nil)
}

// admit puts a stream into memory. If filled is not nil, its events are all events of the stream and become the hot
// tail. The caller holds the lock of its key.
func (l *Log) admit(info StreamInfo, filled *staged) (*live, error) {
	lv := newLive(info, l.opts.Retention, l.usage.of(&info), l.laneOf(info.Key))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if filled != nil {
		l.fill(lv, filled)
	}
	l.streams[info.Key] = lv
	l.noteIdle(&info)
	return lv, nil
}

// forget evicts a stream and gives its users the reason. No commit of its lane is under way.
func (l *Log) forget(lv *live, why error) {
	l.mu.Lock()
	if l.streams[lv.key] == lv {
		delete(l.streams, lv.key)
	}
	l.mu.Unlock()
	l.idle.forget(lv.key)
	l.hotBytes.Add(-lv.retire(why))
}

// background tracks the background goroutines of a Log. They all end with the Log.
type background struct {
	ctx  context.Context // the life of the Log
	stop context.CancelCauseFunc

	mu      sync.Mutex
	stopped bool
	work    sync.WaitGroup
}

func (b *background) init() {
	b.ctx, b.stop = context.WithCancelCause(context.Background())
}

// start runs f in a goroutine; f must return when its context is cancelled. Once the Log is being closed, start does
// nothing and returns false.
func (b *background) start(f func(context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return false
	}
	b.work.Go(func() { f(b.ctx) })
	return true
}

// during calls f and makes Close wait for it. It is for work on the store in the goroutine of a caller, which must not
// continue once another Log may use the store. The error is ErrClosed once the Log is being closed, or what f returns.
func (b *background) during(f func() error) error {
	b.mu.Lock()
	if b.stopped {
		b.mu.Unlock()
		return ErrClosed
	}
	b.work.Add(1)
	b.mu.Unlock()
	defer b.work.Done()
	return f()
}

// end cancels all background work and waits for it.
func (b *background) end() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	b.stop(ErrClosed)
	b.work.Wait()
}

// guard calls f. It logs a panic, which has no caller to reach in a background goroutine, and returns it as an error.
func (l *Log) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.logPanic(p)
			err = fmt.Errorf("%w: panic: %v", ErrUnavailable, p)
		}
	}()
	return f()
}

// recovered logs a panic and stops it.
func (l *Log) recovered() {
	if p := recover(); p != nil {
		l.logPanic(p)
	}
}

func (l *Log) logPanic(p any) {
	l.opts.Logger.Error("panic in a hook or in the store", "panic", p, "stack", string(debug.Stack()))
}

// Ready reports whether the Store can serve: it lists a stream. If the last commit found the store
// unavailable, it also writes something small, because a full store can still be read. The error comes
// from the store, or is ErrClosed.
func (l *Log) Ready(ctx context.Context) error {
	if _, err := l.List(ctx, ListQuery{Tenant: SystemTenant, Limit: 1}); err != nil {
		return err
	}
	if !l.failing.Load() {
		return nil
	}
	key := StreamKey{Tenant: SystemTenant, Name: "probe:" + string(NewEpoch())}
	_, err := l.store.Create(ctx, StreamInfo{Key: key, Epoch: NewEpoch(), Created: now()})
	if err == nil {
		err = l.store.Remove(ctx, key, RemoveSpec{})
	}
	l.outages.note(l.opts.Logger, err)
	if err == nil {
		l.failing.Store(false)
	}
	return err
}

// noteHealth records whether the store could be written to, and logs changes.
func (m *lane) noteHealth(errs []error) {
	if errs == nil && !m.log.failing.Load() && !m.log.outages.active.Load() {
		return
	}
	var unavailable error
	for _, err := range errs {
		if errors.Is(err, ErrUnavailable) {
			unavailable = err
			break
		}
	}
	m.log.outages.note(m.log.opts.Logger, unavailable)
	failed := unavailable != nil
	if failed != m.log.failing.Load() {
		m.log.failing.Store(failed)
	}
}

// Window returns the cursors of the window of a stream, given its state from List, a Reader or a
// Stream: just before the first kept event, and just after the last one. It
// does no I/O.
func (l *Log) Window(info *StreamInfo) (earliest, tail Cursor) {
	tag := l.opts.Keys.cursorTags(info.Key, info.Epoch)[0]
	return Cursor{Seq: info.Earliest - 1, Epoch: info.Epoch, Tag: tag},
		Cursor{Seq: info.Tail, Epoch: info.Epoch, Tag: tag}
}

// checkMarker compares the marker of a store with the wrappers around it. If there are none, it refuses a store that
// was written through some: every part of a store has a marker of its own, as has the store itself.
func checkMarker(ctx context.Context, store Store) (marked bool, err error) {
	for s := store; s != nil; s = unwrapped(s) {
		if w, ok := s.(Wrapper); ok {
			return w.CheckMarker(ctx, store)
		}
	}
	outermost := true
	for s := store; s != nil; {
		inner := unwrapped(s)
		if _, isPart := s.(interface{ Part() string }); isPart || inner == nil {
			found, err := hasMarker(ctx, s)
			if err != nil {
				return false, err
			}
			marked, outermost = marked || outermost && found, false
		}
		s = inner
	}
	return marked, nil
}

// unwrapped returns the Store that s wraps, or nil.
func unwrapped(s Store) Store {
	if w, ok := s.(interface{ Unwrap() Store }); ok {
		return w.Unwrap()
	}
	return nil
}

// hasMarker reports whether home has a marker. It returns an error if the marker names a wrapper.
func hasMarker(ctx context.Context, home Store) (found bool, err error) {
	page := Page{Info: StreamInfo{Tail: 1 << 63}}
	for len(page.Batches) == 0 && page.Info.Tail > 0 { // another process may have written one since
		page, err = home.Read(ctx, markerKey, page.Info.Tail-1, 1<<20)
		switch {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrExpired):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("marker of the wrappers: %w", err)
		}
	}
	var newest Event
	for _, b := range page.Batches {
		for e, err := range Records(b) {
			if err != nil {
				return false, fmt.Errorf("%w: the marker of the wrappers cannot be read: %v", ErrInvalid, err)
			}
			newest = e
		}
	}
	var written struct {
		Wrappers []struct{ Name string }
	}
	if newest.Data != nil {
		err = json.Unmarshal(newest.Data, &written)
	}
	if err != nil {
		return false, fmt.Errorf("%w: the marker of the wrappers cannot be read: %v", ErrInvalid, err)
	}
	if len(written.Wrappers) > 0 {
		return false, fmt.Errorf("%w: the store was written through %v and is opened without wrappers: open it as it was "+
			"written, or copy it into another store", ErrInvalid, written.Wrappers)
	}
	return true, nil
}
