package reprise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"reprise/internal/backoff"
)

// A Log on a Watcher is a replica: others append to the same streams. What it holds in
// memory is then what the store had at some time, and is brought up to date
//
//   - before a reader is opened, Info answers, or a position is refused as beyond the tail,
//   - when the store tells that the stream has moved, as long as it has readers,
//   - when the store refuses an append because another replica was first,
//   - when a commit has failed and the store may have kept its events, on stores that are not shared too.
//
// Events that others appended go into the hot tail like our own, so that they are read from
// the store once for all readers.

// Shared reports whether other replicas may append to the streams of the Store.
func (l *Log) Shared() bool { return l.watcher != nil }

// findWatcher sets l.watcher if the store is shared. A Store around one that is not shared has the method too.
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
	// catchUpPause and catchUpPauseMax are the spans of the first and of the longest pause between two tries
	// after the store has failed.
	catchUpPause, catchUpPauseMax = 50 * time.Millisecond, 2 * time.Second
)

// sharedReads are the reads that bring a stream up to date. A caller gets the result of a read that began after its
// call, and shares it with all waiting callers.
type sharedReads struct {
	mu      sync.Mutex
	running bool
	next    *sharedRead
}

type sharedRead struct {
	done chan struct{}
	info StreamInfo // as the store has it
	err  error
}

// refresh brings lv up to what the store has now. The error is errEvicted, ErrNotFound or ErrExpired if the
// stream has gone, or that of the store.
func (l *Log) refresh(ctx context.Context, lv *live) error {
	_, err := l.look(ctx, lv)
	return err
}

// look is refresh and returns what the store has. lv.info may be no state that the store ever had: a commit of ours
// moves the tail alone, a trim of ours the start of the window alone, whatever other replicas have done to the other.
func (l *Log) look(ctx context.Context, lv *live) (StreamInfo, error) {
	reads := &lv.reads
	reads.mu.Lock()
	if reads.next == nil {
		reads.next = &sharedRead{done: make(chan struct{})}
	}
	read := reads.next
	if !reads.running {
		if !l.background.start(func(ctx context.Context) { l.runReads(ctx, lv) }) {
			reads.mu.Unlock()
			return StreamInfo{}, ErrClosed
		}
		reads.running = true
	}
	reads.mu.Unlock()
	select {
	case <-read.done:
		return read.info, read.err
	case <-ctx.Done():
		return StreamInfo{}, context.Cause(ctx)
	}
}

// runReads does one read after the other while callers wait.
func (l *Log) runReads(ctx context.Context, lv *live) {
	reads := &lv.reads
	for {
		reads.mu.Lock()
		read := reads.next
		reads.next = nil
		reads.running = read != nil
		reads.mu.Unlock()
		if read == nil {
			return
		}
		read.err = l.guard(func() (err error) {
			read.info, err = l.catchUp(ctx, lv)
			return err
		})
		close(read.done)
	}
}

// catchUp reads what the store has after the tail that is known, and adopts it.
func (l *Log) catchUp(ctx context.Context, lv *live) (StreamInfo, error) {
	for range catchUpTries {
		known, doubts := lv.known()
		page, err := l.readLive(ctx, lv, known, pageBytes)
		if err != nil {
			return StreamInfo{}, err
		}
		overtaken := false
		err = lv.lane.exclusively(ctx, func() (err error) {
			overtaken, err = lv.adopt(known, doubts, &page)
			return err
		})
		if !overtaken || err != nil {
			return page.Info, err
		}
	}
	return StreamInfo{}, fmt.Errorf("%w: the window moves faster than it can be read", ErrUnavailable)
}

// readLive reads events of a stream that is in memory, and drops it if the store has it no more.
func (l *Log) readLive(ctx context.Context, lv *live, after uint64, maxBytes int) (Page, error) {
	page, err := l.readPage(ctx, lv.key, after, maxBytes)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired) {
		err = errors.Join(l.drop(ctx, lv, err), err)
	}
	return page, err
}

// known is the tail that readers may see, and how many commits have been in doubt.
func (lv *live) known() (tail, doubts uint64) {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	return lv.info.Tail, lv.doubts
}

// drop puts a stream out of memory for good, after a look-up under way that may have found it before it went.
func (l *Log) drop(ctx context.Context, lv *live, why error) error {
	unlock, err := l.loading.lock(ctx, lv.key)
	if err != nil {
		return err
	}
	defer unlock()
	return lv.lane.do(ctx, &call{fn: func() error {
		l.forget(lv, why)
		return nil
	}})
}

