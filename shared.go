package reprise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Log on a Watcher is a replica: others append to the same streams. What it holds in
// memory is then what the store had at some time, and is brought up to date
//
//   - before a reader is opened, Info answers, or a position is refused as beyond the tail,
//   - when the store tells that the stream has moved, as long as it has readers,
//   - when the store refuses an append because another replica was first.
//
// Events that others appended go into the hot tail like our own, so that they are read from
// the store once for all readers.

// Shared reports whether other replicas may append to the streams of the Store.
func (l *Log) Shared() bool { return l.watcher != nil }

// findWatcher finds out whether the store is shared: a Store around one that is not has the method as well.
func (l *Log) findWatcher() error {
	w, ok := l.store.(Watcher)
	if !ok {
		return nil
	}
	stop, err := w.Watch(StreamKey{Tenant: SystemTenant, Name: "nobody"}, func() {})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err == nil {
		stop()
		l.watcher = w
	}
	return err
}

const (
	// watchIdle is how long a stream is watched on after its last reader has left, and how
	// often one is looked at whatever the store tells.
	watchIdle = 10 * time.Second
	// catchUpTries bounds how often a read is done anew that our own trim has overtaken.
	catchUpTries = 5
	// catchUpPause is the time to the next try after the store has failed, catchUpPauseMax the
	// longest, to which it doubles.
	catchUpPause, catchUpPauseMax = 50 * time.Millisecond, 2 * time.Second
)

// flights are the reads that bring a stream up to date. Whoever asks gets one that began
// afterwards, and shares it with all others who wait for one.
type flights struct {
	mu     sync.Mutex
	flying bool
	next   *flight
}

type flight struct {
	done chan struct{}
	err  error
}

