package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"reprise"
	"reprise/internal/journal"
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
	name    string
	journal *journal.Stream
	follows *journal.Follower
	logger  *slog.Logger

	mu      sync.Mutex
	entries map[string]Entry[T]
	loading map[string]Entry[T] // as far as the stream was read again; nil when all was
	moved   chan struct{}       // closed when entries change
}

// record is a change: a new value, or nil for a removal.
type record[T any] struct {
	ID      string `json:"id"`
	Version uint64 `json:"version"`
	Value   *T     `json:"value"`
}

// Open reads the definitions in a stream of log and follows it from then on. ctx bounds the reading. opts may be nil.
// The error is that of the Log.
func Open[T any](ctx context.Context, log *reprise.Log, key reprise.StreamKey, opts *Options) (*Registry[T], error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry[T]{
		name: key.Name, logger: o.Logger, entries: map[string]Entry[T]{}, moved: make(chan struct{}),
		journal: journal.In(log, key,
			journal.Options{Type: "change", Lazy: true, LookEvery: o.LookEvery, Logger: o.Logger}),
	}
	var err error
	r.follows, err = journal.Open(ctx, r.journal, journal.Sink{Begin: r.begin, Take: r.take, Ready: r.ready})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key.Name, err)
	}
	return r, nil
}

// Close stops following the stream.
func (r *Registry[T]) Close() { r.follows.Close() }

// Find returns a definition, or reprise.ErrNotFound.
func (r *Registry[T]) Find(id string) (Entry[T], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[id]
	if !ok {
		return e, fmt.Errorf("%w: there is no %s %.64q", reprise.ErrNotFound, r.name, id)
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
	if _, err := r.journal.Make(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	now := r.entries[id].Version
	r.mu.Unlock()
	if now != version {
		return fmt.Errorf("%w: it was changed at the same time", reprise.ErrConflict)
	}
	kept, err := r.journal.Keep(ctx, text)
	if err != nil {
		return err
	}
	return r.counted(ctx, kept, text)
}

// counted reports a conflict unless the record was the first for its version. It reads the earlier records again.
func (r *Registry[T]) counted(ctx context.Context, kept reprise.Appended, text []byte) error {
	var own record[T]
	if err := json.Unmarshal(text, &own); err != nil {
		return err
	}
	first := uint64(0)
	err := r.journal.Read(ctx, func(text []byte, at uint64) bool {
		if rec, ok := r.parse(text); ok && rec.ID == own.ID && rec.Version == own.Version && first == 0 {
			first = at
		}
		return at < kept.Last
	})
	if err == nil && first != kept.Last {
		err = fmt.Errorf("%w: it was changed at the same time", reprise.ErrConflict)
	}
	return err
}

func (r *Registry[T]) parse(text []byte) (rec record[T], ok bool) {
	if err := json.Unmarshal(text, &rec); err != nil {
		r.logger.Error("a definition cannot be read", "stream", r.name, "error", err)
		return rec, false
	}
	return rec, true
}

// begin begins to read the stream from its start.
func (r *Registry[T]) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loading = map[string]Entry[T]{}
}

// take takes one record.
func (r *Registry[T]) take(text []byte) {
	rec, ok := r.parse(text)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loading != nil {
		apply(r.loading, rec)
		return
	}
	apply(r.entries, rec)
	r.move()
}

// ready puts what was read into use.
func (r *Registry[T]) ready() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries, r.loading = r.loading, nil
	r.move()
}

// move tells of a change. The caller holds mu.
func (r *Registry[T]) move() {
	close(r.moved)
	r.moved = make(chan struct{})
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
