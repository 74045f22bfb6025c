package natsstore

import (
	"context"
	"errors"
	"time"

	"reprise"
)

// Remove forgets events or a whole stream; see reprise.Store. What is behind the window is taken from the
// server a moment later.
func (s *Store) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) (err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for full := false; ; {
		last, err := s.current(ctx, key)
		if err != nil {
			return err
		}
		if spec.Trim != 0 {
			err = s.trim(ctx, key, last, spec)
		} else {
			err = s.removeWhole(ctx, key, last, spec)
		}
		switch {
		case errors.Is(err, errWrongLast):
		case spec.Trim != 0 && isFull(err) && !full:
			// A trim is a message, for which there may be room without what is of no use any more.
			full = true
			if err := s.tidy.purgeOld(ctx, key); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (s *Store) trim(ctx context.Context, key reprise.StreamKey, last *entry, spec reprise.RemoveSpec) error {
	if last == nil || last.gone {
		return reprise.ErrNotFound
	}
	earliest := min(spec.Trim, last.tail+1)
	if spec.Epoch != "" && spec.Epoch != last.epoch || earliest <= last.earliest {
		return nil
	}
	next := *last.state
	next.earliest, next.kept = earliest, spec.Kept
	next.first, next.count, next.sum, next.parts = 0, 0, 0, nil
	next.batches, next.skips = last.follow(earliest)
	p := []post{{subject: s.subjects.stream(key), state: &next, expected: last.seq}}
	if s.post(ctx, p); p[0].err != nil {
		return p[0].err
	}
	s.cache.put(key, &entry{state: &next, seq: p[0].seq})
	s.tidy.trim(key)
	return nil
}

func (s *Store) removeWhole(ctx context.Context, key reprise.StreamKey, last *entry, spec reprise.RemoveSpec) error {
	switch {
	case last == nil:
		return nil
	case !last.gone:
		if spec.Epoch != "" && spec.Epoch != last.epoch {
			return nil
		}
	case spec.Epoch != "" || !spec.Remember.IsZero() || last.remember == 0:
		return nil // there is no stream, and the mark of it stays
	}
	return s.bury(ctx, key, last, spec.Remember)
}

// graveTime is for how many seconds the message that removes a stream stays without a mark.
const graveTime = 60

// bury puts a message in the place of a stream that says that it is gone, and a mark if remember is not zero. The
// server forgets it by itself.
func (s *Store) bury(ctx context.Context, key reprise.StreamKey, last *entry, remember time.Time) error {
	st := &state{gone: true}
	ttl := int64(graveTime)
	if !remember.IsZero() {
		st.remember = remember.Add(time.Millisecond - 1).UnixMilli()
		ttl += max(0, int64(time.Until(remember)/time.Second))
	}
	p := []post{{subject: s.subjects.stream(key), state: st, expected: last.seq, alone: true, ttl: ttl}}
	if s.post(ctx, p); isFull(p[0].err) && !last.gone {
		// There is no room for even this message. What is to go anyway makes some, all but the newest message, by which
		// others find out that the stream is there.
		if err := s.makeRoom(ctx, key, last); err != nil {
			return err
		}
		s.post(ctx, p)
	}
	if p[0].err != nil {
		return p[0].err
	}
	s.cache.forget(key)
	if !last.gone {
		s.tidy.delete(s.index, last.index)
		if last.bulky {
			s.tidy.purge(key, p[0].seq)
		}
	}
	return nil
}

// makeRoom purges all of a stream but its newest message.
func (s *Store) makeRoom(ctx context.Context, key reprise.StreamKey, last *entry) error {
	err := s.tidy.purgeSubject(ctx, s.subjects.stream(key), last.seq)
	if last.bulky {
		err = errors.Join(err, s.tidy.purgeSubject(ctx, s.subjects.parts(key), last.seq),
			s.tidy.purgeSubject(ctx, s.subjects.data(key), last.seq))
	}
	return err
}
