package reprise

import (
	"context"
	"errors"
	"fmt"
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
	// Trace, if not nil, is filled with how the append was committed. It must not be used before the append has
	// returned.
	Trace *AppendTrace
}

// ProducerID numbers the appends of an idempotent producer. An append is a duplicate if its
// Seq is not above the producer's newest one. It is refused with ErrConflict if it skips a Seq,
// and with ErrFenced if its Epoch is older.
type ProducerID struct {
	// ID is 1 to 64 bytes, chosen by the producer.
	ID string
	// Epoch is raised by a producer that starts over; Seq then begins at 0.
	Epoch, Seq uint64
	// PerEvent numbers events instead of appends: Seq is the number of the first event, and each event takes one.
	// Events that the stream already has are skipped, so a producer may send them again in different appends.
	// Appended then describes the events that were added. If there were none, Duplicate is true, and First and Last
	// are the seq of the last event, or 0 if the producer has sent others since.
	PerEvent bool
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

// CursorIn returns the cursor just after the event seq of an epoch, such as that of Appended.Last. Unlike Cursor, it
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
// bytes, for example "completed". The type of the event is set to "end". The errors are
// those of Append; for a stream that has ended it is ErrEnded.
func (s *Stream) End(ctx context.Context, outcome string, event Event) (Appended, error) {
	return s.EndWith(ctx, AppendOptions{}, outcome, event)
}

// EndWith is End with options.
func (s *Stream) EndWith(ctx context.Context, opts AppendOptions, outcome string, event Event) (
	appended Appended, err error,
) {
	if err := checkOutcome(outcome); err != nil {
		return Appended{}, s.op("end", err)
	}
	return s.endWith(ctx, opts, outcome, []Event{event})
}

// endWith is EndWith of the last event, which is appended together with those before it.
func (s *Stream) endWith(ctx context.Context, opts AppendOptions, outcome string, events []Event) (
	appended Appended, err error,
) {
	events, end := endEvents(outcome, events)
	err = s.append(ctx, &appended, &opts, events, end)
	return appended, s.op("end", err)
}

// endEvents returns a copy of events, the last of which is the end of a stream.
func endEvents(outcome string, events []Event) ([]Event, *End) {
	events = slices.Clone(events)
	last := len(events) - 1
	event, end := endEvent(outcome, events[last])
	events[last] = event
	return events, end
}

// endEvent returns event as the end of a stream.
func endEvent(outcome string, event Event) (Event, *End) {
	event.Type = TypeEnd
	if event.Time.IsZero() {
		event.Time = now()
	}
	event.Time = time.UnixMilli(event.Time.UnixMilli()).UTC() // in the precision that is stored
	return event, &End{Outcome: outcome, Time: event.Time, Data: append([]byte(nil), event.Data...)}
}

func checkOutcome(outcome string) error {
	if outcome == "" || len(outcome) > maxTypeBytes {
		return fmt.Errorf("%w: an outcome is 1 to %d bytes long", ErrInvalid, maxTypeBytes)
	}
	return nil
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

// check validates an append, of which the last event is the end if ends is set, and returns the maximum number of bytes
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
	if p := opts.Producer; p != nil && (p.ID == "" || len(p.ID) > maxTypeBytes) {
		return 0, fmt.Errorf("%w: a producer id is 1 to %d bytes long", ErrInvalid, maxTypeBytes)
	} else if p != nil && p.PerEvent && p.Seq > math.MaxUint64-uint64(len(events)) {
		return 0, fmt.Errorf("%w: a producer has no numbers after %d", ErrInvalid, uint64(math.MaxUint64))
	}
	return size, nil
}

// Trim removes the events with a seq below before. It does nothing if they are already
// gone. The error is ErrInvalid if before is above the tail plus one.
func (s *Stream) Trim(ctx context.Context, before uint64) error {
	err := s.use(ctx, func(lv *live) error {
		return s.log.background.during(func() error { return s.log.trim(ctx, lv, before) })
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
