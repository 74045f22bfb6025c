package reprise

import (
	"context"
	"errors"
	"time"
)

// SweepResult tells what a sweep has removed.
type SweepResult struct {
	Streams int64
	Events  int64
	Bytes   int64
}

// sweepChunk is how many streams are removed at a time; appends go on in between.
const sweepChunk = 500

// Sweep removes the streams that have expired, Retention.MaxAge after their
// end. Their names are answered with ErrExpired for Options.Remember, and readers that
// are still there get the same. It runs by itself every Options.SweepEvery.
func (l *Log) Sweep(ctx context.Context) (SweepResult, error) {
	result, err := l.sweep(ctx)
	if l.Shared() { // what other replicas have appended counts too
		err = errors.Join(err, l.measure(ctx))
	}
	if l.opts.Quota != nil && (l.Shared() || !l.usage.exact.Load()) {
		err = errors.Join(err, l.measureAccounts(ctx))
	}
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

// forgetEpoch forgets a stream that the store no longer has, unless its name has been used again. It waits for a
// look-up that is under way, which may have found the stream before it went.
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

// lister sweeps a store that is no Sweeper by looking at every stream.
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

// evictIfFull puts unused streams out of memory, if there are too many for one
// more. It comes before that one does, which might otherwise be put out before it was of use.
func (l *Log) evictIfFull(ctx context.Context) {
	l.mu.Lock()
	full := len(l.streams) >= max(l.opts.MaxStreams, l.evictAbove)
	l.mu.Unlock()
	for i := range l.lanes {
		if !full {
			return
		}
		// No commit of the lane may be under way, since it may be about to publish to one of them.
		_ = l.lanes[i].exclusively(ctx, func() error {
			full = l.evict(&l.lanes[i])
			return nil
		})
	}
}

// evict puts streams of a lane out of memory until an eighth of the room is free. A stream that was
// used since the last time is spared the first time around, one with readers always;
// where that leaves too many, the next time is when an eighth more have come, for a look
// at all streams must not be the price of each new one. It returns true if there are still too many.
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
				lv.gone = errEvicted // its handles look it up again
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

// coolIfFull drops the hot tails of unused streams, and all but the newest
// block of the others, if all hot tails take too much, until an eighth of the room
// is free. As with evict, what cannot be dropped is not looked at again each time.
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
