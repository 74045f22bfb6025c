package archive

import (
	"context"
	"errors"
	"sync"
	"time"

	"reprise"
)

// Keeper is a Store around a live one of which no stream is lost to a sweep: it archives by
// itself what has ended and is about to expire, and what was not archived is not swept.
// Where the archive can be read, what the live store answers with ErrExpired or
// ErrNotFound is read from there.
//
// A stream is swept up to Options.Every and some seconds later than it expires, and later as long as the archive or
// the live store is unavailable: then nothing is swept that expires after the stream that could not be
// archived. A stream that the live store cannot read, now and ever, is logged at each pass and keeps nothing back.
//
// A stream from the archive has Bytes 0, for the live store keeps none of it, and is not listed. Its
// name is free: Create makes a new stream. A stream that is removed before it was archived is gone; what
// was archived stays in the archive, and is read again, for a Keeper removes nothing there. For a stream that
// never was, the archive is asked too.
//
// Among replicas each has its Keeper. Their clocks must not differ by more than 5 seconds, and
// an end with a time in the past, of a copied stream for example, may be swept by another replica before
// it is archived.
type Keeper struct {
	live     reprise.Store
	sink     Sink
	behind   reprise.Store // nil for a Sink that cannot be read
	opts     Options
	archiver *Archiver

	passing sync.Mutex    // held by a pass
	known   map[life]bool // archived before

	mu sync.Mutex
	// sweepable is the latest expiry that may be swept; zero before the first pass.
	sweepable time.Time
	// ended is the earliest expiry of the streams that ended since the last pass began, and endedBefore
	// of those that ended since the one before: their appends may still have been under way.
	ended, endedBefore time.Time

	stop   context.CancelCauseFunc
	loop   sync.WaitGroup
	closed sync.Once
}

// clockSkew is by how much the clocks of replicas may differ.
const clockSkew = 5 * time.Second

// Keep returns a Keeper of a live store and its archive, and takes ownership of both. Its first pass begins immediately
// in the background. opts may be nil.
func Keep(live reprise.Store, sink Sink, opts *Options) *Keeper {
	ctx, stop := context.WithCancelCause(context.Background())
	k := &Keeper{live: live, sink: sink, opts: opts.withDefaults(), known: map[life]bool{}, stop: stop}
	k.behind, _ = sink.(reprise.Store)
	k.archiver = New(live, sink, &k.opts)
	k.loop.Go(func() { k.passes(ctx) })
	return k
}

// passes archives again and again.
func (k *Keeper) passes(ctx context.Context) {
	ticker := time.NewTicker(k.opts.Every)
	defer ticker.Stop()
	for {
		now := time.Now()
		k.pass(ctx, now.Add(k.opts.Ahead), now.Add(-clockSkew))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// pass archives the streams that expire before horizon. Once all of them are archived, those that have expired by
// sweepable may be swept.
func (k *Keeper) pass(ctx context.Context, horizon, sweepable time.Time) {
	k.passing.Lock()
	defer k.passing.Unlock()
	k.mu.Lock()
	k.ended, k.endedBefore = time.Time{}, k.ended
	k.mu.Unlock()
	known, due := map[life]bool{}, []life(nil)
	result, err := k.archiver.Pass(ctx, func(info *reprise.StreamInfo) bool {
		l := lifeOf(info)
		switch {
		case info.End.Expires.After(horizon):
		case k.known[l]:
			known[l] = true
		default:
			due = append(due, l)
			return true
		}
		return false
	}, false)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		k.opts.Logger.Error("streams could not be listed to be archived", "error", err)
		return
	}
	failed, sweepable := k.failures(result.Failed, sweepable)
	for _, l := range due {
		if !failed[l.key] {
			known[l] = true
		}
	}
	k.known = known
	k.allow(sweepable)
}

// failures logs what could not be archived, and returns their keys, and the latest expiry that may be swept in spite of
// them.
func (k *Keeper) failures(list []Failure, sweepable time.Time) (map[reprise.StreamKey]bool, time.Time) {
	failed := map[reprise.StreamKey]bool{}
	for _, f := range list {
		failed[f.Key] = true
		k.opts.Logger.Error("a stream could not be archived", "stream", f.Key, "lost", f.Lost, "error", f.Err)
		if !f.Lost {
			sweepable = before(sweepable, f.Expires)
		}
	}
	return failed, sweepable
}

// allow permits sweeps of streams that expire by sweepable, except those that may have ended unseen.
func (k *Keeper) allow(sweepable time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweepable = sweepable
	for _, ended := range []time.Time{k.ended, k.endedBefore} {
		if !ended.IsZero() {
			k.sweepable = before(k.sweepable, ended)
		}
	}
}

// before is t, or a time just before bound if that is earlier.
func before(t, bound time.Time) time.Time {
	if t.Before(bound) {
		return t
	}
	return bound.Add(-time.Nanosecond)
}

// Sweep sweeps expired and archived streams; see reprise.Sweeper. The error is errors.ErrUnsupported if the live store
// is not a Sweeper.
func (k *Keeper) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	sweeper, ok := k.live.(reprise.Sweeper)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	k.mu.Lock()
	sweepable := k.sweepable
	k.mu.Unlock()
	if sweepable.Before(now) {
		now = sweepable
	}
	return sweeper.Sweep(ctx, now, remember, limit)
}

