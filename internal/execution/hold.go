package execution

import (
	"crypto/rand"
	"sync"
	"time"

	"reprise"
)

// Hold delays the output of a run while the follower that started the run is far behind, so that the stream does not
// trim unread output. It ends if the follower takes nothing for the time Request.Hold. It is safe for concurrent use.
type Hold struct {
	token    string
	patience time.Duration
	// events and bytes are the limits of unread output in the stream.
	events int
	bytes  int64

	mu sync.Mutex
	// receipts is set for a follower that sends receipts. Then only receipts count as progress, not sent events.
	receipts bool
	taken    uint64     // the last event that the follower was sent, or has received
	unread   []appended // the oldest first
	total    appended   // of unread
	moved    chan struct{}
	last     time.Time // when the follower took something
	lapsed   bool
	waiting  bool
}

// appended describes one append.
type appended struct {
	last   uint64
	events int
	bytes  int64
}

// byteShare is the part of the bytes that a stream may keep which may lie there unread. It is small because bytes are
// counted as the command wrote them, and escapes make them up to six times as many.
const byteShare = 8

// eventShare is the part of the bytes, divided by the 64 that the smallest event counts there, that is the number of
// events which may lie there unread.
const eventShare = 4 * 64

// newHold returns a Hold with a new token, or nil if patience disables it.
func newHold(patience time.Duration, keeps reprise.Retention) *Hold {
	if patience <= 0 {
		return nil
	}
	hd := &Hold{token: rand.Text(), patience: patience, moved: make(chan struct{}, 1)}
	hd.events = int(max(1, min(keeps.MaxEvents/2, keeps.MaxBytes/eventShare)))
	hd.bytes = max(1, keeps.MaxBytes/byteShare)
	return hd
}

// Hold returns the Hold of a run of this replica, nil if its output is not held back. It is for the follower whose
// request has started the run.
func (h *Host) Hold(tenant reprise.Tenant, id string) *Hold {
	if r := h.find(keyOf(tenant, id)); r != nil {
		return r.hold
	}
	return nil
}

// Held returns the Hold of a run for a follower that has reconnected. The token proves that the follower started the
// run.
func (h *Host) Held(tenant reprise.Tenant, id, token string) *Hold {
	if hd := h.Hold(tenant, id); hd != nil && hd.token == token {
		return hd
	}
	return nil
}

// Token returns the token that the follower presents when it reconnects.
func (hd *Hold) Token() string { return hd.token }

// AwaitReceipts makes the receipts of the follower count instead of the sent events, which may be lost in transit. It
// returns the number of events and bytes without a receipt above which the command waits.
func (hd *Hold) AwaitReceipts() (events int, bytes int64) {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	hd.receipts = true
	return hd.events, hd.bytes
}

// Sent records that the events up to seq were sent to the follower.
func (hd *Hold) Sent(seq uint64) {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if !hd.receipts {
		hd.take(seq)
	}
}

// Received records that the follower has received the events up to seq. A repeated seq is no progress.
func (hd *Hold) Received(seq uint64) {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if seq > hd.taken {
		hd.take(seq)
	}
}

// take removes the events up to seq from the unread ones. The caller holds mu.
func (hd *Hold) take(seq uint64) {
	hd.last, hd.taken = time.Now(), max(hd.taken, seq)
	n := 0
	for n < len(hd.unread) && hd.unread[n].last <= seq {
		hd.total.events -= hd.unread[n].events
		hd.total.bytes -= hd.unread[n].bytes
		n++
	}
	if hd.unread = hd.unread[n:]; n > 0 && hd.waiting {
		select {
		case hd.moved <- struct{}{}:
		default:
		}
	}
}

// add counts appended events, unless the follower has already read them.
func (hd *Hold) add(a appended) {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if !hd.lapsed && a.last > hd.taken {
		hd.unread = append(hd.unread, a)
		hd.total.events += a.events
		hd.total.bytes += a.bytes
	}
}

// allows reports whether a may be appended now. Where all was read anything may.
func (hd *Hold) allows(a appended) bool {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	hd.waiting = !hd.lapsed && len(hd.unread) > 0 &&
		(hd.total.events+a.events > hd.events || hd.total.bytes+a.bytes > hd.bytes)
	return !hd.waiting
}

// fits returns how many of events, at least one, may be appended together: a quarter of the limit of unread output. A
// larger append could trim the events just before it, or would have to wait until all of them were read.
func (hd *Hold) fits(events []reprise.Event) int {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if hd.lapsed {
		return len(events)
	}
	n, size := 0, int64(0)
	for n < min(len(events), max(1, hd.events/4)) {
		size += int64(len(events[n].Data))
		if n > 0 && size > hd.bytes/4 {
			break
		}
		n++
	}
	return n
}

// left returns the time that remains until the Hold ends.
func (hd *Hold) left(since time.Time) time.Duration {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	if hd.last.After(since) {
		since = hd.last
	}
	return hd.patience - time.Since(since)
}

// lapse ends the Hold permanently.
func (hd *Hold) lapse() {
	hd.mu.Lock()
	defer hd.mu.Unlock()
	hd.lapsed, hd.unread, hd.total = true, nil, appended{}
}

// holdBack waits until a may be appended: until the follower has read enough, was waited for long enough, or the run is
// to end.
func (r *Run) holdBack(a appended) {
	since := time.Now()
	for !r.hold.allows(a) {
		left := r.hold.left(since)
		if left <= 0 {
			r.hold.lapse()
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-r.hold.moved:
		case <-timer.C:
		case <-r.Stopping():
			r.hold.lapse()
		case <-r.host.ctx.Done():
			r.hold.lapse()
		}
		timer.Stop()
	}
}
