package reprise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"reprise/internal/backoff"
)

// A Log on a Watcher is a replica: others append to the same streams. Its memory then holds an earlier state of the
// store, which is brought up to date
//
//   - before a reader is opened, Info returns, or a position is refused as beyond the tail,
//   - when the store notifies that the stream has moved, while it has readers,
//   - when the store refuses an append because another replica was first,
//   - when a commit has failed and the store may have kept its events, also on stores that are not shared.
//
// Events that others appended go into the hot tail like our own, so that they are read from the store once for all
// readers.

// Shared reports whether other replicas may append to the streams of the Store.
func (l *Log) Shared() bool { return l.watcher != nil }

// findWatcher sets l.watcher if the store is shared. A wrapper of an unshared Store has the method too.
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
	// watchIdle is how long a stream is watched after its last reader has left, and how often a watched stream is
	// checked without a notification.
	watchIdle = 10 * time.Second
	// catchUpTries bounds the repetitions of a read that a trim by this Log has overtaken.
	catchUpTries = 5
	// catchUpPause and catchUpPauseMax bound the pauses between two tries after a failure of the store.
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
	info StreamInfo // the state in the store
	err  error
}

// refresh brings lv up to date with the store. The error is errEvicted, ErrNotFound or ErrExpired if the stream has
// gone, or the error of the store.
func (l *Log) refresh(ctx context.Context, lv *live) error {
	_, err := l.look(ctx, lv)
	return err
}

// look is refresh and returns the state in the store. lv.info may differ from every state that the store had: a commit
// of this Log moves only the tail, and a trim only the start of the window, regardless of changes by other replicas.
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

// catchUp reads the events after the known tail from the store and adopts them.
func (l *Log) catchUp(ctx context.Context, lv *live) (StreamInfo, error) {
	for range catchUpTries {
		before := lv.known()
		page, err := l.readLive(ctx, lv, before.tail, pageBytes)
		if isDamage(ctx, err) {
			page, err = l.readLive(ctx, lv, before.tail, 0) // the state alone: readers get the error at the events
		}
		if err != nil {
			return StreamInfo{}, err
		}
		overtaken := false
		err = lv.lane.exclusively(ctx, func() (err error) {
			overtaken, err = lv.adopt(before, &page)
			return err
		})
		if !overtaken || err != nil {
			return page.Info, err
		}
	}
	return StreamInfo{}, fmt.Errorf("%w: the window moves faster than it can be read", ErrUnavailable)
}

// isDamage reports whether a read may fail again whenever it is repeated: err is neither an outage nor the end of the
// stream, of the Log or of ctx.
func isDamage(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	return !slices.ContainsFunc([]error{ErrUnavailable, ErrNotFound, ErrExpired, ErrClosed}, func(passing error) bool {
		return errors.Is(err, passing)
	})
}

// readLive reads events of a stream that is in memory, and drops the stream if it is no longer in the store.
func (l *Log) readLive(ctx context.Context, lv *live, after uint64, maxBytes int) (Page, error) {
	page, err := l.readPage(ctx, lv.key, after, maxBytes)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired) {
		err = errors.Join(l.drop(ctx, lv, err), err)
	}
	return page, err
}

// known is what is known of a stream before the store is asked: the window that readers may see, and the number of
// commits that have been in doubt.
type known struct{ earliest, tail, doubts uint64 }

func (lv *live) known() known {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	return known{lv.info.Earliest, lv.info.Tail, lv.doubts}
}

// drop evicts a stream for good, after any lookup under way that may have found it before.
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

// dropUnlessRenewed drops a stream whose epoch in the store differs, unless that epoch continues its history.
func (l *Log) dropUnlessRenewed(ctx context.Context, lv *live) error {
	err := l.refresh(ctx, lv)
	if lv.isGone() {
		return nil
	}
	return err
}

// adopt applies a page that was read after the state before was known. overtaken is true if a trim by this Log came in
// between, so that the page has an older window. No commit of the lane is under way.
func (lv *live) adopt(before known, page *Page) (overtaken bool, err error) {
	if lv.gone != nil {
		return false, lv.gone
	}
	info := &page.Info
	if err := lv.checkLife(before.tail, info); err != nil {
		return false, err
	}
	lv.backSince = time.Time{}
	if info.Revision > lv.info.Revision || info.Revision < lv.info.Revision && lv.lane.log.Shared() {
		lv.reconfigure(info) // a lower one if the store has lost a change
	}
	wasStale := lv.isStale()
	switch {
	case info.Epoch != lv.info.Epoch:
		lv.renew(info)
	case info.Earliest < before.earliest && lv.info.Earliest == before.earliest && info.Tail >= lv.info.Tail:
		lv.rewind(before.earliest, page)
	case info.Tail <= lv.info.Tail && info.Earliest <= lv.info.Earliest:
		// the state in memory is newer or the same
	case info.Tail >= lv.info.Tail && info.Earliest >= lv.info.Earliest:
		lv.extend(page)
	case info.Tail < lv.info.Tail: // this Log published a commit after another replica had trimmed
		lv.trimmed(info.Earliest)
	default:
		return true, nil
	}
	if wasStale { // staging the commit in doubt has changed the sizes
		lv.settle(before.doubts, info)
	}
	return false, nil
}

