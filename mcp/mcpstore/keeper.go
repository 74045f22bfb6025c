package mcpstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"reprise"
)

// keeper is what both event stores do.
type keeper struct {
	log  *reprise.Log
	opts Options
	room room

	mu       sync.Mutex
	sessions map[string]map[string]*writer // by session and stream
	dirty    map[*writer]struct{}          // whose messages wait for the store
	closed   bool

	wake   chan struct{} // there is something dirty
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

func newKeeper(log *reprise.Log, opts *Options) *keeper {
	k := &keeper{
		log: log, opts: opts.withDefaults(), sessions: map[string]map[string]*writer{},
		dirty: map[*writer]struct{}{}, wake: make(chan struct{}, 1),
	}
	k.room.size = k.opts.MaxPendingBytes
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.tasks.Go(k.flushDirty)
	if k.opts.SweepEvery > 0 {
		k.tasks.Go(k.sweepEvery)
	}
	return k
}

// Close tries once more to store pending messages, and ends the background work. The error lists what was not
// stored. Close does not close the Log and must be called before the Log is closed. Closing again does nothing.
func (k *keeper) Close() error {
	k.mu.Lock()
	closed := k.closed
	k.closed = true
	k.mu.Unlock()
	if closed {
		return nil
	}
	k.cancel()
	k.tasks.Wait()
	k.mu.Lock()
	dirty := slices.Collect(maps.Keys(k.dirty))
	k.mu.Unlock()
	for _, w := range dirty {
		if err := w.flush(); err != nil {
			return fmt.Errorf("messages not stored: %w", err) // the store is away for the others too
		}
	}
	return nil
}

// writer finds the writer of r if there is one.
func (k *keeper) writer(r ref) *writer {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sessions[r.session][r.stream]
}

// open makes the stream, or finds it.
func (k *keeper) open(ctx context.Context, r ref) (*writer, error) {
	if w := k.writer(r); w != nil {
		return w, nil
	}
	s, created, err := k.log.Create(ctx, k.key(r), reprise.StreamConfig{Retention: k.opts.Retention})
	if errors.Is(err, reprise.ErrConflict) { // made with other options
		s, err = k.log.Stream(ctx, k.key(r))
	}
	if err != nil {
		return nil, err
	}
	return k.admit(ctx, r, s, created)
}

// find finds a stream that was made before, here or by another replica.
func (k *keeper) find(ctx context.Context, r ref) (*writer, error) {
	if w := k.writer(r); w != nil {
		return w, nil
	}
	s, err := k.log.Stream(ctx, k.key(r))
	if err != nil {
		return nil, err
	}
	return k.admit(ctx, r, s, false)
}

// admit makes the writer of a stream, unless another was faster.
func (k *keeper) admit(ctx context.Context, r ref, s *reprise.Stream, created bool) (*writer, error) {
	tail := uint64(0)
	if !created {
		info, err := s.Info(ctx)
		if err != nil {
			return nil, err
		}
		tail = info.Tail
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, reprise.ErrClosed
	}
	streams := k.sessions[r.session]
	if streams == nil {
		streams = map[string]*writer{}
		k.sessions[r.session] = streams
	}
	if streams[r.stream] == nil {
		streams[r.stream] = newWriter(k, r, s, tail)
	}
	return streams[r.stream], nil
}

// giveUp makes a stream answer with why, as long as its session is open: a message has no number that later ones
// could follow.
func (k *keeper) giveUp(r ref, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.sessions[r.session][r.stream] != nil {
		return
	}
	w := newWriter(k, r, nil, 0)
	w.gone = why
	if k.sessions[r.session] == nil {
		k.sessions[r.session] = map[string]*writer{}
	}
	k.sessions[r.session][r.stream] = w
}

// drop forgets a writer, unless it has been used since or is another by now.
func (k *keeper) drop(w *writer, idleSince time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sessions[w.ref.session][w.ref.stream] != w || !w.retire(idleSince) {
		return
	}
	delete(k.sessions[w.ref.session], w.ref.stream)
	if len(k.sessions[w.ref.session]) == 0 {
		delete(k.sessions, w.ref.session)
	}
}

// closeSession removes all streams of a session. Those that cannot be removed now are left to the sweep.
func (k *keeper) closeSession(ctx context.Context, session string) error {
	k.mu.Lock()
	writers := k.sessions[session]
	delete(k.sessions, session)
	for _, w := range writers {
		delete(k.dirty, w)
	}
	k.mu.Unlock()
	for _, w := range writers {
		w.abandon(reprise.ErrNotFound)
	}
	q := reprise.ListQuery{Tenant: k.opts.Tenant, Namespace: namespace(session), Limit: 1000}
	for {
		page, err := k.log.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Streams {
			if err := k.log.Remove(ctx, page.Streams[i].Key); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.After = page.Next
	}
}
