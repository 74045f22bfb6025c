package reprise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Stream is a handle on one stream of a Log. It is safe for concurrent use and
// needs no Close. When the stream is removed or swept, or its name is used
// again, the methods return ErrNotFound or ErrExpired and the caller must get another handle.
type Stream struct {
	log  *Log
	live atomic.Pointer[live]
	// bound is set once the handle has been used: from then on it stands for one epoch lineage of its name. Before
	// that, the stream in memory may be one that another replica has ended.
	bound atomic.Bool
}

func (l *Log) handle(lv *live) *Stream {
	s := &Stream{log: l}
	s.live.Store(lv)
	return s
}

// errEvicted reports that a live was evicted from memory and cannot be used any more.
var errEvicted = errors.New("evicted")

// Appended is the result of an append.
type Appended struct {
	// First and Last are the seqs of the events. Both are 0 for a duplicate that is older than
	// the producer's newest append. ProducerID.PerEvent describes their values there.
	First, Last uint64
	// Epoch is the epoch of the events; see Stream.CursorIn.
	Epoch Epoch
	// Duplicate is true if the same idempotent producer had already appended the events.
	Duplicate bool
}

// AppendOptions are the options of an append.
type AppendOptions struct {
	// Producer makes the append idempotent.
	Producer *ProducerID
	// Owner is the writer. Only its owner may append to a stream that has one; an Owner with a
	// higher Fence takes over the stream with the append. Appends of others are refused with ErrFenced.
	Owner Owner
	// ExpectedSeq, if not 0, is the seq that the first event must get: if it would get another one, the append is
	// refused with ErrConflict. A duplicate of a Producer is answered as always.
	ExpectedSeq uint64
	// Guard, if not nil, numbers appends beside Producer, whoever makes them: the append is refused with ErrConflict
	// unless it has the next number of the guard, which the stream remembers as it remembers a producer. So writers
	// that have seen the last guarded append can decide what follows it. PerEvent has no meaning. A duplicate of a
	// Producer is answered as always.
	Guard *ProducerID
	// Trace, if not nil, is filled with how the append was committed. It must not be used before the append has
	// returned.
	Trace *AppendTrace
}

// Key returns the name of the stream.
func (s *Stream) Key() StreamKey { return s.live.Load().key }

// use calls f with the stream in memory, and once more if the stream had been evicted.
func (s *Stream) use(ctx context.Context, f func(*live) error) error {
	lv := s.live.Load()
	for {
		err := f(lv)
		if err != errEvicted && !s.mayHaveMoved(err) { //nolint:errorlint // ours, never wrapped
			if err == nil && !s.bound.Load() {
				s.bound.Store(true)
			}
			return err
		}
		again, lerr := s.log.load(ctx, lv.key)
		if lerr != nil {
			return lerr
		}
		if !again.continues(lv) && (s.bound.Swap(true) || !s.log.Shared()) {
			return ErrNotFound
		}
		if again == lv {
			return err
		}
		s.live.Store(again)
		lv = again
	}
}

// mayHaveMoved reports whether the name may belong to a newer stream than the one in memory. A handle that was
// not used yet can begin with the newer one.
func (s *Stream) mayHaveMoved(err error) bool {
	return err != nil && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired)) && !s.bound.Load() &&
		s.log.Shared()
}

// op adds the operation and the stream to an error.
func (s *Stream) op(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", name, s.Key(), err)
}

// Info returns the state of the stream. It does no I/O while the stream is in memory, unless the
// store is shared with other replicas; then the store is asked each time.
func (s *Stream) Info(ctx context.Context) (StreamInfo, error) {
	var info StreamInfo
	err := s.use(ctx, func(lv *live) (err error) {
		if s.log.Shared() {
			info, err = s.log.look(ctx, lv)
			return err
		}
		lv.mu.Lock()
		defer lv.mu.Unlock()
		info = lv.info
		return lv.gone
	})
	if err != nil {
		return StreamInfo{}, s.op("info", err)
	}
	return info, nil
}

// Cursor returns the cursor just after the event seq; 0 means the beginning.
func (s *Stream) Cursor(seq uint64) Cursor {
	lv := s.live.Load()
	lv.mu.Lock()
	defer lv.mu.Unlock()
	lv.sign(s.log.opts.Keys)
	return lv.cursor(seq)
}

// CursorIn returns the cursor just after the event seq of an epoch, such as Appended.Last. Unlike Cursor, it
// keeps pointing into that epoch if the store has lost the event meanwhile.
func (s *Stream) CursorIn(epoch Epoch, seq uint64) Cursor {
	if c := s.Cursor(seq); c.Epoch == epoch { // its tag is known
		return c
	}
	return Cursor{Seq: seq, Epoch: epoch, Tag: s.log.opts.Keys.cursorTags(s.Key(), epoch)[0]}
}

// Append appends events and returns when they are as durable as the Store states.
// No reader sees them before. Either all of them are appended, next to each other,
// or none. The events are copied.
//
// The error is ErrInvalid for events that are not allowed, ErrFenced for a stream with another
// owner, ErrEnded after the end, ErrQuota, ErrUnavailable, or the cause if ctx is cancelled before the commit begins.
// After ErrUnavailable the events may have been kept: see AppendWith.
func (s *Stream) Append(ctx context.Context, events ...Event) (appended Appended, err error) {
	err = s.append(ctx, &appended, &AppendOptions{}, events, nil)
	return appended, s.op("append to", err)
}

