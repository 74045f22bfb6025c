package reprise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// SweepResult describes what a sweep has done.
type SweepResult struct {
	// Streams, Events and Bytes count what was removed.
	Streams int64
	Events  int64
	Bytes   int64
	// Idle is the number of streams that were ended because they were idle; see MaxIdleLabel.
	Idle int64
}

// sweepChunk is the number of streams removed at a time; appends continue in between.
const sweepChunk = 500

// Sweep ends the streams that have been idle for too long (see MaxIdleLabel), removes events of open streams that are
// too old (see MaxAgeEachLabel), removes streams at the time of their ExpiresLabel, and those that have expired,
// Retention.MaxAge after their end. The names of the latter are answered with ErrExpired for Options.Remember, and
// readers that are still there get the same. It runs by itself every Options.SweepEvery.
func (l *Log) Sweep(ctx context.Context) (SweepResult, error) {
	result, err := l.sweep(ctx)
	if l.Shared() { // count the appends of other replicas too
		err = errors.Join(err, l.measure(ctx))
	}
	if l.opts.Quota != nil && (l.Shared() || !l.usage.exact.Load()) {
		err = errors.Join(err, l.measureAccounts(ctx))
	}
	err = errors.Join(err, l.endIdle(ctx, &result))
	if hook := l.opts.Hooks.Swept; hook != nil {
		hook(result, err)
	}
	return result, err
}

func (l *Log) sweep(ctx context.Context) (SweepResult, error) {
	var result SweepResult
	now := now()
	for {
		var swept []StreamInfo
		err := l.background.during(func() (err error) {
			select {
			case l.sweeping <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			defer func() { <-l.sweeping }()
			swept, err = l.sweepChunk(ctx, now)
			return err
		})
		for i := range swept {
			result.Streams++
			result.Events += int64(swept[i].Kept())
			result.Bytes += swept[i].Bytes
			l.usage.add(l.usage.of(&swept[i]), amount{}.minus(charge(&swept[i])))
			err = errors.Join(err, l.forgetEpoch(ctx, swept[i].Key, swept[i].Epoch, ErrExpired))
		}
		if err != nil || len(swept) < sweepChunk {
			return result, err
		}
	}
}

// sweepChunk removes some of the expired streams.
func (l *Log) sweepChunk(ctx context.Context, now time.Time) ([]StreamInfo, error) {
	remember := now.Add(l.opts.Remember)
	if s, ok := l.store.(Sweeper); ok {
		if swept, err := s.Sweep(ctx, now, remember, sweepChunk); !errors.Is(err, errors.ErrUnsupported) {
			return swept, err
		}
	}
	return lister{l}.Sweep(ctx, now, remember, sweepChunk)
}

// forgetEpoch evicts a stream that the store no longer has, unless its name has been used again. It waits for a lookup
// under way, which may have found the stream before it was removed.
func (l *Log) forgetEpoch(ctx context.Context, key StreamKey, epoch Epoch, why error) error {
	unlock, err := l.loading.lock(context.WithoutCancel(ctx), key)
	if err != nil {
		return err
	}
	defer unlock()
	lv, err := l.lookup(key)
	if lv == nil || err != nil {
		return err
	}
	return lv.lane.do(context.WithoutCancel(ctx), &call{fn: func() error {
		if lv.info.Epoch == epoch {
			l.forget(lv, why)
		}
		return nil
	}})
}

func (l *Log) sweepEvery(ctx context.Context) {
	timer := time.NewTicker(l.opts.SweepEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		var result SweepResult
		err := l.guard(func() (err error) {
			result, err = l.Sweep(ctx)
			return err
		})
		if err != nil && ctx.Err() == nil {
			l.opts.Logger.Error("sweep failed", "error", err, "streams", result.Streams)
		}
	}
}

// lister sweeps a store that is not a Sweeper by listing every stream.
type lister struct{ log *Log }

func (s lister) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]StreamInfo, error) {
	var due []StreamInfo
	err := s.log.each(ctx, func(info *StreamInfo) {
		if info.End != nil && !info.End.Expires.After(now) && len(due) < limit {
			due = append(due, *info)
		}
	})
	if err != nil {
		return nil, err
	}
	for i := range due {
		if err := s.log.store.Remove(ctx, due[i].Key, RemoveSpec{Remember: remember, Epoch: due[i].Epoch}); err != nil {
			return due[:i], err
		}
	}
	return due, nil
}

// idleStreams are open streams that are to be ended once they are idle for too long, those whose events expire, and
// those that expire themselves.
// They are known from their creation or last use here, and those of earlier times from a list of all streams, so that a
// sweep lists nothing. There are at most Options.MaxStreams of them; later lists find the others.
type idleStreams struct {
	mu     sync.Mutex
	byKey  map[StreamKey]idleStream
	listed time.Time // when all streams were listed; zero: never
	missed bool      // there was no room for a stream
}

