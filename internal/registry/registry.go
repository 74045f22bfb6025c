package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"reprise"
	"reprise/internal/backoff"
)

// Options are the settings of a Registry. The zero value of each field means its default.
type Options struct {
	// LookEvery is how often a shared store is asked whether the stream exists yet. Default: 1 s.
	LookEvery time.Duration
	// Logger receives errors. Default: silent.
	Logger *slog.Logger
}

// Entry is one version of a definition, counted from 1. The value is shared and must not be modified.
type Entry[T any] struct {
	Version uint64
	Value   T
}

// Registry holds all definitions of a stream. It is safe for concurrent use.
type Registry[T any] struct {
	log  *reprise.Log
	key  reprise.StreamKey
	opts Options

	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu      sync.Mutex
	entries map[string]Entry[T]
	taken   reprise.Cursor // of the last record in entries
	made    chan struct{}  // closed when this process has created the stream
	moved   chan struct{}  // closed when entries or taken change
}

// record is a change: a new value, or nil for a removal.
type record[T any] struct {
	ID      string `json:"id"`
	Version uint64 `json:"version"`
	Value   *T     `json:"value"`
}

// unbounded keeps all records: losing the oldest would lose definitions.
var unbounded = reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 1 << 40, MaxBytes: 1 << 40}}

// takeTimeout bounds the wait for the replica to read back a record that it appended.
const takeTimeout = 10 * time.Second

// Open reads the definitions in a stream of log and follows it from then on. ctx bounds the reading. opts may be nil.
// The error is that of the Log.
func Open[T any](ctx context.Context, log *reprise.Log, key reprise.StreamKey, opts *Options) (*Registry[T], error) {
	r := &Registry[T]{
		log: log, key: key, entries: map[string]Entry[T]{}, made: make(chan struct{}), moved: make(chan struct{}),
	}
	if opts != nil {
		r.opts = *opts
	}
	if r.opts.LookEvery == 0 {
		r.opts.LookEvery = time.Second
	}
	if r.opts.Logger == nil {
		r.opts.Logger = slog.New(slog.DiscardHandler)
	}
	life, stop := context.WithCancel(context.Background())
	r.stop = stop
	read := make(chan error, 1)
	r.tasks.Go(func() { r.run(life, read) })
	var err error
	select {
	case err = <-read:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", key.Name, err)
	}
	return r, nil
}

// Close stops following the stream.
func (r *Registry[T]) Close() {
	r.stop()
	r.tasks.Wait()
}

// Find returns a definition, or reprise.ErrNotFound.
func (r *Registry[T]) Find(id string) (Entry[T], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[id]
	if !ok {
		return e, fmt.Errorf("%w: there is no %s %.64q", reprise.ErrNotFound, r.key.Name, id)
	}
	return e, nil
}

// All returns a copy of the definitions by id, and a channel that is closed at the next change.
func (r *Registry[T]) All() (map[string]Entry[T], <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.entries), r.moved
}

// Any waits until there is a definition, or returns the cause of ctx.
func (r *Registry[T]) Any(ctx context.Context) error {
	for {
		all, changed := r.All()
		if len(all) > 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Set replaces the given version of a definition, 0 for a new one. A nil value removes it for good. Set returns when
// this replica has read the change. The error is reprise.ErrConflict if another change was first, or that of the Log,
// after which the change may have been stored.
func (r *Registry[T]) Set(ctx context.Context, id string, version uint64, value *T) error {
	text, err := json.Marshal(record[T]{ID: id, Version: version + 1, Value: value})
	if err != nil {
		return err
	}
	st, _, err := r.log.Create(ctx, r.key, unbounded)
	if err != nil {
		return err
	}
	r.noteMade()
	if r.version(id) != version {
		return fmt.Errorf("%w: it was changed at the same time", reprise.ErrConflict)
	}
	kept, err := st.Append(ctx, reprise.Event{Type: "change", Data: text, Format: reprise.FormatJSON})
	if err != nil {
		return err
	}
	return r.await(ctx, kept, text)
}

func (r *Registry[T]) version(id string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries[id].Version
}

func (r *Registry[T]) noteMade() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.made:
	default:
		close(r.made)
	}
}

