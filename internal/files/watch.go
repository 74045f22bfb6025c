package files

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"reprise"
)

// WatchNamespace is the namespace of the streams of watches.
const WatchNamespace = "watch:"

// WatchOptions are the settings of Watches. The zero value of each field means its default.
type WatchOptions struct {
	// Interval is the shortest time between two scans of a directory; slow scans lengthen it. Default: 500 ms.
	Interval time.Duration
	// Linger is how long a directory is scanned after its last reader has gone. Default: 1 minute.
	Linger time.Duration
	// Forget is how long a watch without readers is kept. Default: 24 hours.
	Forget time.Duration
	// MaxWatches bounds the watched directories, MaxEntries the entries below one. Defaults: 64, 50,000.
	MaxWatches, MaxEntries int
	// Logger receives errors. Default: silent.
	Logger *slog.Logger
}

func (o *WatchOptions) withDefaults() WatchOptions {
	var d WatchOptions
	if o != nil {
		d = *o
	}
	d.Interval = cmp.Or(d.Interval, 500*time.Millisecond)
	d.Linger = cmp.Or(d.Linger, time.Minute)
	d.Forget = cmp.Or(d.Forget, 24*time.Hour)
	d.MaxWatches = cmp.Or(d.MaxWatches, 64)
	d.MaxEntries = cmp.Or(d.MaxEntries, 50_000)
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// Watches turn changes below directories into streams of events. The name of a watch is derived from its directory, so
// that all who watch the same directory read the same stream.
//
// The last state of a directory is kept in a file. So a watch continues after a restart, and after a time without
// readers, with the difference. A server that was killed may report the changes of its last seconds again.
type Watches struct {
	roots *Roots
	log   *reprise.Log
	dir   string
	opts  WatchOptions

	done context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	active map[string]*watch
}

// Watch is the watch of a directory.
type Watch struct {
	// ID identifies the watch.
	ID string
	// Path is the directory, Recursive whether everything below it is watched too.
	Path      string
	Recursive bool
	// Cursor is the current position: all later events come after it.
	Cursor reprise.Cursor
}

// OpenWatches returns the watches of roots, whose streams are in log and whose states are files in dir, which is
// created if it is missing. The caller closes log and roots after the Watches. opts may be nil.
func OpenWatches(log *reprise.Log, roots *Roots, dir string, opts *WatchOptions) (*Watches, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	w := &Watches{roots: roots, log: log, dir: dir, opts: opts.withDefaults(), active: map[string]*watch{}}
	w.done, w.end = context.WithCancel(context.Background())
	w.work.Go(w.forgetAll)
	return w, nil
}

// Close stops all scans. The streams stay.
func (w *Watches) Close() error {
	w.end()
	w.work.Wait()
	return nil
}

// watchID returns the id of the watch of a directory.
func watchID(p string, recursive bool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%t %s", recursive, p))
	return hex.EncodeToString(sum[:16])
}

func watchKey(id string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: WatchNamespace + id}
}

// Start watches a directory, or finds its existing watch. The error is a *FieldError if p is not a directory or has too
// many entries, and wraps reprise.ErrQuota if too many directories are watched.
func (w *Watches) Start(ctx context.Context, p string, recursive bool) (Watch, error) {
	in, rel, err := w.roots.resolve("path", p)
	if err != nil {
		return Watch{}, err
	}
	dir, _, err := in.names(rel)
	if err != nil {
		return Watch{}, mapped(p, err)
	}
	dir.Close()
	id := watchID(p, recursive)
	stream, release, err := w.follow(ctx, id, &saved{Path: []byte(p), Recursive: recursive})
	if err != nil {
		return Watch{}, err
	}
	defer release()
	info, err := stream.Info(ctx)
	if err != nil {
		return Watch{}, err
	}
	_, tail := w.log.Window(&info)
	return Watch{ID: id, Path: p, Recursive: recursive, Cursor: tail}, nil
}

// Follow returns the stream of a watch. The directory is scanned until release is called, and for a while longer. The
// error wraps reprise.ErrNotFound for an unknown watch.
func (w *Watches) Follow(ctx context.Context, id string) (stream *reprise.Stream, release func(), err error) {
	return w.follow(ctx, id, nil)
}

// follow is Follow with the settings for a watch that does not exist yet.
func (w *Watches) follow(ctx context.Context, id string, fresh *saved) (
	_ *reprise.Stream, release func(), err error,
) {
	if len(id) != 32 || filepath.Base(id) != id {
		return nil, nil, noWatch(id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done.Err() != nil {
		return nil, nil, reprise.ErrClosed
	}
	one := w.active[id]
	if one == nil {
		one, err = w.wake(ctx, id, fresh)
	}
	if errors.Is(err, reprise.ErrNotFound) && fresh == nil {
		return w.ended(ctx, id)
	}
	if err != nil {
		return nil, nil, err
	}
	one.readers++
	one.busy = time.Now()
	return one.stream, sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		one.readers--
		one.busy = time.Now()
	}), nil
}