// reconfigure applies the configuration that the store has. No commit of the lane is under way.
func (lv *live) reconfigure(info *StreamInfo) {
	log := lv.lane.log
	lv.mu.Lock()
	defer lv.mu.Unlock()
	before := lv.info.Overhead()
	lv.info.Config, lv.info.Revision = info.Config, info.Revision
	if lv.info.End != nil && info.End != nil {
		lv.info.End = info.End
	}
	lv.retention = info.Config.Retention.or(log.opts.Retention)
	log.usage.add(lv.charged, amount{bytes: lv.info.Overhead() - before})
	log.idle.forget(lv.key)
	log.noteIdle(&lv.info)
}

// rewind applies a later state of the same epoch in which the window begins before trimmed, where it began before the
// store was asked: the store has lost a trim, as it may in a crash. Events that were trimmed are there again. If the
// page were refused as overtaken, no later append of another replica could be adopted.
func (lv *live) rewind(trimmed uint64, page *Page) {
	lv.lane.log.opts.Logger.Error("the store has lost a trim that it had acknowledged",
		"stream", lv.key.String(), "earliest", page.Info.Earliest, "acknowledged", trimmed)
	lv.extend(page)
	lv.sizes.reset(&page.Info)
}

// extend applies a later state of the same epoch.
func (lv *live) extend(page *Page) {
	log, info := lv.lane.log, &page.Info
	fresh := lv.freshBlocks(page)
	log.usage.add(lv.charged, grown(&lv.info, info))
	lv.mu.Lock()
	defer lv.mu.Unlock()
	before := lv.hotBytes
	if fresh == nil && info.Tail > lv.info.Tail {
		lv.cool() // the hot tail must reach up to the tail
	}
	for _, b := range fresh {
		lv.push(b)
	}
	lv.info = *info
	lv.trimHot(log.opts.TailBytes)
	log.hotBytes.Add(int64(lv.hotBytes - before))
	lv.wakeAll()
}

// settle ends the doubt about what the store has kept, unless another commit came into doubt since it was asked.
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

// renew continues in the epoch to which the store has moved the stream. Readers beyond the fork get an error.
func (lv *live) renew(info *StreamInfo) {
	log := lv.lane.log
	log.usage.add(lv.charged, grown(&lv.info, info))
	lv.sizes.reset(info)
	lv.mu.Lock()
	defer lv.mu.Unlock()
	lv.remember(info)
	if _, fork, _ := info.sharedWith(&lv.info); fork < lv.info.Tail {
		log.opts.Logger.Error("the store has lost events that it had acknowledged",
			"stream", lv.key.String(), "kept", fork, "acknowledged", lv.info.Tail)
	}
	lv.info = *info
	lv.tags, lv.suffix = nil, ""
	lv.sign(log.opts.Keys)
	log.hotBytes.Add(-lv.cool())
	lv.wakeAll()
}

// freshBlocks returns hot blocks of the batches of a page that follow the known tail and reach up to the new one, nil
// if they do not. It keeps lv.sizes right.
func (lv *live) freshBlocks(page *Page) []*block {
	batches := page.Batches
	for len(batches) > 0 && batches[0].Last() <= lv.info.Tail { // this Log published a commit meanwhile
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
			return nil // a reader that gets there reads it again and gets the error
		}
		b.buf = b.buf[:len(b.buf):len(b.buf)] // memory behind the batch belongs to the store
		b.cold = false
		fresh = append(fresh, b)
		batches = rest
	}
	return fresh
}

// checkLife checks that the state in the store is a later one of the same stream, and otherwise drops the stream from
// memory. known is a tail that was known before the store was asked: a Store that has lost acknowledged events in the
// same epoch breaks its contract, and the stream must not be used any more.
func (lv *live) checkLife(known uint64, info *StreamInfo) error {
	log := lv.lane.log
	_, _, same := info.sharedWith(&lv.info)
	_, left := lv.forkOf(info.Epoch)
	switch {
	case info.Epoch == lv.info.Epoch && info.Tail < known:
		log.opts.Logger.Error("the store has lost events that it had acknowledged, and goes on in the same epoch",
			"stream", lv.key.String(), "tail", info.Tail, "acknowledged", known)
	case info.Epoch == lv.info.Epoch:
		return nil
	case left && info.End == nil && lv.mayReturn():
		return fmt.Errorf("%w: the store is in an epoch that the stream has left", ErrUnavailable)
	case same && (!left || info.End != nil):
		return nil
	}
	log.forget(lv, ErrNotFound)
	return ErrNotFound
}

// backPatience is how long a store may be in an epoch that a stream has left, before it is taken at its word.
const backPatience = 10 * time.Second

// mayReturn reports whether a store in an epoch that the stream has left may still return to the current one. It may
// not be able to write its next epoch now. While the stream is open it must not be used in the old one, whose seqs may
// be given again. If the store stays there, the stream is dropped from memory.
func (lv *live) mayReturn() bool {
	if lv.backSince.IsZero() {
		lv.backSince = time.Now()
		lv.lane.log.opts.Logger.Error("the store is in an epoch that the stream has left", "stream", lv.key.String())
	}
	return time.Since(lv.backSince) < backPatience
}

// watch starts to watch a stream for its readers, unless it is watched already. The caller holds lv.mu.
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

// keepUp refreshes lv whenever it has moved, until it is gone or had no reader for a while.
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

// refreshSurely retries until the store has answered. Otherwise a move during a failure would be seen only at the next
// move. It returns false if the stream has gone.
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

// unwatchIfIdle stops watching a stream that is gone or had no reader since the last call.
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