// AppendWith is Append with options. With a producer an append can be repeated
// after any error, and its events are kept once.
func (s *Stream) AppendWith(ctx context.Context, opts AppendOptions, events ...Event) (
	appended Appended, err error,
) {
	err = s.append(ctx, &appended, &opts, events, nil)
	return appended, s.op("append to", err)
}

// End appends the last event and ends the stream with an outcome of 1 to 64
// bytes, for example "completed". The type of the event is set to "end". It returns the
// same errors as Append, and ErrEnded for a stream that has ended.
func (s *Stream) End(ctx context.Context, outcome string, event Event) (Appended, error) {
	return s.EndWith(ctx, AppendOptions{}, outcome, event)
}

// EndWith is End with options, of the last event, which is appended together with those before it.
func (s *Stream) EndWith(ctx context.Context, opts AppendOptions, outcome string, events ...Event) (
	appended Appended, err error,
) {
	if err := checkOutcome(outcome); err != nil {
		return Appended{}, s.op("end", err)
	}
	if len(events) == 0 {
		return Appended{}, s.op("end", fmt.Errorf("%w: no events", ErrInvalid))
	}
	events, end := endEvents(outcome, events)
	err = s.append(ctx, &appended, &opts, events, end)
	return appended, s.op("end", err)
}

// append sets appended if it returns no error. Returning an Appended from function to function costs a tenth of an
// append to memory.
func (s *Stream) append(
	ctx context.Context, appended *Appended, opts *AppendOptions, events []Event, end *End,
) error {
	size, err := s.log.check(opts, events, end != nil)
	if err != nil {
		return err
	}
	c := call{opts: *opts, end: end, size: size}
	err = s.use(ctx, func(lv *live) error {
		c.live, c.asked = lv, false
		return s.log.submit(ctx, &c, events)
	})
	if err != nil {
		return err
	}
	*appended = c.verdict.appended
	return nil
}

// check validates an append, whose last event is the end if ends is set, and returns the maximum number of bytes
// that it takes.
func (l *Log) check(opts *AppendOptions, events []Event, ends bool) (size int, err error) {
	if len(events) == 0 {
		return 0, fmt.Errorf("%w: no events", ErrInvalid)
	}
	for i := range events {
		if err := checkEvent(&events[i], l.opts.MaxEventBytes, ends && i == len(events)-1); err != nil {
			return 0, err
		}
		size += recordSize(&events[i])
	}
	if size > maxGroupBytes {
		return 0, fmt.Errorf("%w: an append of %d bytes, at most %d are taken", ErrInvalid, size, maxGroupBytes)
	}
	if err := opts.Owner.validate(); err != nil {
		return 0, err
	}
	for _, p := range [...]*ProducerID{opts.Producer, opts.Guard} {
		if p != nil && (p.ID == "" || len(p.ID) > maxTypeBytes) {
			return 0, fmt.Errorf("%w: a producer id is 1 to %d bytes long", ErrInvalid, maxTypeBytes)
		}
	}
	if p := opts.Producer; p != nil && p.PerEvent && p.Seq > math.MaxUint64-uint64(len(events)) {
		return 0, fmt.Errorf("%w: a producer has no numbers after %d", ErrInvalid, uint64(math.MaxUint64))
	}
	return size, nil
}

// Trim removes the events with a seq below before. It does nothing if they are already
// gone. The error is ErrInvalid if before is above the tail plus one.
func (s *Stream) Trim(ctx context.Context, before uint64) error {
	err := s.use(ctx, func(lv *live) error {
		return s.log.background.during(func() error { return s.log.trim(ctx, lv, "", before) })
	})
	return s.op("trim", err)
}

// Configure changes the retention and the labels of a stream, which may have ended, and returns its state afterwards.
// edit changes a copy of the configuration; if another replica changes the stream at the same time, edit is called
// again with the result. Meta and AccountLabel cannot be changed.
//
// A larger bound takes effect at the next append, whichever replica makes it. A smaller one removes the oldest events
// before Configure returns; a reader that has not received them gets an error of the window, as after Trim. A changed
// MaxAge moves the expiry of a stream that has ended. If the removal fails, the configuration is changed all the same,
// and the next append, or the same change again, removes the events.
//
// The error is ErrInvalid for a configuration that Create refuses, ErrQuota, ErrNotFound, ErrExpired or ErrUnavailable.
func (s *Stream) Configure(ctx context.Context, edit func(*StreamConfig)) (info StreamInfo, err error) {
	err = s.use(ctx, func(lv *live) error {
		return s.log.background.during(func() (err error) {
			info, err = s.log.configure(ctx, lv, edit)
			return err
		})
	})
	if err != nil {
		return StreamInfo{}, s.op("configure", err)
	}
	return info, nil
}

// Create creates a stream, or finds the one with the same configuration; created says which. The error is ErrConflict
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
		rounds := l.ended.rounds.Load()
		lv, older, created, err := l.createOrFind(ctx, owner, first, key, config)
		if isFull(err) && try < maxTries {
			if err = l.freeRoomFor(ctx, first, key, config, err, rounds); err == nil {
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
func (l *Log) freeRoomFor(ctx context.Context, first *call, key StreamKey, config StreamConfig, why error,
	rounds uint64,
) error {
	info := StreamInfo{Key: key, Config: config}
	more := info.Overhead()
	if first != nil {
		more += int64(first.size)
	}
	return l.freeRoom(ctx, l.usage.of(&info), more, why, rounds)
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
		if now := lv.state(); !now.Config.EqualButAccount(config) {
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
// append, by a separate lane: no other goroutine can know of the stream yet.
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
