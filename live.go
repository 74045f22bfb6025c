package reprise

import (
	"context"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// live is a stream in memory: its state, its hot tail, and the waiting readers.
//
// Fields that only the lane touches need no lock, because the lane has one commit at a time. Fields that others read
// as well are guarded by mu. Only the lane writes them, so the lane reads them without the lock.
type live struct {
	key       StreamKey
	retention Retention // with the defaults filled in
	charged   *tally    // usage of the account or tenant that the stream is charged to

	lane *lane

	// Used only by the lane. staged is the index of the batch in lane.batches, plus 1; 0 if nothing is staged.
	// backSince is when the store was first seen in an epoch that the stream had left, zero if it is not in one.
	staged    int
	sizes     sizeIndex
	backSince time.Time

	reads sharedReads

	mu   sync.Mutex
	info StreamInfo
	// doubts counts the commits whose result in the store is unknown, settled those that were resolved since.
	// While they differ, the store may hold more than info says.
	doubts, settled uint64
	// held is closed at the end of an operation on the store during which no append may be staged; nil without one.
	held chan struct{}
	// blocks is the hot tail, oldest first, without a hole up to info.Tail.
	blocks   []*block
	hotBytes int
	// newest is the last of blocks, nil without one. The lane reads it without mu, since another lane may cool the
	// stream.
	newest atomic.Pointer[block]
	// wake is closed when the tail moves; nil while no reader waits.
	wake chan struct{}
	// notify holds the functions to call when the tail moves, see Reader.Notify.
	notify  []reminder
	readers int
	// gone is the reason why the stream cannot be used any more, or errEvicted.
	gone error
	used bool // since the last eviction
	// watched is set while the store notifies about the stream, visited if the stream had a reader since the last
	// check.
	watched, visited bool
	// tags are the tags of the cursors, by key; suffix is ".<epoch>.<tag>" with the first. They are computed on demand.
	tags   []string
	suffix string
	// lost are epochs in which this Log has seen the stream, and which are not in the lineage that its Store keeps.
	// There are at most MaxLineage.
	lost []lostEpoch
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newLive(info StreamInfo, defaults Retention, charged *tally, lane *lane) *live {
	lv := &live{key: info.Key, info: info, charged: charged, lane: lane, used: true}
	lv.retention = info.Config.Retention.or(defaults)
	lv.sizes.reset(&info)
	return lv
}

// fill sets the hot tail of a stream that no other goroutine knows yet to the events that it was created with.
func (l *Log) fill(lv *live, filled *staged) {
	filled.block.buf, filled.block.ends = filled.buf, filled.ends
	lv.push(filled.block)
	l.hotBytes.Add(int64(lv.hotBytes))
	lv.sizes = sizeIndex{}
	lv.sizes.add(lv.info.Tail, lv.info.Bytes)
}

// currentEpoch returns the current epoch of the stream.
func (lv *live) currentEpoch() Epoch {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	return lv.info.Epoch
}

// state returns a copy of the state of the stream.
func (lv *live) state() StreamInfo {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	return lv.info
}

// continues reports whether the stream is the same one as before, in the same epoch or a later one.
func (lv *live) continues(before *live) bool {
	old, now := before.state(), lv.state()
	_, _, same := now.sharedWith(&old)
	return same
}

// lostEpoch is an epoch of a stream that its Store has lost: the change to it was taken back with its events.
type lostEpoch struct {
	epoch, parent Epoch
	fork          uint64 // the last seq that it shares with parent and what followed parent instead
}

// forkOf is StreamInfo.ForkOf and knows lost epochs too. The caller holds mu.
func (lv *live) forkOf(epoch Epoch) (fork uint64, ok bool) {
	if fork, ok = lv.info.ForkOf(epoch); ok {
		return fork, true
	}
	for _, l := range lv.lost {
		if l.epoch == epoch {
			fork, ok = lv.forkOf(l.parent)
			return min(fork, l.fork), ok
		}
	}
	return 0, false
}

// remember keeps the epochs that are lost in info, the new state of the stream. The caller holds mu.
func (lv *live) remember(info *StreamInfo) {
	common, _, ok := info.sharedWith(&lv.info)
	if !ok || common == lv.info.Epoch {
		return
	}
	old := lv.info.Lineage
	first := slices.IndexFunc(old, func(a Ancestor) bool { return a.Epoch == common })
	fork, _ := info.ForkOf(common)
	for i := first; i < len(old); i++ {
		next := lv.info.Epoch
		if i+1 < len(old) {
			next = old[i+1].Epoch
		}
		fork = min(fork, old[i].Fork)
		lv.lost = append(lv.lost, lostEpoch{epoch: next, parent: common, fork: fork})
	}
	lv.lost = slices.Delete(lv.lost, 0, max(0, len(lv.lost)-MaxLineage))
}

// isStale reports whether the store may hold more than info says. The caller is the lane or holds mu.
func (lv *live) isStale() bool { return lv.doubts != lv.settled }

func (lv *live) hasEnded() bool {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	return lv.info.End != nil
}

// changed returns a channel that is closed when there are events after seq next-1. The caller holds mu.
func (lv *live) changed(next uint64) <-chan struct{} {
	if lv.hasChanged(next) {
		return closedChan
	}
	if lv.wake == nil {
		lv.wake = make(chan struct{})
	}
	return lv.wake
}

// hasChanged reports whether a reader whose next event is seq next has something to poll. The caller holds mu.
func (lv *live) hasChanged(next uint64) bool {
	return lv.gone != nil || next <= lv.info.Tail || lv.info.End != nil
}

// wakeAll wakes all waiting readers. The caller holds mu.
func (lv *live) wakeAll() {
	if lv.wake != nil {
		close(lv.wake)
		lv.wake = nil
	}
	if len(lv.notify) > 0 {
		go callAll(lv.notify)
		lv.notify = nil
	}
}

// reminder is the function that a waiting Reader has passed to Notify.
type reminder struct {
	reader *Reader
	f      func()
}

// remind lets wakeAll call f for r, in place of an earlier function. The caller holds mu.
func (lv *live) remind(r *Reader, f func()) {
	if lv.reminds(r) {
		lv.notify[r.place].f = f
		return
	}
	r.place = len(lv.notify)
	lv.notify = append(lv.notify, reminder{r, f})
}

// forget takes the function of r back, if it has one. The caller holds mu.
func (lv *live) forget(r *Reader) {
	if !lv.reminds(r) {
		return
	}
	last := len(lv.notify) - 1
	moved := lv.notify[last]
	lv.notify[r.place], moved.reader.place = moved, r.place
	lv.notify[last] = reminder{}
	lv.notify = lv.notify[:last]
}

// reminds reports whether the function of r is in notify. The caller holds mu.
func (lv *live) reminds(r *Reader) bool {
	return r.place < len(lv.notify) && lv.notify[r.place].reader == r
}

func callAll(notify []reminder) {
	for _, n := range notify {
		n.f()
	}
}

// retire makes the stream unusable and gives its readers the reason. It returns the bytes of the hot tail.
func (lv *live) retire(why error) (freed int64) {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	if lv.gone == nil {
		lv.gone = why
	}
	lv.wakeAll()
	return lv.cool()
}

// push adds a block to the hot tail. The caller holds mu.
func (lv *live) push(b *block) {
	lv.blocks = append(lv.blocks, b)
	lv.hotBytes += cap(b.buf)
	lv.newest.Store(b)
}

// cool drops the hot tail. The caller holds mu.
func (lv *live) cool() (freed int64) {
	freed = int64(lv.hotBytes)
	lv.blocks, lv.hotBytes = nil, 0
	lv.newest.Store(nil)
	return freed
}

// hot returns the events from seq next on that are adjacent in memory, or an empty run. The caller holds mu.
func (lv *live) hot(next uint64) Events {
	if len(lv.blocks) == 0 || next < lv.blocks[0].first {
		return Events{}
	}
	last := len(lv.blocks) - 1
	b := lv.blocks[last]
	if next < b.first {
		i := sort.Search(last, func(i int) bool { return lv.blocks[i].first > next })
		b = lv.blocks[i-1]
	}
	return b.eventsFrom(next, lv.suffix)
}

// trimHot drops the oldest blocks until at most limit bytes are left, and those before the window. The newest block
// stays. The caller holds mu.
func (lv *live) trimHot(limit int) (freed int64) {
	before, n := lv.hotBytes, 0
	for n < len(lv.blocks)-1 && (lv.hotBytes > limit || lv.blocks[n].last() < lv.info.Earliest) {
		lv.hotBytes -= cap(lv.blocks[n].buf)
		n++
	}
	if n > 0 {
		clear(lv.blocks[:n])
		lv.blocks = lv.blocks[n:]
	}
	return int64(before - lv.hotBytes)
}

// sign computes the tags of the cursors, once. The caller holds mu.
func (lv *live) sign(keys *Keyset) {
	if lv.tags == nil {
		lv.tags = keys.cursorTags(lv.key, lv.info.Epoch)
		lv.suffix = "." + string(lv.info.Epoch) + "." + lv.tags[0]
	}
}

// cursor returns the cursor just after seq. The caller holds mu and has called sign.
func (lv *live) cursor(seq uint64) Cursor {
	return Cursor{Seq: seq, Epoch: lv.info.Epoch, Tag: lv.tags[0]}
}

// windowError returns the refusal of asked. The caller holds mu and has called sign.
func (lv *live) windowError(reason WindowReason, asked Cursor) *WindowError {
	err := &WindowError{
		Reason: reason, Asked: asked,
		Earliest: lv.cursor(lv.info.Earliest - 1), Tail: lv.cursor(lv.info.Tail),
	}
	if reason == EpochChanged {
		fork, _ := lv.forkOf(asked.Epoch)
		err.Fork = lv.cursor(fork)
	}
	return err
}

// locate checks a position and returns the seq of the first event after it. The
// caller holds mu.
func (lv *live) locate(at Position, keys *Keyset) (uint64, error) {
	if lv.gone != nil {
		return 0, lv.gone
	}
	lv.sign(keys)
	c := &at.cursor
	switch {
	case at.tail:
		return lv.info.Tail + 1, nil
	case c.IsZero():
		return lv.info.Earliest, nil
	}
	if err := lv.verify(c, keys); err != nil {
		return 0, err
	}
	switch {
	case c.Seq > lv.info.Tail:
		return 0, lv.windowError(CursorAhead, *c)
	case c.Seq+1 < lv.info.Earliest:
		return 0, lv.windowError(CursorExpired, *c)
	}
	return c.Seq + 1, nil
}

// verify checks that c is a cursor of this stream whose history is part of the current one. The caller holds mu and
// has called sign.
func (lv *live) verify(c *Cursor, keys *Keyset) error {
	if c.Epoch == lv.info.Epoch {
		if !matches(lv.tags, c.Tag) {
			return ErrCursorForeign
		}
		return nil
	}
	if !matches(keys.cursorTags(lv.key, c.Epoch), c.Tag) {
		return ErrCursorForeign
	}
	if fork, shared := lv.forkOf(c.Epoch); !shared || c.Seq > fork {
		return lv.windowError(EpochChanged, *c)
	}
	return nil
}

// evictIfFull evicts unused streams if there is no room for one more. It is called before that one is admitted, which
// might otherwise be evicted before its first use.
func (l *Log) evictIfFull(ctx context.Context) {
	l.mu.Lock()
	full := len(l.streams) >= max(l.opts.MaxStreams, l.evictAbove)
	l.mu.Unlock()
	for i := range l.lanes {
		if !full {
			return
		}
		// No commit of the lane may be under way, since it may be about to publish to one of the streams.
		_ = l.lanes[i].exclusively(ctx, func() error {
			full = l.evict(&l.lanes[i])
			return nil
		})
	}
}

// evict evicts streams of a lane until an eighth of the room is free. A stream that was used since the last time is
// spared the first time, one with readers always. If too many remain, the next attempt is made after an eighth more
// have come, so that not every new stream costs a look at all of them. It returns true if there are still too many.
func (l *Log) evict(lane *lane) (full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	enough := l.opts.MaxStreams - l.opts.MaxStreams/8
	for range 2 {
		for key, lv := range l.streams {
			if len(l.streams) <= enough {
				break
			}
			if lv.lane != lane {
				continue
			}
			lv.mu.Lock()
			if lv.readers == 0 && !lv.used && lv.held == nil {
				lv.gone = errEvicted // its handles look up the stream again
				l.hotBytes.Add(-lv.cool())
				delete(l.streams, key)
			}
			lv.used = false
			lv.mu.Unlock()
		}
	}
	l.evictAbove = len(l.streams) + l.opts.MaxStreams/8
	return len(l.streams) > enough
}

// coolIfFull drops the hot tails of unused streams, and all but the newest block of the others, until an eighth of the
// room for hot tails is free. As with evict, a failed attempt is not repeated for each event.
func (l *Log) coolIfFull() {
	room := l.opts.TailTotalBytes
	if l.hotBytes.Load() <= max(room, l.coolAbove.Load()) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lv := range l.streams {
		if l.hotBytes.Load() <= room-room/8 {
			break
		}
		lv.mu.Lock()
		if lv.readers == 0 && !lv.used {
			l.hotBytes.Add(-lv.cool())
		} else {
			l.hotBytes.Add(-lv.trimHot(0))
		}
		lv.used = false
		lv.mu.Unlock()
	}
	l.coolAbove.Store(l.hotBytes.Load() + room/8)
}
