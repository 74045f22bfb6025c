// Package shared lets several replicas in one process share a Store that was made for one,
// such as a memstore: for tests of what replicas do together, also in a synctest bubble.
//
//	hub := shared.New(memstore.New(nil))
//	a, b := hub.Store(), hub.Store()
//
// Each of a and b is a reprise.Store and a reprise.Watcher, and is meant for one Log. Watchers of one are notified of
// the changes made through the others.
package shared

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"reprise"
)

// Hub is the Store that replicas share. It is safe for concurrent use.
type Hub struct {
	inner reprise.Store

	mu      sync.Mutex
	open    int // replicas
	watches map[reprise.StreamKey][]*watch
}

// watch is one call of Watch.
type watch struct {
	by    *Store
	moved func()
}

// New makes a Hub around inner, which is closed with the last of the replicas.
func New(inner reprise.Store) *Hub {
	return &Hub{inner: inner, watches: map[reprise.StreamKey][]*watch{}}
}

// Store makes another replica. Where all that there were have been closed, the Store inside is closed too,
// and the new one answers ErrClosed.
func (h *Hub) Store() *Store {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open++
	return &Store{hub: h}
}

// tell calls moved for watchers of key through other replicas than by.
func (h *Hub) tell(by *Store, key reprise.StreamKey) {
	h.mu.Lock()
	list := h.watches[key] // is only replaced
	h.mu.Unlock()
	for _, w := range list {
		if w.by != by {
			w.moved()
		}
	}
}

// drop ends the watches of key that match.
func (h *Hub) drop(key reprise.StreamKey, match func(*watch) bool) {
	left := slices.DeleteFunc(slices.Clone(h.watches[key]), match)
	if h.watches[key] = left; len(left) == 0 {
		delete(h.watches, key)
	}
}

// Store is the Store of one replica. It starts no goroutines: the one that changes a stream also
// calls moved, after the change and before it returns. Sweep and Sizes answer
// errors.ErrUnsupported where the Store inside has them not.
type Store struct {
	hub *Hub

	// use is held for reading by each call and for writing by Close.
	use    sync.RWMutex
	closed bool
}

var (
	_ reprise.Store   = (*Store)(nil)
	_ reprise.Watcher = (*Store)(nil)
	_ reprise.Sweeper = (*Store)(nil)
	_ reprise.Sizer   = (*Store)(nil)

	_ reprise.Concurrent = (*Store)(nil)

	_ reprise.CreateAppender = (*Store)(nil)
)

// enter begins a call. If the error is nil, the caller calls s.use.RUnlock.
func (s *Store) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.use.RLock()
	if s.closed {
		s.use.RUnlock()
		return reprise.ErrClosed
	}
	return nil
}

// Create calls the Store inside. Watchers of a stream whose configuration was changed are told.
func (s *Store) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if err := s.enter(ctx); err != nil {
		return reprise.StreamInfo{}, err
	}
	defer s.use.RUnlock()
	kept, err := s.hub.inner.Create(ctx, info)
	if info.Revision > 0 && mayHave(err) {
		s.hub.tell(s, info.Key)
	}
	return kept, err
}

// CreateAppend calls the Store inside; the error is errors.ErrUnsupported where that is no CreateAppender. Whoever
// watches the name is told.
func (s *Store) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	c, ok := s.hub.inner.(reprise.CreateAppender)
	if !ok {
		return reprise.StreamInfo{}, errors.ErrUnsupported
	}
	if err := s.enter(ctx); err != nil {
		return reprise.StreamInfo{}, err
	}
	defer s.use.RUnlock()
	kept, err := c.CreateAppend(ctx, info, first)
	if mayHave(err) {
		s.hub.tell(s, info.Key)
	}
	return kept, err
}

// Append calls the Store inside. What was stored, or may have been, is told.
func (s *Store) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if err := s.enter(ctx); err != nil {
		return slices.Repeat([]error{err}, len(reqs))
	}
	defer s.use.RUnlock()
	errs := s.hub.inner.Append(ctx, reqs)
	for i := range reqs {
		if errs == nil || mayHave(errs[i]) {
			s.hub.tell(s, reqs[i].Key)
		}
	}
	return errs
}

// mayHave reports whether a call with this error may have changed something.
func mayHave(err error) bool {
	for _, refusal := range []error{
		reprise.ErrNotFound, reprise.ErrFenced, reprise.ErrEnded, reprise.ErrConflict,
		reprise.ErrClosed,
	} {
		if errors.Is(err, refusal) {
			return false
		}
	}
	return true
}

// Read calls the Store inside.
func (s *Store) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if err := s.enter(ctx); err != nil {
		return reprise.Page{}, err
	}
	defer s.use.RUnlock()
	return s.hub.inner.Read(ctx, key, after, maxBytes)
}

// List calls the Store inside.
func (s *Store) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	if err := s.enter(ctx); err != nil {
		return reprise.ListPage{}, err
	}
	defer s.use.RUnlock()
	return s.hub.inner.List(ctx, q)
}

// Remove calls the Store inside. What was removed, or may have been, is told.
func (s *Store) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.use.RUnlock()
	err := s.hub.inner.Remove(ctx, key, spec)
	if mayHave(err) {
		s.hub.tell(s, key)
	}
	return err
}

// Sweep calls the Store inside, and reports what was swept.
func (s *Store) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	sweeper, ok := s.hub.inner.(reprise.Sweeper)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.use.RUnlock()
	swept, err := sweeper.Sweep(ctx, now, remember, limit)
	for i := range swept {
		s.hub.tell(s, swept[i].Key)
	}
	return swept, err
}

