package reprise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
)

// maxTries bounds the tries of an append that other replicas overtake.
const maxTries = 32

// submit makes the lane of the stream decide c. Information that the lane lacks is read from the store by the caller,
// outside the lane, so that no other stream waits for it. c and events are not kept after the return.
func (l *Log) submit(ctx context.Context, c *call, events []Event) error {
	lv := c.live
	var full error
	for try := 1; ; try++ {
		c.begin()
		c.opts.Trace.ask()
		rounds := l.ended.rounds.Load()
		err := lv.lane.append(ctx, c, events)
		switch {
		case isFull(err) && try < maxTries:
			full = err
			err = l.freeRoom(ctx, lv.charged, int64(c.size), full, rounds)
		case err == errStale: //nolint:errorlint // ours, never wrapped
			err = l.refresh(ctx, lv)
		case err == errUnmeasured: //nolint:errorlint // ours, never wrapped
			err = l.measureOldest(ctx, lv, c.need, 0)
		case err == errHeld: //nolint:errorlint // ours, never wrapped
			err = lv.waitUntilReleased(ctx)
		default:
			return err
		}
		if err != nil {
			return err
		}
		if try == maxTries {
			if full != nil {
				return full
			}
			return fmt.Errorf("%w: other replicas were ahead %d times", ErrUnavailable, maxTries)
		}
	}
}

// isFull reports whether err refuses an append or a stream by a bound on bytes that several streams share, or because
// the disk is full.
func isFull(err error) bool {
	full, ok := errors.AsType[*QuotaError](err)
	return ok && full.Quota == quotaBytes || errors.Is(err, DiskFull)
}

// measureBytes is the size of a page that is read to measure a stream.
const measureBytes = 1 << 20

// measureOldest measures the oldest events of a stream until it covers at least need bytes, or everything before the
// seq before. The caller reads, and only the results are passed to the lane.
func (l *Log) measureOldest(ctx context.Context, lv *live, need int64, before uint64) error {
	for {
		var from uint64
		more := false
		look := func() error {
			if lv.gone != nil {
				return lv.gone
			}
			_, known := lv.sizes.oldest(lv.info.Earliest, need)
			first, last, ok := lv.sizes.unmeasured(lv.info.Earliest)
			from, more = first, ok && (!known || first < before && before <= last)
			return nil
		}
		if err := lv.lane.exclusively(ctx, look); err != nil || !more {
			return err
		}
		page, err := l.readLive(ctx, lv, from-1, measureBytes)
		if err != nil {
			return err
		}
		moved := false
		err = lv.lane.exclusively(ctx, func() (err error) {
			moved, err = lv.measured(from, &page)
			return err
		})
		if err == nil && moved {
			err = l.refresh(ctx, lv)
		}
		if err != nil {
			return err
		}
	}
}

// measured applies a page that was read to measure the stream from the event first on, unless the stream has moved on.
// moved is true if another replica has moved the window beyond first, or the stream is in another epoch: the page then
// says nothing about the state in memory, which must be read again.
func (lv *live) measured(first uint64, page *Page) (moved bool, err error) {
	at, _, ok := lv.sizes.unmeasured(lv.info.Earliest)
	switch {
	case lv.gone != nil || !ok || at != first:
		return false, lv.gone
	case page.Info.Epoch != lv.info.Epoch || page.Info.Earliest > first:
		return true, nil
	case len(page.Batches) == 0:
		return false, fmt.Errorf("%w: no events after %d", ErrUnavailable, first-1)
	}
	correction := lv.sizes.measured(first, page.Batches)
	lv.lane.log.usage.add(lv.charged, amount{bytes: correction})
	lv.mu.Lock()
	defer lv.mu.Unlock()
	lv.info.Bytes += correction
	return false, nil
}

