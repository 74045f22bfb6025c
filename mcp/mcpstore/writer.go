package mcpstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"reprise"
)

// The types of events.
const (
	typeMessage = reprise.TypeMessage
	// typePrime is the type of an event without data, which only has a number.
	typePrime = "prime"
	// typeLost is the type of an event in the place of a message that could not be kept.
	typeLost = "lost"
)

const (
	// itemBytes is what a message that waits takes beside its data.
	itemBytes = 64
	// maxBatch and maxBatchBytes bound the messages that are stored by one append. The first may be larger.
	maxBatch, maxBatchBytes = 256, 1 << 20
)

// errRetired is the error of a writer in whose place there may be another.
var errRetired = errors.New("retired")

// item is a message that waits for the store, or a run of messages that are lost.
type item struct {
	data []byte
	lost int
}

func (it item) count() uint64 { return uint64(max(1, it.lost)) }

// writer appends to one stream. It has a queue of its own, and uses a reprise.Appender for single tries alone: the
// seq of a message is its id on the wire and must be known before the message is stored, a message that the Log
// refuses is replaced by one that says so, and the streams of a store that is away are tried by a few goroutines
// together (see keeper.flushAll), not by one each.
type writer struct {
	keeper   *keeper
	ref      ref
	key      reprise.StreamKey
	stream   *reprise.Stream   // nil if gone from the beginning
	appender *reprise.Appender // to stream
	// turn is held by the one that appends, so that messages get their numbers in the order in which they come.
	turn sync.Mutex

	mu sync.Mutex
	// stored is the seq of the last event that is known to be stored; behind it come the pending.
	stored  uint64
	pending []item
	// attempt is how many of the pending the append is made of that is under way or in doubt: tried again, it must be
	// the same.
	attempt int
	// trim is the seq before which there is a message that was lost; 0 if none is to be trimmed.
	trim  uint64
	dirty bool  // only the keeper's flushDirty stores the pending
	gone  error // why there is nothing to be appended to
	last  time.Time
}

func newWriter(k *keeper, r ref, s *reprise.Stream, tail uint64) *writer {
	w := &writer{keeper: k, ref: r, key: k.key(r), stream: s, stored: tail, last: time.Now()}
	if s != nil { // a client that has left is no reason to lose a message, so that the context is never done
		w.appender = s.Appender(context.Background(), nil)
	}
	return w
}

// append takes a message and returns its seq. Where the error is not nil and seq is not 0, the message was lost and
// has its seq nevertheless.
func (w *writer) append(data []byte) (seq uint64, err error) {
	w.turn.Lock()
	defer w.turn.Unlock()
	n := int64(len(data)) + itemBytes
	it := item{data: data}
	if !w.keeper.room.take(n, w.keeper.opts.MaxWait) {
		it = item{lost: 1}
		err = fmt.Errorf("append to %s: %w: %d bytes of messages wait for the store",
			w.key, reprise.ErrUnavailable, w.keeper.room.size)
	}
	seq, direct, gone := w.push(it)
	if gone != nil {
		if err == nil {
			w.keeper.room.give(n)
		}
		return 0, gone
	}
	if err != nil {
		w.keeper.opts.Logger.Error("a message was lost", "stream", w.key.String(), "seq", seq, "error", err)
	}
	if !direct {
		return seq, err
	}
	return seq, errors.Join(err, w.storeNow())
}

// push gives an item its place. direct is true if the caller is to store it.
func (w *writer) push(it item) (seq uint64, direct bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone != nil {
		return 0, false, w.gone
	}
	w.last = time.Now()
	if n := len(w.pending); it.lost > 0 && n > w.attempt && w.pending[n-1].lost > 0 && w.pending[n-1].lost < maxBatch {
		w.pending[n-1].lost++
	} else {
		if w.dirty {
			it.data = bytes.Clone(it.data) // it is used after the caller has gone on
		}
		w.pending = append(w.pending, it)
	}
	return w.tail(), !w.dirty, nil
}

// tail is the seq of the last message. The caller holds w.mu.
func (w *writer) tail() uint64 {
	tail := w.stored
	for _, it := range w.pending {
		tail += it.count()
	}
	return tail
}

// storeNow stores what is pending, or leaves it to the keeper.
func (w *writer) storeNow() error {
	err := w.flush()
	if !mayPass(err) {
		return err
	}
	w.mu.Lock()
	w.dirty = true
	for i, it := range w.pending {
		w.pending[i].data = bytes.Clone(it.data)
	}
	w.mu.Unlock()
	w.keeper.opts.Logger.Warn("messages wait for the store", "stream", w.key.String(), "error", err)
	w.keeper.markDirty(w)
	return nil
}

