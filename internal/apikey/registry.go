package apikey

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/identity"
	"reprise/internal/journal"
	"reprise/internal/quota"
)

// journalKey is the stream of the API keys of all replicas.
var journalKey = reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "identity:keys"}

// Stream is the Journal that the replicas of a store share, in a stream of log.
func Stream(log *reprise.Log) journal.Journal {
	return journal.In(log, journalKey, journal.Options{Type: "key"})
}

// Options are the settings of a Registry. The zero value of each field means its default.
type Options struct {
	// Revoked is the path of a file in which this replica remembers which credentials were revoked. Default: none,
	// which is right for a Journal that loses nothing.
	Revoked string
	// Logger logs errors. Default: silent.
	Logger *slog.Logger
}

// Registry knows all API keys. It is an identity.Verifier, and safe for concurrent use.
type Registry struct {
	journal journal.Journal
	follows *journal.Follower
	logger  *slog.Logger
	dead    *deadList

	ctx   context.Context // until Close
	stop  context.CancelFunc
	tasks sync.WaitGroup

	// changing is held while a key is changed based on its previous record: a change must not restore an older text.
	// Revoking does not wait for it, and wins.
	changing sync.Mutex
	separate func(tenants []string) error // guarded by changing; see Separate

	mu   sync.RWMutex
	keys map[string]*entry
	// loading are the keys as far as they were read again, nil when all were.
	loading map[string]*entry
	again   map[string]bool // keys that are being revoked again
	lives   map[string]life // see Life, by the id of the key
}

// entry is a key with values derived from it.
type entry struct {
	record
	principal identity.Principal
	revoke    context.CancelCauseFunc
}

func newEntry(rec *record) *entry {
	e := &entry{record: *rec}
	e.principal = identity.Principal{
		Name: principalName(&rec.Key), Tenant: rec.Tenant, Grants: rec.Scopes, Limits: rec.Limits,
		Credential: rec.ID + "." + identity.CredentialName(rec.Digest),
	}
	if rec.Expires != nil {
		e.principal.Expires = *rec.Expires
	}
	e.principal.Revoked, e.revoke = context.WithCancelCause(context.Background())
	return e
}

// principalName tells the principal of a key from all others: the id is in it.
func principalName(k *Key) string { return k.Name + "." + k.ID }

// Open reads the keys of a journal and continues to follow it. ctx limits the initial read. opts may be nil.
func Open(ctx context.Context, from journal.Journal, opts *Options) (*Registry, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	dead, err := loadDead(o.Revoked)
	if err != nil {
		return nil, fmt.Errorf("API keys: %w", err)
	}
	r := &Registry{
		journal: from, logger: o.Logger, dead: dead, keys: map[string]*entry{}, loading: map[string]*entry{},
		again: map[string]bool{}, lives: map[string]life{},
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.follows, err = journal.Open(ctx, from, journal.Sink{Begin: r.begin, Take: r.take, Ready: r.ready})
	if err == nil {
		return r, nil
	}
	r.Close()
	return nil, fmt.Errorf("API keys: %w", err)
}

// Close stops following the journal. Existing principals stay valid.
func (r *Registry) Close() {
	r.mu.Lock()
	r.stop() // no new task begins
	r.mu.Unlock()
	r.follows.Close()
	r.tasks.Wait()
}

// begin begins to read the journal from its start.
func (r *Registry) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loading = map[string]*entry{}
}

// take takes one record.
func (r *Registry) take(text []byte) {
	rec, err := parseRecord(text)
	if err != nil {
		r.logger.Error("a record of API keys cannot be read", "error", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.keys
	if r.loading != nil {
		known = r.loading
	}
	r.apply(known, newEntry(rec))
}

// apply makes e the state of its key. The caller holds mu.
func (r *Registry) apply(known map[string]*entry, e *entry) {
	before := known[e.ID]
	if before != nil && before.Revoked != nil && e.Revoked == nil {
		return // of a replica that did not know yet
	}
	credential := e.principal.Credential
	if r.loading == nil {
		r.raise(e)
	}
	if before != nil && before.principal.Credential != credential {
		r.bury(before)
	}
	switch old := r.keys[e.ID]; { // the state in use, even while the journal is read again
	case e.Revoked != nil:
		r.bury(e)
		if old != nil {
			old.revoke(identity.ErrRevoked)
		}
	case old != nil && old.principal.Credential == credential && old.Revoked == nil:
		e.revoke(nil)
		e.principal.Revoked, e.revoke = old.principal.Revoked, old.revoke
	}
	known[e.ID] = e
	r.settle(e.ID)
}

// raise revokes a key that is valid according to the journal although its credential is known to be revoked, because
// the journal has lost the revocation. While the journal is read, it contains credentials that were replaced later, so
// raise is only for the newest record of a key. The caller holds mu.
func (r *Registry) raise(e *entry) {
	if e.Revoked == nil && r.dead.has(e.principal.Credential) {
		e.Revoked = new(time.Now().UTC().Truncate(time.Second))
		e.revoke(identity.ErrRevoked)
		r.revokeAgain(e)
	}
}

// bury ends a credential permanently. The caller holds mu.
func (r *Registry) bury(e *entry) {
	e.revoke(identity.ErrRevoked)
	if err := r.dead.add(e.principal.Credential); err != nil {
		r.logger.Error("a revoked API key could not be remembered", "key", e.ID, "error", err)
	}
}

// ready puts the read records into use.
func (r *Registry) ready() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, old := range r.keys {
		if now := r.loading[id]; now == nil || now.principal.Credential != old.principal.Credential {
			old.revoke(identity.ErrRevoked)
		}
	}
	r.keys, r.loading = r.loading, nil
	for _, e := range r.keys {
		r.raise(e)
	}
	for id := range r.lives {
		r.settle(id)
	}
}

// revokeAgain tells a journal that has lost it that a key was revoked. The caller holds mu.
func (r *Registry) revokeAgain(e *entry) {
	if r.again[e.ID] || r.ctx.Err() != nil {
		return
	}
	r.again[e.ID] = true
	rec := e.record
	r.tasks.Go(func() {
		wait := backoff.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}
		for r.keep(r.ctx, &rec) != nil {
			if wait.Wait(r.ctx) != nil {
				return
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.again, rec.ID)
	})
}

// keep appends a record to the journal.
func (r *Registry) keep(ctx context.Context, rec *record) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return r.journal.Append(ctx, text)
}