// hold blocks appends to a stream until release is called, for an operation on the store that they must not overtake.
// Readers continue.
func (l *Log) hold(ctx context.Context, lv *live) (release func(), err error) {
	held := false
	defer func() {
		if held && release == nil { // the commit with it has panicked
			lv.release()
		}
	}()
	for {
		err := lv.lane.exclusively(ctx, func() error {
			switch {
			case lv.gone != nil:
				return lv.gone
			case lv.held != nil:
				return errHeld
			}
			lv.mu.Lock()
			defer lv.mu.Unlock()
			lv.held = make(chan struct{})
			held = true
			return nil
		})
		switch err {
		case nil:
			return lv.release, nil
		case errHeld: //nolint:errorlint // ours, never wrapped
			err = lv.waitUntilReleased(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
}

// release unblocks appends after hold.
func (lv *live) release() {
	_ = lv.lane.do(context.Background(), &call{fn: func() error { // even if the Log was closed
		lv.mu.Lock()
		defer lv.mu.Unlock()
		close(lv.held)
		lv.held = nil
		return nil
	}})
}

// waitUntilReleased waits until the stream is not held, or held by another operation.
func (lv *live) waitUntilReleased(ctx context.Context) error {
	lv.mu.Lock()
	held := lv.held
	lv.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// trim implements Stream.Trim. Appends to the stream wait meanwhile.
func (l *Log) trim(ctx context.Context, lv *live, only Epoch, before uint64) error {
	release, err := l.hold(ctx, lv)
	if err != nil {
		return err
	}
	defer release()
	return l.trimHeld(ctx, lv, only, before)
}

// trimHeld is trim of a stream that the caller holds.
func (l *Log) trimHeld(ctx context.Context, lv *live, only Epoch, before uint64) error {
	for range maxTries {
		epoch, err := l.tryTrim(ctx, lv, only, before)
		if err != nil || !l.Shared() || epoch == "" {
			return err
		}
		info, err := l.look(ctx, lv)
		if err != nil || info.Epoch == epoch {
			return err
		}
	}
	return fmt.Errorf("%w: the epoch moves faster than the stream can be trimmed", ErrUnavailable)
}

// tryTrim trims in one epoch, which it returns; "" if there is nothing to trim. If only is not "", it trims in no other
// epoch. If the store has moved the stream to another epoch, it has done nothing and returns no error.
func (l *Log) tryTrim(ctx context.Context, lv *live, only Epoch, before uint64) (Epoch, error) {
	if err := l.refresh(ctx, lv); err != nil {
		return "", err
	}
	if err := l.measureOldest(ctx, lv, 0, before); err != nil {
		return "", err
	}
	var spec RemoveSpec
	err := lv.lane.exclusively(ctx, func() error {
		switch {
		case only != "" && lv.info.Epoch != only:
		case before > lv.info.Tail+1:
			return fmt.Errorf("%w: trim before %d, the tail is %d", ErrInvalid, before, lv.info.Tail)
		case before > lv.info.Earliest:
			spec = RemoveSpec{Trim: before, Kept: lv.sizes.total - lv.sizes.bytesBefore(before), Epoch: lv.info.Epoch}
		}
		return lv.gone
	})
	if err != nil || spec.Trim == 0 {
		return "", err
	}
	err = fmt.Errorf("%w: the store has panicked", ErrUnavailable)
	defer func() {
		_ = lv.lane.exclusively(context.WithoutCancel(ctx), func() error {
			switch {
			case err != nil: // the trim may have been done
				lv.lane.fail(lv)
			case lv.info.Epoch == spec.Epoch:
				lv.trimmed(before)
			}
			return nil
		})
	}()
	err = l.store.Remove(ctx, lv.key, spec)
	return spec.Epoch, err
}

// trimmed moves the start of the window to earliest, as the store has done.
func (lv *live) trimmed(earliest uint64) {
	bytes := lv.sizes.before(earliest)
	gone := max(earliest, lv.info.Earliest) - lv.info.Earliest // only the lane writes it
	lv.lane.log.usage.add(lv.charged, amount{events: -int64(gone), bytes: -bytes})
	lv.mu.Lock()
	defer lv.mu.Unlock()
	if earliest > lv.info.Earliest {
		lv.info.Earliest = earliest
		lv.info.Bytes -= bytes
	}
}

// configure implements Stream.Configure. Appends to the stream wait meanwhile.
func (l *Log) configure(ctx context.Context, lv *live, edit func(*StreamConfig)) (StreamInfo, error) {
	release, err := l.hold(ctx, lv)
	if err != nil {
		return StreamInfo{}, err
	}
	defer release()
	for range maxTries {
		switch err := l.tryConfigure(ctx, lv, edit); {
		case errors.Is(err, ErrConflict), errors.Is(err, ErrNotFound) && !lv.isGone():
			continue // another replica has changed it, or the store has moved it to another epoch
		case err != nil:
			return StreamInfo{}, err
		}
		if err := l.trimToBounds(ctx, lv); err != nil {
			return StreamInfo{}, err
		}
		return l.look(ctx, lv)
	}
	return StreamInfo{}, fmt.Errorf("%w: other replicas were ahead %d times", ErrUnavailable, maxTries)
}

// tryConfigure changes the configuration that the store has now. The error is ErrConflict or ErrNotFound if it has
// another one meanwhile.
func (l *Log) tryConfigure(ctx context.Context, lv *live, edit func(*StreamConfig)) error {
	want, err := l.look(ctx, lv)
	if err != nil {
		return err
	}
	before := want.Overhead()
	config := want.Config
	config.Labels, config.Meta = maps.Clone(config.Labels), bytes.Clone(config.Meta)
	edit(&config)
	switch {
	case config.Equal(want.Config):
		return nil
	case !bytes.Equal(config.Meta, want.Config.Meta), config.Account() != want.Config.Account():
		return fmt.Errorf("%w: Meta and the account of a stream do not change", ErrInvalid)
	}
	if err := config.validate(); err != nil {
		return err
	}
	want.Config, want.Revision, want.Producers = config, want.Revision+1, nil
	if want.End != nil {
		end := *want.End
		end.Expires = end.Time.Add(config.Retention.or(l.opts.Retention).MaxAge)
		want.End = &end
	}
	if more := want.Overhead() - before; more > 0 && lv.key.Tenant != SystemTenant {
		if err := l.freeRoom(ctx, lv.charged, more, nil, 0); err != nil {
			return err
		}
	}
	kept, err := l.store.Create(ctx, want)
	l.noteFailure(err)
	if err != nil {
		return err
	}
	return lv.lane.exclusively(context.WithoutCancel(ctx), func() error {
		if lv.info.Epoch == kept.Epoch && lv.info.Revision < kept.Revision {
			lv.reconfigure(&kept)
		}
		return lv.gone
	})
}

// trimToBounds removes the oldest events until the stream is within the bounds of its retention. The newest batch
// stays. The caller holds the stream.
func (l *Log) trimToBounds(ctx context.Context, lv *live) error {
	var before uint64
	for range maxTries {
		var need int64
		err := lv.lane.exclusively(ctx, func() error {
			before, need = lv.bound()
			return lv.gone
		})
		if err != nil {
			return err
		}
		if need == 0 {
			break
		}
		if err := l.measureOldest(ctx, lv, need, 0); err != nil {
			return err
		}
	}
	if before == 0 {
		return nil
	}
	return l.trimHeld(ctx, lv, "", before)
}

// bound returns the seq before which the events exceed the bounds of the retention, 0 if none does. If the oldest
// events are to be measured for it, need is the number of bytes up to which; see Log.measureOldest. No commit of the
// lane is under way.
func (lv *live) bound() (before uint64, need int64) {
	info := &lv.info
	n := len(lv.sizes.steps)
	if info.Earliest > info.Tail || n == 0 {
		return 0, 0
	}
	if events := uint64(lv.retention.MaxEvents); info.Tail > events {
		before = info.Tail - events + 1
	}
	all := info.Bytes + eventOverhead*int64(info.Kept())
	if over := min(all-lv.retention.MaxBytes, all-1); over > 0 {
		last, ok := lv.sizes.oldest(info.Earliest, over)
		switch {
		case !ok:
			return 0, over
		case last < info.Tail:
			before = max(before, last+1)
		case n > 1: // all but the newest batch, or a few that are counted together
			before = max(before, lv.sizes.steps[n-2].last+1)
		}
	}
	if before <= info.Earliest {
		return 0, 0
	}
	return before, 0
}

// Remove forgets a stream without a trace; its readers get ErrNotFound.
// Removing what is not there does nothing.
func (l *Log) Remove(ctx context.Context, key StreamKey) error {
	if err := key.usable(); err != nil {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	if err := l.background.during(func() error { return l.remove(ctx, key, "") }); err != nil {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	return nil
}

// Remove forgets the stream as Log.Remove does, unless its name is used again: a later stream stays as it is.
// Removing what is not there does nothing.
func (s *Stream) Remove(ctx context.Context) error {
	life := s.live.Load().state()
	err := s.log.background.during(func() error { return s.log.removeLife(ctx, &life) })
	return s.op("remove", err)
}

// removeLife removes the stream that has or had a state. If the store has moved it to another epoch meanwhile, the
// store has done nothing and returns no error.
func (l *Log) removeLife(ctx context.Context, life *StreamInfo) error {
	epoch := life.Epoch
	for range maxTries {
		if err := l.remove(ctx, life.Key, epoch); err != nil || !l.Shared() {
			return err
		}
		page, err := l.readPage(ctx, life.Key, 1<<63, 0)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, _, same := page.Info.sharedWith(life); !same {
			return nil
		}
		epoch = page.Info.Epoch
	}
	return fmt.Errorf("%w: the epoch moves faster than the stream can be removed", ErrUnavailable)
}

// remove blocks appends to the stream and lookups of it, and nothing else. If epoch is not "", only that epoch is
// removed.
func (l *Log) remove(ctx context.Context, key StreamKey, epoch Epoch) error {
	for {
		if done, err := l.tryRemove(ctx, key, epoch); done || err != nil {
			return err
		}
	}
}

// tryRemove removes a stream. done is false if another stream of the name has come into memory meanwhile.
func (l *Log) tryRemove(ctx context.Context, key StreamKey, epoch Epoch) (done bool, err error) {
	lv, err := l.lookup(key)
	if err != nil {
		return false, err
	}
	if lv != nil {
		release, err := l.hold(ctx, lv)
		if err != nil && lv.isGone() {
			return false, l.usable()
		}
		if err != nil {
			return false, err
		}
		defer release()
	}
	return l.removeHeld(ctx, key, epoch, lv)
}

// removeHeld is tryRemove while lv, if not nil, is held.
func (l *Log) removeHeld(ctx context.Context, key StreamKey, epoch Epoch, lv *live) (done bool, err error) {
	unlock, err := l.loading.lock(ctx, key)
	if err != nil {
		return false, err
	}
	defer unlock()
	if now, err := l.lookup(key); now != lv || err != nil {
		return false, err
	}
	kept, whose, err := l.keptBy(ctx, key, epoch)
	if err != nil {
		return true, err
	}
	if err := l.store.Remove(ctx, key, RemoveSpec{Epoch: epoch}); err != nil {
		return true, err
	}
	l.usage.add(whose, amount{}.minus(kept))
	if lv == nil || epoch != "" && lv.currentEpoch() != epoch {
		return true, nil
	}
	return true, lv.lane.do(context.WithoutCancel(ctx), &call{fn: func() error {
		l.forget(lv, ErrNotFound)
		return nil
	}})
}

// keptBy returns the usage of the stream and the tally that is charged for it; zero if there is no such stream in that
// epoch.
func (l *Log) keptBy(ctx context.Context, key StreamKey, epoch Epoch) (amount, *tally, error) {
	page, err := l.store.Read(ctx, key, 1<<63, 0)
	if errors.Is(err, ErrUnavailable) {
		return amount{}, nil, err
	}
	if err == nil && (epoch == "" || page.Info.Epoch == epoch) {
		return charge(&page.Info), l.usage.of(&page.Info), nil
	}
	return amount{}, l.usage.ofTenant(key.Tenant), nil // also for a damaged stream, which can be removed
}

// isExpected checks AppendOptions.ExpectedSeq against the seq that the first event would get.
func (c *call) isExpected(next uint64, l *Log) error {
	want := c.opts.ExpectedSeq
	if want == 0 || want == next {
		return nil
	}
	if !c.asked && l.Shared() { // other replicas may have appended
		c.asked = true
		return errStale
	}
	return fmt.Errorf("%w: the next event gets the seq %d, not %d", ErrConflict, next, want)
}
