package natsstore

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"reprise"
)

// A message points to earlier batches: skips[k] is the newest earlier batch whose number, counted from 0 in each
// stream, is divisible by 4 to the power of k. So skips[0] is the previous batch. A search follows, from each message,
// the oldest skip that is still after the wanted event. It takes O(log n) steps.

// skipBase is the factor between two levels of skips.
const skipBase = 4

// advance adds the batch with the given number at p.
func advance(skips []skip, number uint64, p skip) []skip {
	for k, step := 0, uint64(1); number%step == 0; k, step = k+1, step*skipBase {
		if k == len(skips) {
			skips = append(skips, p)
		}
		skips[k] = p
		if number == 0 {
			break
		}
	}
	return skips
}

// locate returns a sequence from which on the next batch of the stream is the one that holds the event seq. seq must be
// in the window and before the batch in last.
func (s *Store) locate(ctx context.Context, key reprise.StreamKey, last *entry, seq uint64) (uint64, error) {
	at, beyond := s.cache.place(key, last, seq)
	if at.first == seq {
		return at.seq, nil
	}
	e := last
	for {
		nearest, found := e.toward(seq)
		if found {
			s.cache.addPlace(key, last, nearest)
			return nearest.seq, nil
		}
		if beyond.first > seq && (nearest.first == 0 || beyond.first < nearest.first) {
			nearest = beyond
		}
		beyond = skip{}
		if nearest.first == 0 {
			return 0, fmt.Errorf("%w: the batch with event %d", errGone, seq)
		}
		var err error
		if e, err = s.next(ctx, key, nearest.seq); err != nil {
			return 0, err
		}
		if e.index != last.index || e.begins() != nearest.first {
			return 0, fmt.Errorf("%w: message %d", errGone, nearest.seq)
		}
	}
}

// begins returns the first event that a reader finds from e on.
func (e *entry) begins() uint64 {
	if e.count == 0 {
		return e.tail + 1
	}
	return e.first
}

// toward returns the oldest batch known to e that begins after the event seq, or the one that holds it.
func (e *entry) toward(seq uint64) (p skip, found bool) {
	if len(e.skips) == 0 {
		return skip{}, false
	}
	if e.skips[0].first <= seq {
		return e.skips[0], true // it reaches to what follows seq
	}
	for _, k := range e.skips {
		if k.first == seq {
			return k, true
		}
		if k.first > seq {
			p = k
		}
	}
	return p, false
}

// next returns the first message of a stream at or after a sequence. The message is known to have existed.
func (s *Store) next(ctx context.Context, key reprise.StreamKey, seq uint64) (*entry, error) {
	req := &getRequest{Seq: seq, Next: s.subjects.stream(key)}
	for patience := time.Now().Add(s.lag()); ; {
		var found *entry
		_, err := s.direct(ctx, s.name, req, func(msg *nats.Msg) (err error) {
			found, err = entryOf(msg)
			return err
		})
		switch {
		case err != nil:
			return nil, s.explain(key, err)
		case found != nil:
			return found, nil
		case time.Now().After(patience):
			return nil, fmt.Errorf("%w: message %d", errGone, seq)
		}
		if err := pause(ctx, lagStep); err != nil {
			return nil, err
		}
	}
}
