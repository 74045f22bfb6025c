package reprise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Create creates a stream, or finds the one with the same configuration; created tells which. The error is ErrConflict
// if the name is taken with another configuration, and ErrInvalid if key or configuration are invalid.
func (l *Log) Create(ctx context.Context, key StreamKey, config StreamConfig) (s *Stream, created bool, err error) {
	return l.CreateWith(ctx, CreateOptions{}, key, config)
}

// CreateOptions are the settings of CreateWith in addition to a configuration.
type CreateOptions struct {
	// Owner is the owner of the stream if it is created now; see AppendOptions.Owner.
	Owner Owner
	// Events are the first events of the stream if it is created now: both are one commit, so that neither exists
	// without the other. An existing stream is not changed. The events are copied. The error is errors.ErrUnsupported,
	// and nothing is created, if the Store is not a CreateAppender. After ErrUnavailable the stream may exist, with the
	// events.
	Events []Event
	// Outcome, if not "", ends the stream with the last of Events, as Stream.End does.
	Outcome string
}

// CreateWith is Create with options.
func (l *Log) CreateWith(ctx context.Context, opts CreateOptions, key StreamKey,
	config StreamConfig,
) (s *Stream, created bool, err error) {
	if err := errors.Join(key.usable(), config.validate(), opts.Owner.validate()); err != nil {
		return nil, false, fmt.Errorf("create %s: %w", key, err)
	}
	first, err := l.firstEvents(&opts)
	if err != nil {
		return nil, false, fmt.Errorf("create %s: %w", key, err)
	}
	lv, created, err := l.create(ctx, opts.Owner, first, key, config)
	if err != nil {
		return nil, false, fmt.Errorf("create %s: %w", key, err)
	}
	if first != nil {
		l.coolIfFull()
	}
	return l.handle(lv), created, nil
}

// firstEvents returns the append of the first events, nil if there are none.
func (l *Log) firstEvents(opts *CreateOptions) (*call, error) {
	if len(opts.Events) == 0 && opts.Outcome == "" {
		return nil, nil
	}
	if _, ok := l.store.(CreateAppender); !ok {
		return nil, errors.ErrUnsupported
	}
	c := &call{opts: AppendOptions{Owner: opts.Owner}}
	if opts.Outcome == "" {
		c.events = slices.Clone(opts.Events)
	} else {
		if err := checkOutcome(opts.Outcome); err != nil {
			return nil, err
		}
		if len(opts.Events) == 0 {
			return nil, fmt.Errorf("%w: an outcome without an event", ErrInvalid)
		}
		c.events, c.end = endEvents(opts.Outcome, opts.Events)
	}
	size, err := l.check(&c.opts, c.events, c.end != nil)
	if err != nil {
		return nil, err
	}
	c.size = size
	return c, nil
}

func (l *Log) create(ctx context.Context, owner Owner, first *call, key StreamKey,
	config StreamConfig,
) (*live, bool, error) {
	l.evictIfFull(ctx)
	for try := 1; try <= maxTries; try++ {
		lv, older, created, err := l.createOrFind(ctx, owner, first, key, config)
		if isFull(err) && try < maxTries {
			if err = l.freeRoomFor(ctx, first, key, config); err == nil {
				continue
			}
		}
		if older == nil || err != nil {
			return lv, created, err
		}
		if err := l.dropUnlessRenewed(ctx, older); err != nil {
			return nil, false, err
		}
		lv, err = l.load(ctx, key)
		if err == nil || !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrExpired) {
			return lv, created, err
		} // otherwise it is gone, and the name is free
	}
	return nil, false, fmt.Errorf("%w: the stream was removed %d times", ErrUnavailable, maxTries)
}

// freeRoomFor is freeRoom for a stream that is to be created.
func (l *Log) freeRoomFor(ctx context.Context, first *call, key StreamKey, config StreamConfig) error {
	info := StreamInfo{Key: key, Config: config}
	more := info.Overhead()
	if first != nil {
		more += int64(first.size)
	}
	return l.freeRoom(ctx, l.usage.of(&info), more)
}

