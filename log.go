package reprise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the settings of a Log. The zero value of each field means its default.
type Options struct {
	// Keys authenticate cursors. Default: a random key, so that cursors are
	// good for as long as the process lives.
	Keys *Keys
	// Retention is for streams that state none. Default: DefaultRetention.
	Retention Retention
	// MaxTenantBytes bounds what all streams of one tenant keep, MaxTotalBytes
	// what all streams keep; see Retention.MaxBytes for what is counted. When a bound
	// is reached, a stream that is appended to gives up its own oldest
	// events, and where that is not enough the append fails with ErrQuota: no
	// stream costs another its events. Defaults: no bound, 16 GiB.
	MaxTenantBytes, MaxTotalBytes int64
	// MaxEventBytes bounds the data of an event, inclusive. Default: 1 MiB.
	MaxEventBytes int
	// TailBytes is how many bytes of the newest events of a stream are kept
	// in memory for its readers, TailTotalBytes how many of all streams; the newest
	// few are always kept while a stream is in use. What is made of them for
	// the wire comes on top, up to twice as much. Defaults: 1 MiB, 256 MiB.
	TailBytes      int
	TailTotalBytes int64
	// MaxStreams is how many streams are held in memory while nobody uses them.
	// Default: 65,536.
	MaxStreams int
	// MaxReaders bounds the readers of one stream. Default: 10,000.
	MaxReaders int
	// SweepEvery is the time between sweeps. Default: 5 minutes; negative: never.
	SweepEvery time.Duration
	// Remember is for how long a swept stream is answered with ErrExpired.
	// Default: 24 hours.
	Remember time.Duration
	// Logger is told of what goes wrong in the background. Default: silent.
	Logger *slog.Logger
	// Hooks are called as things happen.
	Hooks *Hooks
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Keys == nil {
		d.Keys = NewKeys()
	}
	d.Retention = d.Retention.or(DefaultRetention)
	orDefault(&d.MaxTotalBytes, 16<<30)
	orDefault(&d.MaxEventBytes, 1<<20)
	orDefault(&d.TailBytes, 1<<20)
	orDefault(&d.TailTotalBytes, 256<<20)
	orDefault(&d.MaxStreams, 1<<16)
	orDefault(&d.MaxReaders, 10_000)
	orDefault(&d.SweepEvery, 5*time.Minute)
	orDefault(&d.Remember, 24*time.Hour)
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Hooks == nil {
		d.Hooks = &Hooks{}
	}
	return d
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Log keeps streams of events in a Store and lets any number of readers follow
// them. It is safe for concurrent use. Only one Log may
// use a Store at a time, unless the Store is a Watcher: then any number of them, its
// replicas, keep the same streams.
type Log struct {
	store Store
	opts  Options
	// watcher is the store as a Watcher; nil if nobody else writes to it.
	watcher Watcher
	commits
	hotBytes atomic.Int64 // of all live streams
	failing  atomic.Bool  // the last commit found the store unavailable

	mu      sync.Mutex
	streams map[StreamKey]*live
	closed  bool
	// evictAbove and coolAbove are where the streams and the bytes in memory are looked at
	// again that could not be put out the last time.
	evictAbove int
	coolAbove  int64 // touched within a commit alone

	// loading[h] is held while a stream whose key hashes to h is looked up
	// in the store, so that two never make two lives of one stream.
	loading [64]sync.Mutex
	seed    maphash.Seed

	background background
}

// Open makes a Log of what is in store. The store stays the caller's, who closes
// it after the Log. opts may be nil.
func Open(ctx context.Context, store Store, opts *Options) (*Log, error) {
	l := &Log{store: store, opts: opts.withDefaults(), streams: map[StreamKey]*live{}, seed: maphash.MakeSeed()}
	if err := l.opts.Retention.validate(); err != nil {
		return nil, err
	}
	if err := l.findWatcher(); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l.background.init()
	l.commits.init(l)
	if err := l.measure(ctx); err != nil {
		l.background.end()
		return nil, fmt.Errorf("open log: %w", err)
	}
	if l.opts.SweepEvery > 0 {
		l.background.start(l.sweepEvery)
	}
	return l, nil
}

// Close ends the commit under way and lets every reader go with ErrClosed. It does not
// close the Store. Closing again does nothing.
func (l *Log) Close() error {
	l.background.end()
	return l.committer.do(context.Background(), &call{fn: func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = true
		for _, lv := range l.streams {
			l.hotBytes.Add(-lv.retire(ErrClosed))
		}
		clear(l.streams)
		return nil
	}})
}

// Create makes a stream, or finds the one that was made with the same
// configuration; created says which. The error is ErrConflict if the name is taken by another
// configuration, and ErrInvalid if key or configuration are not allowed.
func (l *Log) Create(ctx context.Context, key StreamKey, config StreamConfig) (s *Stream, created bool, err error) {
	return l.CreateWith(ctx, CreateOptions{}, key, config)
}

// CreateOptions are for streams that need more than a configuration.
type CreateOptions struct {
	// Owner is who may append to the stream if it is made now; see AppendOptions.Owner.
	Owner Owner
}

// CreateWith is Create with options.
func (l *Log) CreateWith(ctx context.Context, opts CreateOptions, key StreamKey, config StreamConfig) (s *Stream, created bool, err error) {
	if err := errors.Join(key.Validate(), config.validate(), opts.Owner.validate()); err != nil {
		return nil, false, fmt.Errorf("create %s: %w", key, err)
	}
	lv, created, err := l.create(ctx, opts, key, config)
	if err != nil {
		return nil, false, fmt.Errorf("create %s: %w", key, err)
	}
	return l.handle(lv), created, nil
}