// Append appends to the live store.
func (k *Keeper) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	for i := range reqs {
		if reqs[i].End != nil {
			k.ends(reqs[i].End.Expires)
		}
	}
	return k.live.Append(ctx, reqs)
}

// ends keeps a stream that ends now, and may have expired by then, from being swept before a pass
// that begins from now on has seen it.
func (k *Keeper) ends(expires time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended.IsZero() || expires.Before(k.ended) {
		k.ended = expires
	}
	k.sweepable = before(k.sweepable, expires)
}

// Read reads from the live store, and from the archive if the stream is not there.
func (k *Keeper) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	page, err := k.live.Read(ctx, key, after, maxBytes)
	if k.behind == nil || !errors.Is(err, reprise.ErrExpired) && !errors.Is(err, reprise.ErrNotFound) {
		return page, err
	}
	old, errOld := k.behind.Read(ctx, key, after, maxBytes)
	if errors.Is(errOld, reprise.ErrNotFound) {
		return page, err
	}
	old.Info.Bytes = 0
	return old, errOld
}

// Create creates a stream in the live store.
func (k *Keeper) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if info.End != nil { // one that is copied
		k.ends(info.End.Expires)
	}
	return k.live.Create(ctx, info)
}

// CreateAppend creates a stream with its first batch in the live store; see reprise.CreateAppender.
func (k *Keeper) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	c, ok := k.live.(reprise.CreateAppender)
	if !ok {
		return reprise.StreamInfo{}, errors.ErrUnsupported
	}
	if first.End != nil {
		k.ends(first.End.Expires)
	}
	return c.CreateAppend(ctx, info, first)
}

// List lists the streams of the live store.
func (k *Keeper) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	return k.live.List(ctx, q)
}

// Remove removes from the live store. What is removed because it has expired is archived before.
func (k *Keeper) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if !spec.Remember.IsZero() && spec.Trim == 0 {
		page, err := k.live.Read(ctx, key, 1<<63, 0)
		if err == nil && page.Info.End != nil && (spec.Epoch == "" || spec.Epoch == page.Info.Epoch) {
			_, err = k.archiver.archive(ctx, page.Info)
		}
		if err != nil && !errors.Is(err, reprise.ErrNotFound) && !errors.Is(err, reprise.ErrExpired) &&
			!errors.Is(err, errGone) {
			return err
		}
	}
	return k.live.Remove(ctx, key, spec)
}

// Watch watches the live store; see reprise.Watcher.
func (k *Keeper) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	if w, ok := k.live.(reprise.Watcher); ok {
		return w.Watch(key, moved)
	}
	return nil, errors.ErrUnsupported
}

// Sizes returns the sizes of the live store; see reprise.Sizer.
func (k *Keeper) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	if s, ok := k.live.(reprise.Sizer); ok {
		return s.Sizes(ctx)
	}
	return nil, errors.ErrUnsupported
}

// ConcurrentAppends returns the number of the live store, or 1 if it is not a reprise.Concurrent.
func (k *Keeper) ConcurrentAppends() int {
	if c, ok := k.live.(reprise.Concurrent); ok {
		return c.ConcurrentAppends()
	}
	return 1
}

// Unwrap is the live store.
func (k *Keeper) Unwrap() reprise.Store { return k.live }

// Close ends the pass under way, and closes the live store and the archive.
func (k *Keeper) Close() (err error) {
	k.closed.Do(func() {
		k.stop(reprise.ErrClosed)
		k.loop.Wait()
		err = errors.Join(k.live.Close(), k.sink.Close())
	})
	return err
}