// idleStream is what is known of an open stream. Its times lie on the monotonic clock, so that a step of the system's
// clock does not make a stream idle that is used.
type idleStream struct {
	key   StreamKey
	epoch Epoch
	tail  uint64
	// seen is when this Log knew that the stream had this epoch and tail. since is when the newest event was appended
	// or, without one, the stream was created; zero if it is still to be read.
	seen, since time.Time
	due         time.Time // of the next check
}

const (
	// idleListEvery is the time between two lists of all streams, where other replicas create streams or there was no
	// room for all.
	idleListEvery = time.Hour
	// idleChecks is the maximum number of streams that a sweep checks, with one or two reads each.
	idleChecks = 10_000
	// idleSeen is how long a Log must have seen a stream unchanged before it ends the stream, however old the newest
	// event claims to be. For a lower bound it is that bound.
	idleSeen = time.Minute
	// outcomeIdle is the outcome of an idle stream.
	outcomeIdle = "failed"
)

// errInUse refuses to end a stream that is not idle any more.
var errInUse = errors.New("the stream is not idle any more")

// maxIdle returns how long a stream may be idle; 0 means for ever.
func (l *Log) maxIdle(info *StreamInfo) time.Duration {
	switch own := info.Config.MaxIdle(); {
	case info.End != nil || info.Owner != (Owner{}) || info.Key.Tenant == SystemTenant:
		return 0
	case own > 0:
		return own
	case info.Key.Namespace() != "":
		return 0
	}
	return l.opts.MaxIdle
}

// noteIdle adds a stream that expires, and an open one that may be idle, or keeps its events, for a limited time only,
// and removes any other.
func (l *Log) noteIdle(info *StreamInfo) {
	bound, each, expires, x := l.maxIdle(info), maxAgeEach(info), info.Config.Expires(), &l.idle
	x.mu.Lock()
	defer x.mu.Unlock()
	switch known, ok := x.byKey[info.Key]; {
	case bound == 0 && each == 0 && expires.IsZero():
		delete(x.byKey, info.Key)
	case known.epoch == info.Epoch:
	case !ok && len(x.byKey) >= l.opts.MaxStreams:
		x.missed = true
	default:
		s := idleStream{key: info.Key, epoch: info.Epoch, tail: info.Tail, seen: time.Now()}
		if each == 0 { // otherwise the first check finds out
			s.due = expires
			if bound > 0 {
				s.due = earlier(expires, s.mayEnd(monotonic(info.Created, s.seen), bound))
			}
		}
		x.byKey[info.Key] = s
	}
}

// earlier returns the earlier of two times, of which the zero one is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// monotonic returns a time of the system's clock, or now if that is earlier, on the monotonic clock.
func monotonic(t, now time.Time) time.Time { return now.Add(min(0, t.Sub(now))) }

// mayEnd returns the time at which a stream that is idle since then may be ended.
func (s *idleStream) mayEnd(since time.Time, bound time.Duration) time.Time {
	at, sure := since.Add(bound), s.seen.Add(min(bound, idleSeen))
	if sure.After(at) {
		return sure
	}
	return at
}

// forget removes a stream that has ended or does not exist any more.
func (x *idleStreams) forget(key StreamKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byKey, key)
}

// dueAt returns the streams to check.
func (x *idleStreams) dueAt(now time.Time) (due []idleStream) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.byKey {
		if !s.due.After(now) && len(due) < idleChecks {
			due = append(due, s)
		}
	}
	return due
}

// endIdle ends the streams that have been idle for too long, and removes events that are too old.
func (l *Log) endIdle(ctx context.Context, result *SweepResult) (err error) {
	if err := l.findIdle(ctx); err != nil {
		return err
	}
	for _, s := range l.idle.dueAt(time.Now()) {
		one := l.background.during(func() error { return l.checkIdle(ctx, &s, result) })
		if one != nil {
			err = errors.Join(err, fmt.Errorf("idle stream %s: %w", s.key, one))
		}
		if errors.Is(one, ErrUnavailable) || errors.Is(one, ErrClosed) || ctx.Err() != nil {
			break // otherwise only this stream is affected
		}
	}
	return err
}

// findIdle lists all streams, if there may be some that this Log has not seen.
func (l *Log) findIdle(ctx context.Context) error {
	x := &l.idle
	x.mu.Lock()
	all := x.listed.IsZero() || (x.missed || l.Shared()) && time.Since(x.listed) >= idleListEvery
	x.mu.Unlock()
	if !all {
		return nil
	}
	return l.eachListed(ctx, func(*StreamInfo) {})
}

