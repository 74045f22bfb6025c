package natsstore

import (
	"context"
	"errors"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"reprise"
)

// mend repairs a window that begins before the batches that are there: a loss of power has taken the message that moved
// the window, and not the purge after it. It moves the window to the first batch, and reports whether it has or another
// message has come first. Anything else that is missing is damage, and so is everything if the server was never started
// again, or keeps what it has acknowledged.
func (s *Store) mend(ctx context.Context, key reprise.StreamKey, last *entry) (mended bool, err error) {
	at, err := s.started(ctx)
	if err != nil || at.first == 0 {
		return false, err
	}
	first, err := s.next(ctx, key, 1)
	if errors.Is(err, errGone) || err == nil && first.begins() <= last.earliest {
		return false, nil // all is missing, or not the beginning
	}
	if err != nil {
		return false, err
	}
	left, err := s.remains(ctx, key, last)
	if err != nil || left == nil || left.first <= last.earliest {
		return false, err
	}
	if last.server == "" { // the stream is still in the epoch before the start, which takes no more messages
		return false, unavailable(errNotRenewed)
	}
	next := *last.state
	next.earliest, next.kept = left.first, left.bytes
	next.first, next.count, next.sum, next.parts = 0, 0, 0, nil
	next.batches, next.skips = last.follow(next.earliest)
	p := []post{{subject: s.subjects.stream(key), state: &next, expected: last.seq, server: last.server}}
	if s.post(ctx, p); p[0].err != nil {
		return false, p[0].err
	}
	s.logger.Error("the NATS server has lost the move of a window, and not the purge after it; the window is moved again",
		"stream", key.String(), "was", last.earliest, "earliest", next.earliest)
	s.cache.replace(key, &entry{state: &next, seq: p[0].seq, server: last.server})
	return true, nil
}

// sameWindow reports whether now, the newest message of the stream, has the window of e, which an append may have made
// longer.
func (e *entry) sameWindow(now *entry) bool {
	return now != nil && !now.gone && now.sameLife(e) && now.earliest == e.earliest
}

// remains are the batches of a stream, without a hole up to its tail.
type remains struct {
	first uint64 // event
	bytes int64
}

// remains returns nil if there is a hole or no batch. The error wraps reprise.ErrUnavailable if the server has not sent
// each message that it has.
func (s *Store) remains(ctx context.Context, key reprise.StreamKey, last *entry) (*remains, error) {
	subject := s.subjects.stream(key)
	info, err := s.streamInfo(ctx, s.name, subject) // counts messages without reading them
	if err != nil {
		return nil, err
	}
	left, next, read, whole := &remains{}, uint64(0), uint64(0), true
	err = s.headers(ctx, s.name, subject, jetstream.DeliverAllPolicy, func(msg jetstream.Msg) error {
		_, e, err := s.oneState(msg)
		if err != nil {
			return err
		}
		read++
		if e.seq > last.seq || e.gone || e.count == 0 {
			return nil
		}
		if next == 0 {
			left.first, next = e.first, e.first
		}
		whole = whole && e.index == last.index && e.first == next
		next = e.first + uint64(e.count)
		size, err := strconv.ParseInt(msg.Headers().Get(nats.MsgSize), 10, 64)
		for _, p := range e.parts {
			size += int64(p.len)
		}
		left.bytes += size
		return err
	})
	if err == nil && read < info.State.Subjects[subject] { // the server was too slow, or a purge came in between
		err = unavailable(errIncomplete)
	}
	if err != nil || !whole || next != last.tail+1 {
		return nil, err
	}
	return left, nil
}
