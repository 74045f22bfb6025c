package reprise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Stream is a handle on one stream of a Log. It is safe for concurrent use and
// needs no Close. When the stream is removed or swept, or its name is used
// again, the methods return ErrNotFound or ErrExpired and the caller must get another handle.
type Stream struct {
	log  *Log
	live atomic.Pointer[live]
	// bound is set once the handle has been used: from then on it stands for that one life of its
	// name. Before, the life in memory may be one that another replica has ended.
	bound atomic.Bool
}

func (l *Log) handle(lv *live) *Stream {
	s := &Stream{log: l}
	s.live.Store(lv)
	return s
}

// errEvicted is why a live cannot be used any more that was put out of memory.
var errEvicted = errors.New("evicted")

// Appended is the result of an append.
type Appended struct {
	// First and Last are the seqs of the events. Both are 0 for a duplicate that is older than
	// the producer's newest append. With ProducerID.PerEvent see there.
	First, Last uint64
	// Epoch is that of the events; see Stream.CursorIn.
	Epoch Epoch
	// Duplicate is true if an idempotent producer had appended them before.
	Duplicate bool
}

// AppendOptions are for appends that need more than the events.
type AppendOptions struct {
	// Producer makes the append idempotent.
	Producer *ProducerID
	// Owner is who appends. A stream that has an owner is appended to by that one alone; an Owner with a
	// higher Fence takes it over with the append. All others are refused with ErrFenced.
	Owner Owner
	// Trace, if it is not nil, is told how the append was committed. It must not be used before the append has
	// returned.
	Trace *AppendTrace
}

// ProducerID numbers the appends of an idempotent producer. An append whose Seq is not
// above the producer's newest is answered as a duplicate; one that leaves
// out a Seq is refused with ErrConflict, and one of an older Epoch with ErrFenced.
type ProducerID struct {
	// ID is 1 to 64 bytes of the producer's choice.
	ID string
	// Epoch is raised by a producer that starts anew; Seq then begins at 0.
	Epoch, Seq uint64
	// PerEvent numbers events in place of appends: Seq is the number of the first event, and each event takes one.
	// Events that the stream has already are left out, so a producer may send them again in other appends than before.
	// Appended then tells of the events that were added. It is a Duplicate if there were none; both First and Last are
	// then the seq of the last event, or 0 if the producer has sent others since.
	PerEvent bool
}

// Key is the name of the stream.
func (s *Stream) Key() StreamKey { return s.live.Load().key }

// use calls f with the stream in memory, once more if it had been evicted.
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
		if !again.descendsFrom(lv.currentEpoch()) && (s.bound.Swap(true) || !s.log.Shared()) {
			return ErrNotFound
		}
		if again == lv {
			return err
		}
		s.live.Store(again)
		lv = again
	}
}

// mayHaveMoved reports whether the name may have a life that is newer than the one in memory, with
// which a handle that was not used yet can begin.
func (s *Stream) mayHaveMoved(err error) bool {
	return err != nil && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired)) && !s.bound.Load() &&
		s.log.Shared()
}

// op says what was asked of which stream, around the errors of others.
func (s *Stream) op(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", name, s.Key(), err)
}

// Info is the state of the stream. While the stream is in memory it does no I/O, unless the
// store is shared with other replicas, which is asked each time.
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

// Cursor is the cursor just after the event seq, 0 for the beginning.
func (s *Stream) Cursor(seq uint64) Cursor {
	lv := s.live.Load()
	lv.mu.Lock()
	defer lv.mu.Unlock()
	lv.sign(s.log.opts.Keys)
	return lv.cursor(seq)
}

// CursorIn is the cursor just after the event seq of an epoch, such as that of Appended.Last: unlike Cursor it stays
// one of events that the store has lost meanwhile.
func (s *Stream) CursorIn(epoch Epoch, seq uint64) Cursor {
	if c := s.Cursor(seq); c.Epoch == epoch { // whose tag is there already
		return c
	}
	return Cursor{Seq: seq, Epoch: epoch, Tag: s.log.opts.Keys.cursorTags(s.Key(), epoch)[0]}
}