// eachListed is each and notes the idle streams.
func (l *Log) eachListed(ctx context.Context, f func(*StreamInfo)) error {
	x := &l.idle
	x.mu.Lock()
	x.missed = false
	x.mu.Unlock()
	err := l.each(ctx, func(info *StreamInfo) {
		l.noteIdle(info)
		f(info)
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil {
		x.listed = time.Now()
	} else {
		x.missed = true
	}
	return err
}

// checkIdle removes a stream that has expired. Otherwise it compares the stream with what was seen of it, and ends the
// stream if it has been idle for too long. Before that it removes the events that are too old.
func (l *Log) checkIdle(ctx context.Context, s *idleStream, result *SweepResult) error {
	page, err := l.readPage(ctx, s.key, 1<<63, 0)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired) {
		l.idle.forget(s.key)
		return nil
	}
	if err != nil {
		return err
	}
	info := &page.Info
	bound, each, expires := l.maxIdle(info), maxAgeEach(info), info.Config.Expires()
	if !expires.IsZero() && !expires.After(time.Now()) {
		if err := l.remove(ctx, s.key, info.Epoch); err != nil {
			return err
		}
		result.Streams++
		result.Events += int64(info.Kept())
		result.Bytes += info.Bytes
		return nil
	}
	if bound == 0 && each == 0 && expires.IsZero() {
		l.idle.forget(s.key)
		return l.tellOfEnd(ctx, info)
	}
	var dueEach time.Time
	if each > 0 {
		if dueEach, err = l.expireEvents(ctx, info, each, result); err != nil {
			return err
		}
	}
	if s.due = earlier(expires, dueEach); bound == 0 {
		l.idle.update(s, false)
		return nil
	}
	if err := l.observe(ctx, s, info); err != nil {
		return err
	}
	mayEnd := s.mayEnd(s.since, bound)
	early := mayEnd.After(time.Now())
	s.due = earlier(s.due, mayEnd)
	l.idle.update(s, early)
	if early {
		return nil
	}
	ended, err := l.endUnmoved(ctx, s, bound)
	if ended {
		result.Idle++
	}
	return err
}

// tellOfEnd tells the readers of a stream that has ended elsewhere, or with a commit that seemed to fail.
func (l *Log) tellOfEnd(ctx context.Context, info *StreamInfo) error {
	lv, err := l.lookup(info.Key)
	if lv == nil || err != nil || info.End == nil || lv.hasEnded() {
		return err
	}
	return l.refresh(ctx, lv)
}

// update replaces what is known of a stream, unless it has ended or gone meanwhile. If there was no room for another
// stream, one that is not idle makes room.
func (x *idleStreams) update(s *idleStream, used bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.byKey[s.key]; ok {
		x.byKey[s.key] = *s
		if used && x.missed {
			delete(x.byKey, s.key)
		}
	}
}

// observe takes over a state of the stream that has just been read. A time that the newest event claims is believed if
// it fits what was seen of the stream.
func (l *Log) observe(ctx context.Context, s *idleStream, info *StreamInfo) error {
	moved := info.Epoch != s.epoch || info.Tail != s.tail
	if !moved && !s.since.IsZero() {
		return nil
	}
	now := time.Now()
	at, err := l.newestTime(ctx, info)
	if err != nil {
		return err
	}
	s.since = now
	switch at = monotonic(at, now); {
	case !moved && at.After(s.seen):
		s.since = s.seen
	case !moved || !at.Before(s.seen):
		s.since = at
	}
	if moved {
		s.epoch, s.tail, s.seen = info.Epoch, info.Tail, now
	}
	return nil
}

// newestTime returns the time of the newest event of a stream, that of its creation if it never had an event, and the
// current time if its newest event is not kept.
func (l *Log) newestTime(ctx context.Context, info *StreamInfo) (time.Time, error) {
	at := info.Created
	if info.Tail == 0 {
		return at, nil
	}
	page, err := l.readPage(ctx, info.Key, info.Tail-1, 1)
	if err != nil {
		return at, err
	}
	at = time.Now()
	for _, batch := range page.Batches {
		for e, err := range Records(batch) {
			if err != nil {
				return at, err
			}
			at = e.Time
		}
	}
	return at, nil
}

// idleData is the data of the end event of a stream with a bound, in the form of the HTTP API.
func idleData(bound time.Duration) []byte {
	return fmt.Appendf(nil, `{"outcome":%q,"data":{"code":"idle","max_idle":%q}}`, outcomeIdle, bound)
}

// endUnmoved ends a stream unless it is in another epoch or has another tail than s says. The condition is checked
// where appends get their order: in the lane and, for those of other replicas, in the store. So no append that was
// acknowledged is behind the end, and an append that was first prevents it.
func (l *Log) endUnmoved(ctx context.Context, s *idleStream, bound time.Duration) (ended bool, err error) {
	stream, err := l.Stream(ctx, s.key)
	if err == nil && l.Shared() {
		_, err = stream.Info(ctx) // memory may lag behind the store
	}
	if err == nil {
		event, end := endEvent(outcomeIdle, Event{Format: FormatMembers, Data: idleData(bound)})
		c := &call{end: end, size: recordSize(&event), unmoved: s}
		err = stream.use(ctx, func(lv *live) error {
			c.live, c.asked = lv, false
			return l.submit(ctx, c, []Event{event})
		})
	}
	switch {
	case err == nil:
		l.opts.Logger.Info("ended a stream that was idle", "stream", s.key.String(), "max_idle", bound)
		return true, nil
	case errors.Is(err, errInUse), errors.Is(err, ErrEnded), errors.Is(err, ErrFenced), errors.Is(err, ErrNotFound),
		errors.Is(err, ErrExpired):
		return false, nil // the next check finds out more
	}
	return false, err
}
