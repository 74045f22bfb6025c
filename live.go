package reprise

import (
	"sort"
	"sync"
	"sync/atomic"
)

// live is a stream that is in memory: its state, its hot tail, and whom to wake.
//
// What the committer alone touches needs no lock, for one commit runs at a time.
// What readers see is guarded by mu and changes after the commit.
type live struct {
	key       StreamKey
	epoch     Epoch
	created   StreamConfig  // as it was given to Create
	retention Retention     // with the defaults filled in
	tenant    *atomic.Int64 // what the tenant keeps

	// The committer's.
	staged staged
	sizes  sizeIndex
	stale  bool // the store may hold more than info says: read it again first

	flights flights

	mu   sync.Mutex
	info StreamInfo
	// blocks is the hot tail, oldest first, without a hole up to info.Tail.
	blocks   []*block
	hotBytes int
	// wake is closed when the tail moves; nil while nobody waits.
	wake    chan struct{}
	readers int
	// gone is why the stream cannot be used any more, or errEvicted.
	gone error
	used bool // since the last look of the evictor
	// watched says that the store tells us what other replicas do to the stream, visited that it
	// had a reader since that was last asked.
	watched, visited bool
	// tags are the tags of the cursors, by key; suffix is ".<epoch>.<tag>" with the first. Made on demand.
	tags   []string
	suffix string
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newLive(info StreamInfo, defaults Retention, tenant *atomic.Int64) *live {
	lv := &live{key: info.Key, epoch: info.Epoch, created: info.Config, info: info, tenant: tenant, used: true}
	lv.retention = info.Config.Retention.or(defaults)
	lv.sizes.reset(&info)
	return lv
}

// tail is the seq of the last event that readers may see.
func (lv *live) tail() uint64 {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	return lv.info.Tail
}

func (lv *live) hasEnded() bool {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	return lv.info.End != nil
}

// changed returns a channel that is closed when there is something after seq
// next-1. The caller holds mu.
func (lv *live) changed(next uint64) <-chan struct{} {
	if lv.gone != nil || next <= lv.info.Tail || lv.info.End != nil {
		return closedChan
	}
	if lv.wake == nil {
		lv.wake = make(chan struct{})
	}
	return lv.wake
}

// wakeAll lets all waiting readers look again. The caller holds mu.
func (lv *live) wakeAll() {
	if lv.wake != nil {
		close(lv.wake)
		lv.wake = nil
	}
}

// retire makes the stream unusable; its readers learn why. It returns the bytes
// that the hot tail took.
func (lv *live) retire(why error) (freed int64) {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	if lv.gone == nil {
		lv.gone = why
	}
	lv.wakeAll()
	return lv.cool()
}

// cool forgets the hot tail. The caller holds mu.
func (lv *live) cool() (freed int64) {
	freed = int64(lv.hotBytes)
	lv.blocks, lv.hotBytes = nil, 0
	return freed
}

// hot returns the events from seq next on that are in memory together with it, or
// an empty run. The caller holds mu.
func (lv *live) hot(next uint64) Run {
	if len(lv.blocks) == 0 || next < lv.blocks[0].first {
		return Run{}
	}
	last := len(lv.blocks) - 1
	b := lv.blocks[last]
	if next < b.first {
		i := sort.Search(last, func(i int) bool { return lv.blocks[i].first > next })
		b = lv.blocks[i-1]
	}
	return b.run(next, lv.suffix)
}

// trimHot drops the oldest blocks until at most limit bytes are left, and those before
// the window. The newest block stays. The caller holds mu.
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

// sign makes the tags of the cursors, once. The caller holds mu.
func (lv *live) sign(keys *Keys) {
	if lv.tags == nil {
		lv.tags = keys.cursorTags(lv.key, lv.epoch)
		lv.suffix = "." + string(lv.epoch) + "." + lv.tags[0]
	}
}

// cursor is the cursor just after seq. The caller holds mu and has called sign.
func (lv *live) cursor(seq uint64) Cursor {
	return Cursor{Seq: seq, Epoch: lv.epoch, Tag: lv.tags[0]}
}

// windowError refuses asked. The caller holds mu and has called sign.
func (lv *live) windowError(reason WindowReason, asked Cursor) *WindowError {
	return &WindowError{
		Reason: reason, Asked: asked,
		Earliest: lv.cursor(lv.info.Earliest - 1), Tail: lv.cursor(lv.info.Tail),
	}
}

// locate checks a position and returns the seq of the first event after it. The
// caller holds mu.
func (lv *live) locate(at Position, keys *Keys) (uint64, error) {
	if lv.gone != nil {
		return 0, lv.gone
	}
	lv.sign(keys)
	switch c := at.cursor; {
	case at.tail:
		return lv.info.Tail + 1, nil
	case c.IsZero():
		return lv.info.Earliest, nil
	case c.Epoch != lv.epoch:
		if !matches(keys.cursorTags(lv.key, c.Epoch), c.Tag) {
			return 0, ErrCursorForeign
		}
		return 0, lv.windowError(EpochChanged, c)
	case !matches(lv.tags, c.Tag):
		return 0, ErrCursorForeign
	case c.Seq > lv.info.Tail:
		return 0, lv.windowError(CursorAhead, c)
	case c.Seq+1 < lv.info.Earliest:
		return 0, lv.windowError(CursorExpired, c)
	default:
		return c.Seq + 1, nil
	}
}