func (l *Log) create(ctx context.Context, opts CreateOptions, key StreamKey, config StreamConfig) (*live, bool, error) {
	l.evictIfFull(ctx)
	lv, older, created, err := l.createOrFind(ctx, opts, key, config)
	if older == nil || err != nil {
		return lv, created, err
	}
	if err := l.exclusively(ctx, func() error {
		l.forgetEpoch(key, older.epoch, ErrNotFound)
		return nil
	}); err != nil {
		return nil, false, err
	}
	lv, err = l.load(ctx, key)
	return lv, created, err
}

var errOtherConfig = fmt.Errorf("%w: it exists with another configuration", ErrConflict)

// createOrFind makes a stream or finds it. If it was made, by us or another replica, while a life of it was in
// memory that another replica has ended, it returns that one as older, which is to be forgotten.
func (l *Log) createOrFind(ctx context.Context, opts CreateOptions, key StreamKey, config StreamConfig) (lv, older *live, created bool, err error) {
	unlock := l.lockKey(key)
	defer unlock()
	lv, err = l.lookup(key)
	if err != nil {
		return nil, nil, false, err
	}
	if lv != nil && !l.Shared() && !lv.hasEnded() { // one that has ended may be read from an archive, and its name be free
		if !lv.created.Equal(config) {
			return nil, nil, false, errOtherConfig
		}
		return lv, nil, false, nil
	}
	config.Labels, config.Meta = maps.Clone(config.Labels), bytes.Clone(config.Meta) // the caller keeps its own
	want := StreamInfo{Key: key, Epoch: NewEpoch(), Config: config, Created: now(), Owner: opts.Owner}
	info, err := l.store.Create(ctx, want)
	if errors.Is(err, ErrConflict) {
		err = errOtherConfig
	}
	if err != nil {
		return nil, nil, false, err
	}
	created = info.Epoch == want.Epoch
	switch {
	case lv == nil:
		lv, err = l.admit(info)
		return lv, nil, created, err
	case lv.epoch == info.Epoch:
		return lv, nil, created, nil
	}
	return nil, lv, created, nil
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

// List lists streams, the newest first; see ListQuery.
func (l *Log) List(ctx context.Context, q ListQuery) (ListPage, error) {
	if q.Limit < 1 || q.Limit > 1000 {
		return ListPage{}, fmt.Errorf("list: %w: a limit of %d, 1 to 1000 are taken", ErrInvalid, q.Limit)
	}
	if err := l.usable(); err != nil {
		return ListPage{}, fmt.Errorf("list: %w", err)
	}
	page, err := l.store.List(ctx, q)
	if err != nil {
		return ListPage{}, fmt.Errorf("list: %w", err)
	}
	return page, nil
}

// Remove forgets a stream without a trace; its readers get ErrNotFound.
// Removing what is not there does nothing.
func (l *Log) Remove(ctx context.Context, key StreamKey) error {
	if err := key.Validate(); err != nil {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	return l.exclusively(ctx, func() error {
		unlock := l.lockKey(key)
		defer unlock()
		kept := l.keptBy(ctx, key)
		if err := l.store.Remove(ctx, key, RemoveSpec{}); err != nil {
			return fmt.Errorf("remove %s: %w", key, err)
		}
		l.usage.add(l.usage.of(key.Tenant), -kept)
		l.forget(key, ErrNotFound)
		return nil
	})
}

// keptBy is what the stream keeps in the store, 0 if there is no such stream.
func (l *Log) keptBy(ctx context.Context, key StreamKey) int64 {
	page, err := l.store.Read(ctx, key, 1<<63, 0)
	if err != nil {
		return 0
	}
	return page.Info.Bytes
}

// now is the time that events and streams are stamped with: UTC, whole milliseconds.
func now() time.Time { return time.UnixMilli(time.Now().UnixMilli()).UTC() }

// lockKey keeps others from looking up the same stream in the store.
func (l *Log) lockKey(key StreamKey) (unlock func()) {
	mu := &l.loading[maphash.Comparable(l.seed, key)%uint64(len(l.loading))]
	mu.Lock()
	return mu.Unlock
}

// usable is ErrClosed after Close.
func (l *Log) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	return nil
}

// lookup finds a stream in memory; nil if it is not there.
func (l *Log) lookup(key StreamKey) (*live, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	return l.streams[key], nil
}

// load finds a stream in memory or in the store.
func (l *Log) load(ctx context.Context, key StreamKey) (*live, error) {
	if lv, err := l.lookup(key); lv != nil || err != nil {
		return lv, err
	}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	l.evictIfFull(ctx)
	unlock := l.lockKey(key)
	defer unlock()
	if lv, err := l.lookup(key); lv != nil || err != nil {
		return lv, err
	}
	page, err := l.store.Read(ctx, key, 1<<63, 0)
	if err != nil {
		return nil, err
	}
	return l.admit(page.Info)
}

// admit puts a stream into memory. The caller holds the lock of its key.
func (l *Log) admit(info StreamInfo) (*live, error) {
	lv := newLive(info, l.opts.Retention, l.usage.of(info.Key.Tenant))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	l.streams[info.Key] = lv
	return lv, nil
}

// forget drops a stream from memory and tells its users why.
func (l *Log) forget(key StreamKey, why error) {
	l.mu.Lock()
	lv := l.streams[key]
	delete(l.streams, key)
	l.mu.Unlock()
	if lv != nil {
		l.hotBytes.Add(-lv.retire(why))
	}
}