// await waits until a record was applied or skipped, and reports a conflict if it was skipped.
func (r *Registry[T]) await(ctx context.Context, kept reprise.Appended, text []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, takeTimeout,
		fmt.Errorf("%w: the change was kept and has not come back", reprise.ErrUnavailable))
	defer cancel()
	for {
		r.mu.Lock()
		taken, moved := r.taken, r.moved
		r.mu.Unlock()
		if taken.Epoch == kept.Epoch && taken.Seq >= kept.Last {
			return r.counted(ctx, kept, text)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// counted reports a conflict unless the record was the first for its version. It reads the earlier records again.
func (r *Registry[T]) counted(ctx context.Context, kept reprise.Appended, text []byte) error {
	var own record[T]
	if err := json.Unmarshal(text, &own); err != nil {
		return err
	}
	first := uint64(0)
	err := r.read(ctx, func(rec record[T], at uint64) bool {
		if rec.ID == own.ID && rec.Version == own.Version && first == 0 {
			first = at
		}
		return at < kept.Last
	})
	if err == nil && first != kept.Last {
		err = fmt.Errorf("%w: it was changed at the same time", reprise.ErrConflict)
	}
	return err
}

// read calls each for the stored records until it returns false.
func (r *Registry[T]) read(ctx context.Context, each func(rec record[T], at uint64) bool) error {
	st, err := r.log.Stream(ctx, r.key)
	if err != nil {
		return err
	}
	reader, err := st.Reader(ctx, reprise.Earliest())
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		events, err := reader.Poll(ctx)
		if err != nil || events.Len() == 0 {
			return err
		}
		for e := range events.All() {
			if rec, ok := r.parse(e.Data); ok && !each(rec, e.Seq) {
				return nil
			}
		}
	}
}

func (r *Registry[T]) parse(text []byte) (rec record[T], ok bool) {
	if err := json.Unmarshal(text, &rec); err != nil {
		r.opts.Logger.Error("a definition cannot be read", "stream", r.key.Name, "error", err)
		return rec, false
	}
	return rec, true
}

// run follows the stream until ctx is done. read receives one value: nil once everything was read, or the error.
func (r *Registry[T]) run(ctx context.Context, read chan<- error) {
	wait := backoff.Backoff{First: 50 * time.Millisecond, Most: time.Second}
	first := true
	ready := func() {
		if wait.Reset(); first {
			first = false
			read <- nil
		}
	}
	for {
		err := r.follow(ctx, ready)
		if first {
			read <- err
			return
		}
		if ctx.Err() != nil || wait.Wait(ctx) != nil {
			return
		}
		r.opts.Logger.Debug("the definitions are read again", "stream", r.key.Name, "error", err)
	}
}

// follow reads the stream from its first event until an error.
func (r *Registry[T]) follow(ctx context.Context, ready func()) error {
	st, err := r.stream(ctx, ready)
	if err != nil {
		return err
	}
	reader, err := st.Reader(ctx, reprise.Earliest())
	if err != nil {
		return err
	}
	defer reader.Close()
	entries := map[string]Entry[T]{}
	for {
		changed := reader.Changed()
		events, err := reader.Poll(ctx)
		if err != nil {
			return err
		}
		for e := range events.All() {
			if rec, ok := r.parse(e.Data); ok {
				apply(entries, rec)
			}
		}
		if events.Len() > 0 {
			continue
		}
		r.show(entries, reader.Cursor())
		ready()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stream waits until the stream exists.
func (r *Registry[T]) stream(ctx context.Context, ready func()) (*reprise.Stream, error) {
	for {
		st, err := r.log.Stream(ctx, r.key)
		if !errors.Is(err, reprise.ErrNotFound) {
			return st, err
		}
		ready()
		var look <-chan time.Time
		if r.log.Shared() {
			look = time.After(r.opts.LookEvery)
		}
		select {
		case <-look:
		case <-r.made:
			if err := backoff.Sleep(ctx, 10*time.Millisecond); err != nil { // it may have been removed
				return nil, err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// apply applies a record if it is the next version.
func apply[T any](entries map[string]Entry[T], rec record[T]) {
	switch {
	case rec.Version != entries[rec.ID].Version+1:
	case rec.Value == nil:
		delete(entries, rec.ID)
	default:
		entries[rec.ID] = Entry[T]{Version: rec.Version, Value: *rec.Value}
	}
}

// show publishes entries to callers.
func (r *Registry[T]) show(entries map[string]Entry[T], taken reprise.Cursor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken != taken {
		r.entries, r.taken = maps.Clone(entries), taken
		close(r.moved)
		r.moved = make(chan struct{})
	}
}