// Append appends events and returns when they are kept as safely as the Store states;
// no reader is shown them before. Either all of them are appended, next to each other,
// or none. The events are copied.
//
// The error is ErrInvalid for events that are not allowed, ErrFenced for a stream that
// another owns, ErrEnded after the end, ErrQuota, ErrUnavailable (in which case the events may have been kept: see
// AppendWith), or the cause if ctx is cancelled before the commit begins.
func (s *Stream) Append(ctx context.Context, events ...Event) (Appended, error) {
	return s.AppendWith(ctx, AppendOptions{}, events...)
}

// AppendWith is Append with options. With a producer an append can be tried again
// after any error, and its events are kept once.
func (s *Stream) AppendWith(ctx context.Context, opts AppendOptions, events ...Event) (Appended, error) {
	appended, err := s.append(ctx, opts, events, nil)
	return appended, s.op("append to", err)
}

// End appends the last event and ends the stream with an outcome of 1 to 64
// bytes, for example "completed". The event's type is set to "end". The errors are
// those of Append; a stream that has ended answers ErrEnded.
func (s *Stream) End(ctx context.Context, outcome string, event Event) (Appended, error) {
	return s.EndWith(ctx, AppendOptions{}, outcome, event)
}

// EndWith is End with options.
func (s *Stream) EndWith(ctx context.Context, opts AppendOptions, outcome string, event Event) (Appended, error) {
	if err := checkOutcome(outcome); err != nil {
		return Appended{}, s.op("end", err)
	}
	event.Type = TypeEnd
	if event.Time.IsZero() {
		event.Time = now()
	}
	event.Time = time.UnixMilli(event.Time.UnixMilli()).UTC() // as it is kept
	end := &End{Outcome: outcome, Time: event.Time, Data: append([]byte(nil), event.Data...)}
	appended, err := s.append(ctx, opts, []Event{event}, end)
	return appended, s.op("end", err)
}

func checkOutcome(outcome string) error {
	if outcome == "" || len(outcome) > maxTypeBytes {
		return fmt.Errorf("%w: an outcome is 1 to %d bytes long", ErrInvalid, maxTypeBytes)
	}
	return nil
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (s *Stream) append(ctx context.Context, opts AppendOptions, events []Event, end *End) (Appended, error) {
	size, err := s.log.check(opts, events, end != nil)
	if err != nil {
		return Appended{}, err
	}
	c := calls.Get().(*call)
	c.opts, c.end, c.size = opts, end, size
	c.events = append(c.events, events...) // a copy, so that the caller's slice can lie on the stack
	err = s.use(ctx, func(lv *live) error {
		c.live, c.asked = lv, false
		return s.log.submit(ctx, c)
	})
	if err != nil {
		return Appended{}, err // c may still lie in a group that has not been taken
	}
	appended := c.verdict.appended
	c.release()
	return appended, nil
}

// maxIdleEvents bounds the room for events that a call keeps while it is not in use.
const maxIdleEvents = 256

// release gives back a call whose work is done. The events of a small one are left to be
// overwritten, and its other fields are set again by who takes it.
func (c *call) release() {
	if cap(c.events) > maxIdleEvents {
		c.events = nil
	}
	c.events = c.events[:0]
	calls.Put(c)
}

// check validates an append and returns the most bytes that it takes.
func (l *Log) check(opts AppendOptions, events []Event, end bool) (size int, err error) {
	if len(events) == 0 {
		return 0, fmt.Errorf("%w: no events", ErrInvalid)
	}
	for i := range events {
		if err := checkEvent(&events[i], l.opts.MaxEventBytes, end); err != nil {
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

// Trim forgets the events with a seq below before. Trimming less than what is already
// gone does nothing; before is at most the tail plus one, or ErrInvalid.
func (s *Stream) Trim(ctx context.Context, before uint64) error {
	err := s.use(ctx, func(lv *live) error {
		return s.log.background.during(func() error { return s.log.trim(ctx, lv, before) })
	})
	return s.op("trim", err)
}