// mayPass reports whether trying again may help.
func mayPass(err error) bool {
	return errors.Is(err, reprise.ErrUnavailable) || errors.Is(err, reprise.ErrQuota)
}

// flush stores what is pending. One goroutine at a time calls it. An error that may pass leaves the rest pending; any
// other means that a message was lost, or all of them with their stream.
func (w *writer) flush() error {
	var lost error
	for {
		events, trim := w.nextAttempt()
		switch {
		case len(events) > 0:
			appended, err := w.appender.Try(events...)
			if err == nil {
				err = w.settle(appended, uint64(len(events)))
			}
			if errors.Is(err, reprise.ErrInvalid) {
				lost = errors.Join(lost, w.refused(err))
				continue
			}
			if err != nil {
				return w.failed(err)
			}
		case trim > 0:
			if err := w.stream.Trim(context.Background(), trim); err != nil {
				return w.failed(err)
			}
			w.trimmed(trim)
		default:
			return lost
		}
	}
}

// nextAttempt is what is to be appended next, and otherwise how far is to be trimmed.
func (w *writer) nextAttempt() (events []reprise.Event, trim uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone != nil {
		return nil, 0
	}
	if w.attempt == 0 {
		size := 0
		for _, it := range w.pending {
			size += len(it.data) + itemBytes*int(it.count())
			if w.attempt > 0 && (w.attempt == maxBatch || size > maxBatchBytes) {
				break
			}
			w.attempt++
		}
	}
	for _, it := range w.pending[:w.attempt] {
		events = it.appendEvents(events)
	}
	return events, w.trim
}

func (it item) appendEvents(events []reprise.Event) []reprise.Event {
	if it.lost > 0 {
		for range it.lost {
			events = append(events, reprise.Event{Type: typeLost})
		}
		return events
	}
	e := reprise.Event{Type: typeMessage, Data: it.data}
	switch {
	case len(it.data) == 0:
		e.Type = typePrime
	case bytes.IndexByte(it.data, '\n') < 0 && bytes.IndexByte(it.data, '\r') < 0:
		e.Format = reprise.FormatJSON
	}
	return append(events, e)
}

// settle takes the attempt off the pending.
func (w *writer) settle(appended reprise.Appended, count uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if appended.First != w.stored+1 || appended.Last != w.stored+count {
		return fmt.Errorf("%w: somebody else appends to the stream", reprise.ErrConflict)
	}
	freed := int64(0)
	for i, it := range w.pending[:w.attempt] {
		w.stored += it.count()
		if it.lost > 0 {
			w.trim = w.stored + 1
		} else {
			freed += int64(len(it.data)) + itemBytes
		}
		w.pending[i] = item{}
	}
	w.pending = w.pending[w.attempt:]
	if len(w.pending) == 0 {
		w.pending = nil
	}
	w.attempt = 0
	w.keeper.room.give(freed)
	return nil
}

// refused makes smaller an attempt that the Log does not take, and puts a lost message in the place of one that is
// too large alone.
func (w *writer) refused(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.gone != nil || w.attempt == 0:
		return nil
	case w.attempt > 1:
		w.attempt = 1
		return nil
	}
	w.keeper.room.give(int64(len(w.pending[0].data)) + itemBytes)
	w.pending[0] = item{lost: 1}
	w.keeper.opts.Logger.Error("a message was lost", "stream", w.key.String(), "seq", w.stored+1, "error", err)
	return err
}

// failed gives the stream up unless the error may pass.
func (w *writer) failed(err error) error {
	if !mayPass(err) {
		w.abandon(err)
	}
	return err
}

// abandon lets go of a stream that cannot be appended to any more.
func (w *writer) abandon(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone != nil {
		return
	}
	w.gone = why
	freed := int64(0)
	for _, it := range w.pending {
		if it.lost == 0 {
			freed += int64(len(it.data)) + itemBytes
		}
	}
	w.pending, w.attempt, w.trim = nil, 0, 0
	w.keeper.room.give(freed)
}

func (w *writer) trimmed(trim uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trim == trim {
		w.trim = 0
	}
}

// retire ends a writer that was not used since, and has nothing to do.
func (w *writer) retire(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 || w.trim > 0 || w.dirty || w.last.After(since) {
		return false
	}
	if w.gone == nil {
		w.gone = errRetired
	}
	return true
}
