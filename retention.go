package reprise

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// makeRoom enforces the bounds of the stream and those that it shares with others for c. At its own bound the stream
// drops its oldest events. At a shared one c is refused, except for the reserve of the end: a stream that is open loses
// nothing to another, and the caller may make room; see Log.freeRoom.
func (m *lane) makeRoom(st *staged, c *call) error {
	own, others := m.over(st, c)
	if own <= 0 && others.bytes <= 0 {
		return nil
	}
	last, ok := st.live.sizes.oldest(st.earliest, own)
	if !ok {
		c.need = own
		return errUnmeasured
	}
	endAlone := c.end != nil && len(c.events)-c.skip == 1 && c.size <= endReserve
	if others.bytes > st.live.sizes.bytesBefore(last+1) && !endAlone {
		return others.refusal()
	}
	st.trim(last + 1)
	return nil
}

// over returns by how much c would exceed the bounds of the stream, and the bounds that it shares with others: those of
// its account, its tenant and the process.
func (m *lane) over(st *staged, c *call) (own int64, others excess) {
	lv, kept := st.live, st.kept+int64(c.size)
	if lv.key.Tenant != SystemTenant {
		others = m.log.usage.over(lv.charged, kept-lv.info.Bytes)
	}
	events := st.first + uint64(st.count+len(c.events)-c.skip) - st.earliest
	return kept + eventOverhead*int64(events) - lv.retention.MaxBytes, others
}

// trim moves the start of the window to earliest, if that is later.
func (st *staged) trim(earliest uint64) {
	if earliest > st.earliest {
		st.earliest = earliest
		st.kept -= st.live.sizes.before(earliest)
	}
}

// Old makes room for new: before an append or a new stream is refused by a bound that several streams share, or because
// the disk is full, streams that have ended are removed, those that ended first before the others. They are streams of
// the same tenant or, for the bound of an account, of that account. A stream that is open loses nothing to another one.
//
// The goroutine of the append removes them, outside the lane, and submits the append again. They are found by listing
// the streams of the tenant, up to endedListed of them at a time. Once all of them were found, those that end later are
// noted when they end, and the streams are not listed again. So the cost follows what is removed, and a Log that never
// reaches a bound pays nothing.

const (
	// endedListed is the number of ended streams that one list of all streams of a tenant finds.
	endedListed = 4096
	// maxEnded bounds the number of streams in all queues.
	maxEnded = 1 << 16
	// sharedEvery is the time after which the usage and the ended streams of a shared store are read again, since other
	// replicas append and end streams too.
	sharedEvery = 5 * time.Second
	// endReserve is the size of an end event that no shared bound refuses, so that a stream can always end.
	endReserve = 64 << 10
	// On a full disk, the streams that are removed at a time have this part of what the tenant keeps, and at most so
	// many bytes: what a store gives back for a single small stream may be nothing.
	diskShare, mostOfDisk = 64, 16 << 20
	// earlyEvery is the minimum time between two log lines about streams that were removed early.
	earlyEvery = time.Minute
)

// endedStreams are the ended streams that may be removed to make room.
type endedStreams struct {
	used   atomic.Bool   // a bound was reached at least once
	rounds atomic.Uint64 // how often room was made on a full disk

	mu     sync.Mutex
	queues map[accountKey]*endedQueue
	count  int       // of the streams in all queues
	told   time.Time // when a removal was last logged
}

// endedQueue is the ended streams of a tenant or an account. Its fields are guarded by endedStreams.mu.
type endedQueue struct {
	turn    chan struct{} // of size 1; held while streams of the queue are removed
	streams []endedStream // the first one ended first
	// whole is set if no ended stream is missing; noting if those that end now are added.
	whole, noting    bool
	listed, measured time.Time // when the streams were last listed, and the usage measured
	// foreign is set once another replica was found to have removed streams of the queue since the usage was measured.
	// Whoever has the turn uses it.
	foreign bool
}

type endedStream struct {
	key   StreamKey
	epoch Epoch
	at    time.Time // of the end
}