// ended returns the stream of a watch that has failed, so that its end can be read.
func (w *Watches) ended(ctx context.Context, id string) (*reprise.Stream, func(), error) {
	stream, err := w.log.Stream(ctx, watchKey(id))
	if err != nil {
		return nil, nil, noWatch(id)
	}
	info, err := stream.Info(ctx)
	if err != nil || info.End == nil {
		return nil, nil, noWatch(id)
	}
	return stream, func() {}, nil
}

func noWatch(id string) error { return fmt.Errorf("%w: there is no watch %q", reprise.ErrNotFound, id) }

// wake starts to scan a directory. w.mu is held.
func (w *Watches) wake(ctx context.Context, id string, fresh *saved) (*watch, error) {
	if len(w.active) >= w.opts.MaxWatches {
		return nil, fmt.Errorf("%w: %d directories are watched", reprise.ErrQuota, len(w.active))
	}
	last, err := w.load(id)
	stream, serr := w.log.Stream(ctx, watchKey(id))
	var seen state
	switch {
	case err == nil && serr == nil:
		seen = last.state()
	case serr != nil && !isAbsent(serr):
		return nil, serr
	case fresh == nil:
		return nil, noWatch(id)
	default: // its saved state is incomplete, so the stream must not be continued
		last = fresh
		if stream, seen, err = w.create(ctx, id, fresh); err != nil {
			return nil, err
		}
	}
	in, rel, err := w.roots.resolve("path", string(last.Path))
	if err != nil {
		return nil, err
	}
	one := &watch{of: w, id: id, in: in, rel: rel, stream: stream, last: last, seen: seen, busy: time.Now()}
	w.active[id] = one
	w.work.Go(one.run)
	return one, nil
}

// create creates the stream of a watch and saves the current state of the directory.
func (w *Watches) create(ctx context.Context, id string, of *saved) (*reprise.Stream, state, error) {
	in, rel, err := w.roots.resolve("path", string(of.Path))
	if err != nil {
		return nil, nil, err
	}
	found, err := in.look(ctx, rel, of.Recursive, w.opts.MaxEntries)
	if errors.Is(err, errTooMany) {
		return nil, nil, &FieldError{"path", fmt.Sprintf("there are more than %d entries below it", w.opts.MaxEntries)}
	}
	if err != nil {
		return nil, nil, mapped(string(of.Path), err)
	}
	if err := w.log.Remove(ctx, watchKey(id)); err != nil && !isAbsent(err) {
		return nil, nil, err
	}
	if err := w.save(id, of, found); err != nil {
		return nil, nil, err
	}
	stream, _, err := w.log.Create(ctx, watchKey(id), reprise.StreamConfig{})
	return stream, found, err
}

func isAbsent(err error) bool {
	return errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired)
}

// Remove removes a watch. Its readers are told that it does not exist. Removing an unknown watch is not an error.
func (w *Watches) Remove(ctx context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.active[id]; one != nil {
		one.removed = true
		delete(w.active, id)
	}
	return w.remove(ctx, id)
}

// remove removes the stream and the state of an inactive watch.
func (w *Watches) remove(ctx context.Context, id string) error {
	if len(id) != 32 || filepath.Base(id) != id {
		return nil
	}
	err := w.log.Remove(ctx, watchKey(id))
	if isAbsent(err) {
		err = nil
	}
	if ferr := os.Remove(w.file(id)); !errors.Is(ferr, os.ErrNotExist) {
		err = errors.Join(err, ferr)
	}
	return err
}

// forgetAll removes watches without readers, now and every hour.
func (w *Watches) forgetAll() {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		names, _ := filepath.Glob(filepath.Join(w.dir, "*"+savedSuffix))
		for _, name := range names {
			w.forget(name)
		}
		select {
		case <-tick.C:
		case <-w.done.Done():
			return
		}
	}
}

func (w *Watches) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := filepath.Base(name[:len(name)-len(savedSuffix)])
	info, err := os.Stat(name)
	if err != nil || w.active[id] != nil || time.Since(info.ModTime()) < w.opts.Forget {
		return
	}
	if err := w.remove(w.done, id); err != nil && w.done.Err() == nil {
		w.opts.Logger.Warn("a watch that nobody reads was not removed", "watch", id, "error", err)
	}
}