// refresh brings lv up to what the store has now. The error is errEvicted, ErrNotFound or ErrExpired if the
// stream has gone, or that of the store.
func (l *Log) refresh(ctx context.Context, lv *live) error {
	fs := &lv.flights
	fs.mu.Lock()
	if fs.next == nil {
		fs.next = &flight{done: make(chan struct{})}
	}
	f := fs.next
	if !fs.flying {
		if !l.background.start(func(ctx context.Context) { l.fly(ctx, lv) }) {
			fs.mu.Unlock()
			return ErrClosed
		}
		fs.flying = true
	}
	fs.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fly does one read after the other while somebody waits for one.
func (l *Log) fly(ctx context.Context, lv *live) {
	fs := &lv.flights
	for {
		fs.mu.Lock()
		f := fs.next
		fs.next = nil
		fs.flying = f != nil
		fs.mu.Unlock()
		if f == nil {
			return
		}
		f.err = l.catchUp(ctx, lv)
		close(f.done)
	}
}

// catchUp reads what the store has after the tail that is known, and adopts it.
func (l *Log) catchUp(ctx context.Context, lv *live) error {
	for range catchUpTries {
		known := lv.tail()
		page, err := l.readPage(ctx, lv.key, known, pageBytes)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired) {
			why := err
			err = l.exclusively(ctx, func() error {
				l.forgetEpoch(lv.key, lv.epoch, why)
				return why
			})
		}
		if err != nil {
			return err
		}
		overtaken := false
		err = l.exclusively(ctx, func() (err error) {
			overtaken, err = l.adopt(lv, known, &page)
			return err
		})
		if !overtaken || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the window moves faster than it can be read", ErrUnavailable)
}

// adopt takes over what was read after the event known. overtaken is true if a trim of ours
// came in between, so that the page tells of an older window. No commit is under way.
func (m *commits) adopt(lv *live, known uint64, page *Page) (overtaken bool, err error) {
	if lv.gone != nil {
		return false, lv.gone
	}
	if err := m.sameLife(lv, known, &page.Info); err != nil {
		return false, err
	}
	info := &page.Info
	switch {
	case info.Tail < lv.info.Tail || info.Tail == lv.info.Tail && info.Earliest <= lv.info.Earliest:
		return false, nil // ours is newer, or the same
	case info.Earliest < lv.info.Earliest:
		return true, nil
	}
	fresh := m.freshBlocks(lv, page)
	m.usage.add(lv.tenant, info.Bytes-lv.info.Bytes)
	lv.mu.Lock()
	defer lv.mu.Unlock()
	before := lv.hotBytes
	if fresh == nil && info.Tail > lv.info.Tail {
		lv.cool() // it must reach up to the tail
	}
	for _, b := range fresh {
		lv.blocks = append(lv.blocks, b)
		lv.hotBytes += cap(b.buf)
	}
	lv.info = *info
	lv.trimHot(m.log.opts.TailBytes)
	m.log.hotBytes.Add(int64(lv.hotBytes - before))
	lv.wakeAll()
	return false, nil
}

// freshBlocks makes hot blocks of the batches of a page that follow the known tail and reach up to the new
// one; nil if they do not. It keeps lv.sizes right.
func (m *commits) freshBlocks(lv *live, page *Page) []*block {
	batches := page.Batches
	for len(batches) > 0 && batches[0].Last() <= lv.info.Tail { // a commit of ours was published meanwhile
		batches = batches[1:]
	}
	n := len(batches)
	if n == 0 || batches[0].First != lv.info.Tail+1 || batches[n-1].Last() != page.Info.Tail {
		lv.sizes.reset(&page.Info)
		return nil
	}
	for _, b := range batches {
		lv.sizes.add(b.Last(), int64(len(b.Bytes)))
	}
	lv.sizes.before(page.Info.Earliest)
	var fresh []*block
	for len(batches) > 0 {
		b, rest, err := pageBlock(batches)
		if err != nil {
			return nil // the reader that comes there reads it again, and is told
		}
		b.buf = b.buf[:len(b.buf):len(b.buf)] // what lies behind is the store's
		b.cold = false
		fresh = append(fresh, b)
		batches = rest
	}
	return fresh
}

// sameLife checks that what the store tells is a later state of the same life of the stream, and drops the
// stream from memory if not. known is a tail that was known before the store was asked: a store
// that has lost acknowledged events, in a failover for instance, has begun another life.
func (m *commits) sameLife(lv *live, known uint64, info *StreamInfo) error {
	switch {
	case info.Epoch != lv.epoch:
		m.log.forget(lv.key, ErrNotFound)
		return ErrNotFound
	case info.Tail < known:
		m.log.opts.Logger.Error("the store has lost events that it had acknowledged",
			"stream", lv.key.String(), "tail", info.Tail, "acknowledged", known)
		m.log.forget(lv.key, ErrNotFound)
		return ErrNotFound
	}
	return nil
}

// watch follows a stream for its readers if nobody does yet. The caller holds lv.mu.
func (l *Log) watch(lv *live) error {
	if l.watcher == nil || lv.watched {
		return nil
	}
	moved := make(chan struct{}, 1)
	stop, err := l.watcher.Watch(lv.key, func() {
		select {
		case moved <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	if !l.background.start(func(ctx context.Context) {
		defer stop()
		l.keepUp(ctx, lv, moved)
	}) {
		stop()
		return ErrClosed
	}
	lv.watched = true
	return nil
}

// keepUp refreshes lv whenever it has moved, until it has gone or had no reader for a while.
func (l *Log) keepUp(ctx context.Context, lv *live, moved <-chan struct{}) {
	tick := time.NewTicker(watchIdle)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-tick.C:
			if lv.unwatchIfIdle() {
				return
			}
		}
		if !l.refreshSurely(ctx, lv) {
			return
		}
	}
}

// refreshSurely tries until the store has answered; otherwise what has moved while it
// failed would be seen at the next move alone. It returns false if the stream has gone.
func (l *Log) refreshSurely(ctx context.Context, lv *live) bool {
	for pause := catchUpPause; ; pause = min(2*pause, catchUpPauseMax) {
		err := l.refresh(ctx, lv)
		if err == nil {
			return true
		}
		if lv.isGone() {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// unwatchIfIdle ends the watch of a stream that had no reader since it was last asked, or has gone.
func (lv *live) unwatchIfIdle() bool {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	if lv.gone == nil && (lv.readers > 0 || lv.visited) {
		lv.visited = false
		return false
	}
	lv.watched = false
	return true
}

func (lv *live) isGone() bool {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	return lv.gone != nil
}