// queue returns the queue of a tenant or an account.
func (x *endedStreams) queue(of accountKey) *endedQueue {
	x.mu.Lock()
	defer x.mu.Unlock()
	q := x.queues[of]
	if q == nil {
		if x.queues == nil {
			x.queues = map[accountKey]*endedQueue{}
		}
		q = &endedQueue{turn: make(chan struct{}, 1)}
		x.queues[of] = q
		x.used.Store(true)
	}
	return q
}

// note adds a stream that has just ended.
func (x *endedStreams) note(info *StreamInfo, whose *tally) {
	if !x.used.Load() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for t := whose; t != nil; t = t.tenant {
		q := x.queues[t.key]
		switch {
		case q == nil || !q.noting:
		case x.count >= maxEnded:
			q.whole, q.noting = false, false
		default:
			q.streams = append(q.streams, endedStream{info.Key, info.Epoch, info.End.Time})
			x.count++
		}
	}
}

// next takes the stream that ended first; ok is false if there is none.
func (x *endedStreams) next(q *endedQueue) (s endedStream, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(q.streams) == 0 {
		return endedStream{}, false
	}
	s, q.streams = q.streams[0], q.streams[1:]
	x.count--
	return s, true
}

// begin empties a queue whose streams are about to be listed. It returns false if they are known.
func (x *endedStreams) begin(q *endedQueue, shared bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if q.whole && !(shared && time.Since(q.listed) >= sharedEvery) {
		return false
	}
	q.whole, q.noting = false, true
	return true
}

// add adds what a list has found. missing says that there are more ended streams. If all queues together would be too
// long, others are emptied.
func (x *endedStreams) add(q *endedQueue, found []endedStream, missing bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, other := range x.queues {
		if x.count+len(found) <= maxEnded {
			break
		}
		if other != q {
			x.count -= len(other.streams)
			other.streams, other.whole, other.noting = nil, false, false
		}
	}
	x.count += len(found)
	// What has ended since is newer than what was listed, unless that is not all.
	q.whole = !missing && q.noting
	if missing {
		x.count -= len(q.streams)
		q.streams, q.noting = nil, false
	}
	q.streams, q.listed = append(found, q.streams...), time.Now()
}

// forgetAll makes the next one who looks for streams list them again.
func (x *endedStreams) forgetAll(q *endedQueue) {
	x.mu.Lock()
	defer x.mu.Unlock()
	q.whole = false
}