// Add makes a key and returns its text, which cannot be retrieved later. The error wraps reprise.ErrInvalid, see Field,
// or is that of the journal.
func (r *Registry) Add(ctx context.Context, q Request) (k Key, text string, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	if err := q.validate(now); err != nil {
		return Key{}, "", err
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	if err := r.admit(&q, now); err != nil {
		return Key{}, "", err
	}
	rec := record{Key: Key{
		ID: newID(), Name: q.Name, Tenant: q.Tenant, Scopes: slices.Clone(q.Scopes), Created: now,
		Limits: maps.Clone(q.Limits),
	}}
	if !q.Expires.IsZero() {
		rec.Expires = new(q.Expires.UTC().Truncate(time.Second))
	}
	text = newText(rec.ID)
	rec.Digest = digestOf(text)
	if err := r.keep(ctx, &rec); err != nil {
		return Key{}, "", err
	}
	return rec.Key, text, nil
}

// Rotate gives a key another secret and returns its new text. Connections that were opened with the old secret end. The
// error is reprise.ErrNotFound, or reprise.ErrConflict for a revoked key.
func (r *Registry) Rotate(ctx context.Context, id string) (k Key, text string, err error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	rec, err := r.find(id)
	if err != nil {
		return Key{}, "", err
	}
	if rec.Revoked != nil {
		return Key{}, "", fmt.Errorf("%w: the key was revoked; add another one", reprise.ErrConflict)
	}
	text = newText(rec.ID)
	rec.Digest = digestOf(text)
	rec.Rotated = new(time.Now().UTC().Truncate(time.Second))
	if err := r.keep(ctx, &rec); err != nil {
		return Key{}, "", err
	}
	if now, err := r.find(id); err != nil || now.Digest != rec.Digest || now.Revoked != nil {
		return Key{}, "", fmt.Errorf("%w: the key was rotated or revoked at the same time", reprise.ErrConflict)
	}
	return rec.Key, text, nil
}

// SetLimits replaces all quotas of a key. Its text stays valid, and its connections stay open. The error is
// reprise.ErrNotFound, wraps reprise.ErrInvalid, see Field, or is reprise.ErrConflict for a key that was revoked, or
// that was rotated at the same time.
func (r *Registry) SetLimits(ctx context.Context, id string, limits quota.Limits) (Key, error) {
	if err := limits.Validate(); err != nil {
		return Key{}, &errField{"limits", err.Error()}
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	rec, err := r.find(id)
	if err != nil {
		return Key{}, err
	}
	if rec.Revoked != nil {
		return Key{}, fmt.Errorf("%w: the key was revoked; add another one", reprise.ErrConflict)
	}
	rec.Limits = maps.Clone(limits)
	if err := r.keep(ctx, &rec); err != nil {
		return Key{}, err
	}
	if now, err := r.find(id); err != nil || now.Digest != rec.Digest || now.Revoked != nil {
		return Key{}, fmt.Errorf("%w: the key was rotated or revoked at the same time", reprise.ErrConflict)
	}
	return rec.Key, nil
}

// Revoke ends a key. This replica refuses the key immediately and remembers the revocation, even if the error is that
// of the journal: the journal is then retried until it keeps the revocation. Revoking again does nothing. The error is
// reprise.ErrNotFound for a key that does not exist.
func (r *Registry) Revoke(ctx context.Context, id string) (Key, error) {
	rec, err := r.find(id)
	if err != nil {
		return Key{}, err
	}
	if rec.Revoked == nil {
		rec.Revoked = new(time.Now().UTC().Truncate(time.Second))
	} else if !r.isPending(id) {
		return rec.Key, nil
	}
	if err := r.keep(ctx, &rec); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		e := newEntry(&rec)
		r.apply(r.keys, e)
		r.revokeAgain(e)
		return Key{}, err
	}
	return rec.Key, nil
}

// isPending reports whether the journal does not have the revocation of a key yet.
func (r *Registry) isPending(id string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.again[id]
}

// find returns a copy of the state of a key.
func (r *Registry) find(id string) (record, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.keys[id]
	if e == nil {
		return record{}, fmt.Errorf("%w: there is no API key with this id", reprise.ErrNotFound)
	}
	return e.record, nil
}

// Key returns the description of a key. The error is reprise.ErrNotFound.
func (r *Registry) Key(id string) (Key, error) {
	rec, err := r.find(id)
	return rec.Key, err
}

// List returns all keys, also those that have ended, the newest first.
func (r *Registry) List() []Key {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]Key, 0, len(r.keys))
	for _, e := range r.keys {
		list = append(list, e.Key)
	}
	slices.SortFunc(list, func(a, b Key) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Any reports whether there is a key that is good.
func (r *Registry) Any() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, e := range r.keys {
		if _, err := e.current(); err == nil {
			return true
		}
	}
	return false
}