var errOtherConfig = fmt.Errorf("%w: it exists with another configuration", ErrConflict)

// createOrFind creates a stream or finds it. If it was created, here or by another replica, while memory held an
// earlier epoch that another replica has ended, it returns that one as older, to be evicted.
func (l *Log) createOrFind(ctx context.Context, owner Owner, first *call, key StreamKey,
	config StreamConfig,
) (lv, older *live, created bool, err error) {
	unlock, err := l.loading.lock(ctx, key)
	if err != nil {
		return nil, nil, false, err
	}
	defer unlock()
	lv, err = l.lookup(key)
	if err != nil {
		return nil, nil, false, err
	}
	// an ended one may come from an archive, and its name be free
	if lv != nil && !l.Shared() && !lv.hasEnded() {
		if !lv.created.EqualButAccount(config) {
			return nil, nil, false, errOtherConfig
		}
		return lv, nil, false, nil
	}
	config.Labels, config.Meta = maps.Clone(config.Labels), bytes.Clone(config.Meta) // the caller keeps its own
	want := StreamInfo{Key: key, Epoch: NewEpoch(), Config: config, Created: now(), Owner: owner}
	if err := l.checkRoom(ctx, &want); err != nil {
		return nil, nil, false, err
	}
	info, filled, err := l.createAsKept(ctx, want, first)
	l.noteFailure(err)
	if errors.Is(err, ErrConflict) {
		err = errOtherConfig
	}
	if err != nil {
		return nil, nil, false, err
	}
	if created = info.Epoch == want.Epoch; created {
		whose := l.usage.of(&info)
		l.usage.add(whose, charge(&info))
		if info.End != nil {
			l.ended.note(&info, whose)
		}
	}
	switch {
	case lv == nil:
		lv, err = l.admit(info, filled)
		return lv, nil, created, err
	case lv.currentEpoch() == info.Epoch:
		return lv, nil, created, nil
	}
	return nil, lv, created, nil
}

// createAsKept is Store.Create. It also finds a stream that is charged to another account than want is. If first is not
// nil, the stream is created with these events; filled then holds them, and is nil if the stream existed.
func (l *Log) createAsKept(ctx context.Context, want StreamInfo, first *call) (
	info StreamInfo, filled *staged, err error,
) {
	info, filled, err = l.createFilled(ctx, want, first)
	if !errors.Is(err, ErrConflict) {
		return info, filled, err
	}
	page, readErr := l.store.Read(ctx, want.Key, 1<<63, 0)
	kept := page.Info.Config
	if readErr != nil || kept.Account() == want.Config.Account() || !kept.EqualButAccount(want.Config) {
		return info, nil, err
	}
	want.Config = kept
	return l.createFilled(ctx, want, first)
}

// createFilled is Store.Create, or CreateAppend with the events of first. The events are staged as for any other
// append, by a separate lane: nobody else can know of the stream yet.
func (l *Log) createFilled(ctx context.Context, want StreamInfo, first *call) (StreamInfo, *staged, error) {
	if first == nil {
		info, err := l.store.Create(ctx, want)
		return info, nil, err
	}
	empty := want
	empty.Earliest = 1
	m := &lane{log: l}
	c := call{opts: first.opts, events: first.events, end: first.end, size: first.size}
	c.live = newLive(empty, l.opts.Retention, l.usage.of(&want), l.laneOf(want.Key))
	if err := m.stage(&c); err != nil {
		return StreamInfo{}, nil, err
	}
	start := time.Now()
	info, err := l.store.(CreateAppender).CreateAppend(ctx, want, m.reqs[0])
	found := err == nil && info.Epoch != want.Epoch || errors.Is(err, ErrConflict)
	if hook := l.opts.Hooks.Committed; hook != nil && !found && !errors.Is(err, errors.ErrUnsupported) {
		hook(m.info([]error{err}, time.Since(start)))
	}
	if err != nil || info.Epoch != want.Epoch || info.Tail != uint64(m.reqs[0].Count) {
		return info, nil, err
	}
	return info, &m.batches[0], nil
}