// lock waits for the turn at the queue.
func (q *endedQueue) lock(ctx context.Context) error {
	select {
	case q.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// freeRoom removes ended streams until more bytes of the stream that is charged to whose fit under the bounds that it
// shares. It returns nil if they fit, and otherwise the *QuotaError of the bound. why is the refusal; for DiskFull it
// is freeDisk.
func (l *Log) freeRoom(ctx context.Context, whose *tally, more int64, why error, rounds uint64) error {
	if errors.Is(why, DiskFull) {
		return l.freeDisk(ctx, whose, more, why, rounds)
	}
	var held *endedQueue
	defer func() {
		if held != nil {
			<-held.turn
		}
	}()
	for {
		over := l.usage.over(whose, more)
		switch {
		case over.bytes <= 0:
			return nil
		case more > over.bound:
			return over.refusal()
		}
		of := accountKey{tenant: whose.key.tenant}
		if over.of != nil {
			of = over.of.key
		}
		if q := l.ended.queue(of); q != held {
			if held != nil {
				<-held.turn
			}
			held = nil
			if err := q.lock(ctx); err != nil {
				return err
			}
			held = q // others may have made room meanwhile
			if err := l.measureShared(ctx, q); err != nil {
				return err
			}
			continue
		}
		if removed, err := l.removeOldest(ctx, held, of); err != nil {
			return err
		} else if !removed && !held.foreign {
			return over.refusal()
		} else if !removed { // what others have removed is still counted
			held.measured = time.Time{}
			if err := l.measureShared(ctx, held); err != nil {
				return err
			}
		}
	}
}

// freeDisk removes some ended streams of the tenant of whose, unless others have done so since the refused call began,
// when there were so many rounds. It returns nil if the call is to be tried again, and otherwise the refusal.
func (l *Log) freeDisk(ctx context.Context, whose *tally, more int64, refusal error, rounds uint64) error {
	of := accountKey{tenant: whose.key.tenant}
	if of.tenant == SystemTenant {
		return refusal
	}
	q, tally := l.ended.queue(of), l.usage.ofTenant(of.tenant)
	if err := q.lock(ctx); err != nil {
		return err
	}
	defer func() { <-q.turn }()
	if l.ended.rounds.Load() != rounds {
		return nil
	}
	kept := tally.bytes.Load()
	goal := max(more, min(kept/diskShare, mostOfDisk))
	for freed := int64(0); freed < goal; freed = kept - tally.bytes.Load() {
		removed, err := l.removeOldest(ctx, q, of)
		if err != nil {
			return err
		}
		if !removed {
			if freed <= 0 {
				return refusal
			}
			break
		}
	}
	l.ended.rounds.Add(1)
	return nil
}

// measureShared counts the usage of a shared store again, if that was not done just now: other replicas remove streams
// to make room too.
func (l *Log) measureShared(ctx context.Context, q *endedQueue) error {
	if !l.Shared() || time.Since(q.measured) < sharedEvery {
		return nil
	}
	q.measured, q.foreign = time.Now(), false // the caller has the turn
	return l.measure(ctx)
}

// removeOldest removes the stream of a queue that ended first. It returns false if there is none.
func (l *Log) removeOldest(ctx context.Context, q *endedQueue, of accountKey) (bool, error) {
	s, ok := l.ended.next(q)
	if !ok && l.ended.begin(q, l.Shared()) {
		found, missing, err := l.listEnded(ctx, of)
		if err != nil {
			l.ended.forgetAll(q)
			return false, err
		}
		l.ended.add(q, found, missing)
		s, ok = l.ended.next(q)
	}
	if !ok || ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	err := l.background.during(func() error {
		found, err := l.removeEarly(context.WithoutCancel(ctx), &s)
		q.foreign = q.foreign || !found && l.Shared()
		return err
	})
	if err != nil {
		l.ended.forgetAll(q) // s may still be there
	}
	return err == nil, err
}

// listEnded lists the streams of a tenant or an account that ended first, up to endedListed of them. missing reports
// whether there are more.
func (l *Log) listEnded(ctx context.Context, of accountKey) (found []endedStream, missing bool, err error) {
	oldest := func() {
		slices.Reverse(found) // lists begin with the newest stream
		slices.SortStableFunc(found, func(a, b endedStream) int { return a.at.Compare(b.at) })
		if len(found) > endedListed {
			found, missing = found[:endedListed], true
		}
	}
	q := ListQuery{Tenant: of.tenant, AllNamespaces: true, Limit: 1000}
	for {
		page, err := l.store.List(ctx, q)
		if err != nil {
			return nil, false, err
		}
		for i := range page.Streams {
			info := &page.Streams[i]
			if info.End != nil && (of.name == "" || info.Config.Account() == of.name) {
				found = append(found, endedStream{info.Key, info.Epoch, info.End.Time})
			}
		}
		if len(found) >= 2*endedListed {
			oldest()
		}
		if q.After = page.Next; q.After == "" {
			oldest()
			return found, missing, nil
		}
	}
}

// removeEarly removes an ended stream as a sweep does, before its time. It does nothing if the stream is gone; found is
// false then.
func (l *Log) removeEarly(ctx context.Context, s *endedStream) (found bool, err error) {
	unlock, err := l.loading.lock(ctx, s.key) // not to be counted by Remove as well
	if err != nil {
		return false, err
	}
	info, err := l.removeUnswept(ctx, s)
	unlock()
	if info == nil || err != nil {
		return false, err
	}
	freed := charge(info)
	l.usage.add(l.usage.of(info), amount{}.minus(freed))
	if hook := l.opts.Hooks.RemovedEarly; hook != nil {
		hook(info.Key, Size{Streams: 1, Events: freed.events, Bytes: info.Bytes, Overhead: info.Overhead()})
	}
	l.tellEarly(info)
	return true, l.forgetEpoch(ctx, s.key, s.epoch, ErrExpired)
}

// removeUnswept removes an ended stream from the store, which no sweep does meanwhile. It returns the last state of the
// stream, or nil if it was not there.
func (l *Log) removeUnswept(ctx context.Context, s *endedStream) (*StreamInfo, error) {
	l.sweeping <- struct{}{}
	defer func() { <-l.sweeping }()
	page, err := l.store.Read(ctx, s.key, 1<<63, 0)
	info := &page.Info
	switch {
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
		return nil, err
	case err != nil, info.Epoch != s.epoch, info.End == nil:
		return nil, nil
	case info.Bytes == 0: // it is in an archive alone, or frees nothing
		return nil, nil
	}
	return info, l.store.Remove(ctx, s.key, RemoveSpec{Remember: now().Add(l.opts.Remember), Epoch: s.epoch})
}

// tellEarly logs that streams are removed early, once in a while.
func (l *Log) tellEarly(info *StreamInfo) {
	x := &l.ended
	x.mu.Lock()
	due := x.told.IsZero() || time.Since(x.told) >= earlyEvery
	if due {
		x.told = time.Now()
	}
	x.mu.Unlock()
	if due {
		l.opts.Logger.Warn("the store is full: ended streams are removed before their time", "tenant", info.Key.Tenant,
			"stream", info.Key.Name, "ended", info.End.Time)
	}
}

// durationLabel returns the value of a label that is a positive duration, or 0.
func (c StreamConfig) durationLabel(label string) time.Duration {
	text, ok := c.Labels[label]
	if !ok {
		return 0
	}
	bound, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return max(0, bound)
}

// maxAgeEach returns how old an event of the stream may become; 0 means any age.
func maxAgeEach(info *StreamInfo) time.Duration {
	if info.End != nil {
		return 0
	}
	return info.Config.MaxAgeEach()
}

// expireEvents removes the events of a stream that are older than bound. It returns the time at which the next one is.
func (l *Log) expireEvents(ctx context.Context, info *StreamInfo, bound time.Duration, result *SweepResult) (
	due time.Time, err error,
) {
	at := now()
	young, bytes, oldest, err := l.firstYoung(ctx, info, at.Add(-bound))
	if err != nil {
		return due, err
	}
	if oldest.IsZero() {
		oldest = at // of the next event, at the earliest
	}
	if young > info.Earliest {
		s, err := l.Stream(ctx, info.Key)
		if err == nil {
			err = s.use(ctx, func(lv *live) error { return l.trim(ctx, lv, info.Epoch, young) })
		}
		if err != nil {
			return due, err
		}
		result.Events += int64(young - info.Earliest)
		result.Bytes += bytes
	}
	return oldest.Add(bound), nil
}

// firstYoung returns the seq of the first kept event that is not older than limit, the size of those before it, and its
// time. If all are older, it returns the seq after the last one and the zero time.
func (l *Log) firstYoung(ctx context.Context, info *StreamInfo, limit time.Time) (
	seq uint64, bytes int64, at time.Time, err error,
) {
	for seq = info.Earliest; seq <= info.Tail; {
		page, err := l.readPage(ctx, info.Key, seq-1, pageBytes)
		if err != nil {
			return seq, bytes, at, err
		}
		if page.Info.Epoch != info.Epoch || len(page.Batches) == 0 {
			return info.Earliest, 0, limit, nil // the next sweep looks again
		}
		for _, batch := range page.Batches {
			for e, err := range Records(batch) {
				switch {
				case err != nil:
					return seq, bytes, at, err
				case e.Seq < seq:
				case e.Time.After(limit):
					return seq, bytes, e.Time, nil
				default:
					seq = e.Seq + 1
					bytes += int64(recordSize(&e))
				}
			}
		}
	}
	return seq, bytes, at, nil
}