// dropUnlessRenewed drops a stream that the store has in another epoch, unless that epoch continues its history.
func (l *Log) dropUnlessRenewed(ctx context.Context, lv *live) error {
	err := l.refresh(ctx, lv)
	if lv.isGone() {
		return nil
	}
	return err
}

// adopt takes over what was read after the event known, when doubts commits had been in doubt. overtaken is true if a
// trim by this Log came in between, so that the page has an older window. No commit of the lane is under way.
func (lv *live) adopt(known, doubts uint64, page *Page) (overtaken bool, err error) {
	if lv.gone != nil {
		return false, lv.gone
	}
	info := &page.Info
	if err := lv.checkLife(known, info); err != nil {
		return false, err
	}
	wasStale := lv.isStale()
	switch {
	case info.Epoch != lv.info.Epoch:
		lv.renew(info)
	case info.Tail <= lv.info.Tail && info.Earliest <= lv.info.Earliest:
		// ours is newer, or the same
	case info.Tail >= lv.info.Tail && info.Earliest >= lv.info.Earliest:
		lv.extend(page)
	case info.Tail < lv.info.Tail: // a commit of ours was published after another replica had trimmed
		lv.trimmed(info.Earliest)
	default:
		return true, nil
	}
	if wasStale { // what was staged for the commit in doubt has changed the sizes
		lv.settle(doubts, info)
	}
	return false, nil
}

// extend takes over a later state of the same epoch.
func (lv *live) extend(page *Page) {
	log, info := lv.lane.log, &page.Info
	fresh := lv.freshBlocks(page)
	log.usage.add(lv.charged, grown(&lv.info, info))
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
	lv.trimHot(log.opts.TailBytes)
	log.hotBytes.Add(int64(lv.hotBytes - before))
	lv.wakeAll()
}

// settle ends the doubt about what the store has kept, if no commit has come into doubt since it was asked.
func (lv *live) settle(doubts uint64, info *StreamInfo) {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	lv.settled = max(lv.settled, doubts)
	if !lv.isStale() {
		lv.lane.log.usage.add(lv.charged, amount{bytes: info.Bytes - lv.info.Bytes})
		lv.info.Bytes = info.Bytes
		lv.sizes.reset(info)
	}
}

// renew goes on in the epoch that the store has put the stream into. Readers that are beyond the fork are told.
func (lv *live) renew(info *StreamInfo) {
	log := lv.lane.log
	log.usage.add(lv.charged, grown(&lv.info, info))
	lv.sizes.reset(info)
	lv.mu.Lock()
	defer lv.mu.Unlock()
	if fork, _ := info.ForkOf(lv.info.Epoch); fork < lv.info.Tail {
		log.opts.Logger.Error("the store has lost events that it had acknowledged",
			"stream", lv.key.String(), "kept", fork, "acknowledged", lv.info.Tail)
	}
	lv.info = *info
	lv.tags, lv.suffix = nil, ""
	lv.sign(log.opts.Keys)
	log.hotBytes.Add(-lv.cool())
	lv.wakeAll()
}

// freshBlocks makes hot blocks of the batches of a page that follow the known tail and reach up to the new
// one; nil if they do not. It keeps lv.sizes right.
func (lv *live) freshBlocks(page *Page) []*block {
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

// checkLife checks that what the store tells is a later state of the same stream, and drops the stream
// from memory if not. known is a tail that was known before the store was asked: a Store that has lost
// acknowledged events in the same epoch breaks its contract, and the stream is not to be used any more.
func (lv *live) checkLife(known uint64, info *StreamInfo) error {
	log := lv.lane.log
	if info.Epoch == lv.info.Epoch && info.Tail < known {
		log.opts.Logger.Error("the store has lost events that it had acknowledged, and goes on in the same epoch",
			"stream", lv.key.String(), "tail", info.Tail, "acknowledged", known)
	} else if _, same := info.ForkOf(lv.info.Epoch); same {
		return nil
	}
	log.forget(lv, ErrNotFound)
	return ErrNotFound
}

// watch starts to follow a stream for its readers, unless it is followed already. The caller holds lv.mu.
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
	pause := backoff.Backoff{First: catchUpPause, Most: catchUpPauseMax}
	for {
		err := l.refresh(ctx, lv)
		if err == nil {
			return true
		}
		if lv.isGone() || pause.Wait(ctx) != nil {
			return false
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