// Sizes calls the Store inside.
func (s *Store) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	sizer, ok := s.hub.inner.(reprise.Sizer)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.use.RUnlock()
	return sizer.Sizes(ctx)
}

// ConcurrentAppends is the number of the Store inside, 1 where it is no reprise.Concurrent.
func (s *Store) ConcurrentAppends() int {
	if c, ok := s.hub.inner.(reprise.Concurrent); ok {
		return c.ConcurrentAppends()
	}
	return 1
}

// Watch tells what is done through the other replicas; see reprise.Watcher. Nothing is missed. The calls of
// moved for one stream may overlap.
func (s *Store) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	if err := s.enter(context.Background()); err != nil {
		return nil, err
	}
	defer s.use.RUnlock()
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &watch{by: s, moved: moved}
	h.watches[key] = append(slices.Clip(h.watches[key]), w)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.drop(key, func(other *watch) bool { return other == w })
	}, nil
}

// Close ends what this replica watches, and with the last replica closes the Store inside.
func (s *Store) Close() error {
	s.use.Lock()
	defer s.use.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	h := s.hub
	h.mu.Lock()
	for key := range h.watches {
		h.drop(key, func(w *watch) bool { return w.by == s })
	}
	h.open--
	last := h.open == 0
	h.mu.Unlock()
	if last {
		return h.inner.Close()
	}
	return nil
}

// Lose takes back the events of a stream after keep, which is the last one of a batch, as a promotion does of a replica
// that has not received them: the stream goes on in another epoch. Everybody is told.
func (h *Hub) Lose(ctx context.Context, key reprise.StreamKey, keep uint64) error {
	return h.lose(ctx, key, loss{keep: keep, bytes: -1, renews: true})
}

// LoseEpochs is Lose that takes the newest changes of the epoch back as well, as a later promotion does of a replica
// that has not received what earlier ones have changed. keep is not above the forks of the epochs that are lost.
func (h *Hub) LoseEpochs(ctx context.Context, key reprise.StreamKey, keep uint64, epochs int) error {
	return h.lose(ctx, key, loss{keep: keep, bytes: -1, epochs: epochs, renews: true})
}

// GoBack is LoseEpochs of one epoch after which the stream is again in the one before it, as after the return to a
// server that has not been told of the promotion of another one. end, if not nil, ends it there.
func (h *Hub) GoBack(ctx context.Context, key reprise.StreamKey, keep uint64, end *reprise.End) error {
	return h.lose(ctx, key, loss{keep: keep, bytes: -1, epochs: 1, end: end})
}

// loss is what a store loses of a stream.
type loss struct {
	keep   uint64       // the last event that is kept
	bytes  int64        // what StreamInfo.Bytes is to be, -1 for what the batches have that are left
	epochs int          // changes of the epoch that are lost
	renews bool         // whether the stream goes on in another epoch
	end    *reprise.End // of the last event that is kept
}

func (h *Hub) lose(ctx context.Context, key reprise.StreamKey, l loss) error {
	page, err := h.inner.Read(ctx, key, 0, 1<<40)
	if err != nil {
		return err
	}
	info := page.Info
	info.End, info.Tail = nil, l.keep
	if left := len(info.Lineage) - l.epochs; l.epochs > 0 {
		info.Epoch, info.Lineage = info.Lineage[left].Epoch, info.Lineage[:left]
	}
	if l.renews {
		info.Renew(reprise.NewEpoch())
	}
	info.Producers = slices.DeleteFunc(slices.Clone(info.Producers),
		func(p reprise.Producer) bool { return p.Last > l.keep })
	left := info
	left.Earliest, left.Tail, left.Bytes, left.Revision = 0, info.Earliest-1, 0, 0
	if err := h.inner.Remove(ctx, key, reprise.RemoveSpec{}); err != nil {
		return err
	}
	if _, err := h.inner.Create(ctx, left); err != nil {
		return err
	}
	for _, b := range page.Batches {
		if b.Last() > l.keep {
			break
		}
		left.Bytes += int64(len(b.Bytes))
		req := reprise.AppendRequest{
			Key: key, Epoch: info.Epoch, Owner: info.Owner, First: b.First, Count: b.Count, Bytes: b.Bytes,
			Earliest: info.Earliest, Kept: left.Bytes,
		}
		if b.Last() == l.keep {
			req.End = l.end
			if l.bytes >= 0 {
				req.Kept = l.bytes
			}
		}
		if errs := h.inner.Append(ctx, []reprise.AppendRequest{req}); errs != nil {
			return errs[0]
		}
	}
	for left.Revision < info.Revision {
		left.Revision++
		if _, err := h.inner.Create(ctx, left); err != nil {
			return err
		}
	}
	h.tell(nil, key)
	return nil
}

// PrepareLoss notes the tails of up to 1,000 streams. take calls Lose for those that have moved since.
func (h *Hub) PrepareLoss(ctx context.Context) (take func() error, err error) {
	list, err := h.inner.List(ctx, reprise.ListQuery{AllNamespaces: true, Limit: 1000})
	return func() error {
		for _, info := range list.Streams {
			page, err := h.inner.Read(ctx, info.Key, 1<<63, 0)
			if err == nil && page.Info.Tail > info.Tail {
				err = h.lose(ctx, info.Key, loss{keep: info.Tail, bytes: info.Bytes, renews: true})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, err
}
