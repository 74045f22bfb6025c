package natsstore

import (
	"context"
	"errors"
	"time"

	"reprise"
)

// Remove trims or removes a stream; see reprise.Store. The server's copy of data before the window is purged shortly
// afterwards.
func (s *Store) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) (err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for full := false; ; {
		server := s.server()
		var last *entry
		if spec.Trim != 0 {
			if last, err = s.current(ctx, key); err == nil {
				err = s.trim(ctx, key, last, spec)
			}
		} else if last, err = s.readable(ctx, key); err == nil {
			err = s.removeWhole(ctx, server, key, last, spec)
		}
		switch {
		case errors.Is(err, errWrongLast):
		case spec.Trim != 0 && isFull(err) && !full:
			// A trim is a message. There may be room for it once unneeded data is purged.
			full = true
			if err := s.tidy.purgeOld(ctx, key); err != nil && !errors.Is(err, errWrongLast) {
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
	p := []post{{subject: s.subjects.stream(key), state: &next, expected: last.seq, server: last.server}}
	if s.post(ctx, p); p[0].err != nil {
		return p[0].err
	}
	s.cache.put(key, &entry{state: &next, seq: p[0].seq, server: last.server})
	s.tidy.trim(key)
	return nil
}

func (s *Store) removeWhole(ctx context.Context, server string, key reprise.StreamKey, last *entry,
	spec reprise.RemoveSpec,
) error {
	switch {
	case last == nil:
		return nil
	case !last.gone:
		if spec.Epoch != "" && spec.Epoch != last.epoch {
			return nil
		}
	case spec.Epoch != "" || !spec.Remember.IsZero() || last.remember == 0:
		return nil // the stream does not exist, and its mark stays
	}
	return s.bury(ctx, server, key, last, spec.Remember)
}

// graveTime is the time in seconds for which the message that removes a stream without a mark is kept.
const graveTime = 60

// bury writes a message that marks the stream as removed, and as expired if remember is not zero. The server deletes
// the message itself. server is the one that last was read from.
func (s *Store) bury(ctx context.Context, server string, key reprise.StreamKey, last *entry, remember time.Time) error {
	st := &state{gone: true}
	ttl := int64(graveTime)
	if !remember.IsZero() {
		st.remember = remember.Add(time.Millisecond - 1).UnixMilli()
		ttl += max(0, int64(time.Until(remember)/time.Second))
	}
	p := []post{{
		subject: s.subjects.stream(key), state: st, expected: last.seq, server: server, alone: true, ttl: ttl,
	}}
	if s.post(ctx, p); isFull(p[0].err) && !last.gone {
		// There is no room even for this message. Purge the older messages of the stream, which are to be removed
		// anyway. The newest message stays, because it shows other replicas that the stream exists.
		if err := s.makeRoom(ctx, server, key, last); err != nil {
			return err
		}
		s.post(ctx, p)
	}
	if p[0].err != nil {
		return p[0].err
	}
	s.cache.forget(key)
	if !last.gone {
		s.tidy.deleteRecord(server, key, last.state)
		if last.bulky {
			s.tidy.purge(server, key, p[0].seq)
		}
	}
	return nil
}

// makeRoom purges all messages of a stream except the newest.
func (s *Store) makeRoom(ctx context.Context, server string, key reprise.StreamKey, last *entry) error {
	err := s.tidy.purgeSubject(ctx, server, s.subjects.stream(key), last.seq)
	if last.bulky {
		err = errors.Join(err, s.tidy.purgeSubject(ctx, server, s.subjects.parts(key), last.seq),
			s.tidy.purgeSubject(ctx, server, s.subjects.data(key), last.seq))
	}
	return err
}
