package natsstore

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"reprise"
)

// A message points to earlier batches: skips[k] is the newest batch before it whose number, counted from 0 in each
// stream, is divisible by 4 to the power of k. So skips[0] is the batch just before. From any message, going each
// time to the oldest of them that still lies behind what is looked for, that is found in O(log n) steps.

// skipBase is the factor between two levels of skips.
const skipBase = 4

// advance notes the batch with that number at p.
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

// locate finds the sequence from which on the next batch of the stream is the one that holds the event seq. That
// must be in the window, and before the batch in last.
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
		begins := e.first // with which event what e tells of begins
		if e.count == 0 {
			begins = e.tail + 1
		}
		if e.index != last.index || begins != nearest.first {
			return 0, fmt.Errorf("%w: message %d", errGone, nearest.seq)
		}
	}
}

// toward is the oldest batch known to e that begins behind the event seq, or the one that holds it.
func (e *entry) toward(seq uint64) (p skip, found bool) {
	if len(e.skips) == 0 {
		return skip{}, false
	}
	if e.skips[0].first <= seq {
		return e.skips[0], true // it reaches to what is behind seq
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

// next is the first message of a stream from a sequence on, which was there.
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
