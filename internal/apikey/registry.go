package apikey

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/identity"
	"reprise/internal/quota"
)

// Options are the settings of a Registry. The zero value of each field means its default.
type Options struct {
	// Revoked is the path of a file in which this replica remembers which credentials were revoked. Default: none,
	// which is right for a Journal that loses nothing.
	Revoked string
	// Logger is told of what goes wrong. Default: silent.
	Logger *slog.Logger
}

// Registry knows all API keys. It is an identity.Verifier, and safe for concurrent use.
type Registry struct {
	journal Journal
	logger  *slog.Logger
	dead    *deadList

	ctx   context.Context // until Close
	stop  context.CancelFunc
	tasks sync.WaitGroup

	// changing is held while a key is changed by its record before: a change must not bring an older text back.
	// Revoking waits for nobody, and wins.
	changing sync.Mutex

	mu   sync.RWMutex
	keys map[string]*entry
	// loading are the keys as far as they were read again, nil when all were.
	loading map[string]*entry
	again   map[string]bool // keys that are being revoked again
}

// entry is a key, and what is made of it once.
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

// Open reads the keys of a journal and goes on following it. ctx bounds the reading. opts may be nil.
func Open(ctx context.Context, journal Journal, opts *Options) (*Registry, error) {
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
		journal: journal, logger: o.Logger, dead: dead, keys: map[string]*entry{}, loading: map[string]*entry{},
		again: map[string]bool{},
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	read := make(chan struct{})
	failed := make(chan error, 1)
	var once sync.Once
	r.tasks.Go(func() {
		failed <- journal.Follow(r.ctx, Sink{
			Begin: r.begin, Take: r.take,
			Ready: func() { r.ready(); once.Do(func() { close(read) }) },
		})
	})
	select {
	case <-read:
		return r, nil
	case err = <-failed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	r.Close()
	return nil, fmt.Errorf("API keys: %w", err)
}

// Close ends following. Principals stay as they are.
func (r *Registry) Close() {
	r.mu.Lock()
	r.stop() // no task begins from now on
	r.mu.Unlock()
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

// apply makes e what is known of its key. The caller holds mu.
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
	switch old := r.keys[e.ID]; { // who is served now, also while the journal is read again
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
}

// raise revokes a key that the journal takes for good although its credential is known to be dead: the journal has lost
// that. While the journal is read, credentials that were replaced later come too, so this is for the newest record of
// a key alone. The caller holds mu.
func (r *Registry) raise(e *entry) {
	if e.Revoked == nil && r.dead.has(e.principal.Credential) {
		e.Revoked = new(time.Now().UTC().Truncate(time.Second))
		e.revoke(identity.ErrRevoked)
		r.revokeAgain(e)
	}
}

// bury ends a credential for good. The caller holds mu.
func (r *Registry) bury(e *entry) {
	e.revoke(identity.ErrRevoked)
	if err := r.dead.add(e.principal.Credential); err != nil {
		r.logger.Error("a revoked API key could not be remembered", "key", e.ID, "error", err)
	}
}

// ready makes what was read what is known.
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

// Add makes a key and returns its text, which nobody can find out again. The error wraps reprise.ErrInvalid, see Field,
// or is that of the journal.
func (r *Registry) Add(ctx context.Context, q Request) (k Key, text string, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	if err := q.validate(now); err != nil {
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

// Rotate gives a key another secret and returns its text. What was opened with the one before ends. The error is
// reprise.ErrNotFound, or reprise.ErrConflict for a key that was revoked.
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

// SetLimits gives a key other quotas of its own, in place of all that it has. Its text stays good, and what was opened
// with it goes on. The error is reprise.ErrNotFound, wraps reprise.ErrInvalid, see Field, or is reprise.ErrConflict for
// a key that was revoked, or that was rotated at the same time.
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

// Revoke ends a key. From now on it is refused by this replica, and remembered as revoked, also where the error says
// that the journal could not keep it: it is told again until it does. Revoking again does nothing. The error is
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

// isPending reports whether the journal is still to be told that a key was revoked.
func (r *Registry) isPending(id string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.again[id]
}

// find returns a copy of what is known of a key.
func (r *Registry) find(id string) (record, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.keys[id]
	if e == nil {
		return record{}, fmt.Errorf("%w: there is no API key with this id", reprise.ErrNotFound)
	}
	return e.record, nil
}

// Key returns what is known of a key. The error is reprise.ErrNotFound.
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

// errClosed is why a change is refused after Close.
var errClosed = errors.New("the API keys are closed")
