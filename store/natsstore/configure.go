package natsstore

import (
	"context"
	"errors"

	"reprise"
)

// configure changes the configuration of a stream whose newest message is last; see reprise.Store.Create. It writes the
// record with the configuration first, then the note of the expiry, and then the message that points to them. The error
// is errWrongLast if another message came first.
func (s *Store) configure(ctx context.Context, server string, want *reprise.StreamInfo, last *entry) (
	reprise.StreamInfo, error,
) {
	if last == nil || last.gone || last.epoch != want.Epoch {
		return reprise.StreamInfo{}, reprise.ErrNotFound
	}
	have, err := s.info(ctx, want.Key, last.state)
	switch {
	case err != nil:
		return reprise.StreamInfo{}, err
	case have.Revision == want.Revision && have.Config.Equal(want.Config):
		return have, nil
	case have.Revision+1 != want.Revision:
		return reprise.StreamInfo{}, reprise.ErrConflict
	}
	body := (&record{key: want.Key, epoch: want.Epoch, config: want.Config}).encode()
	records := []post{{subject: s.subjects.index(want.Key), body: body, unconditional: true}}
	if s.post(ctx, records); records[0].err != nil {
		return reprise.StreamInfo{}, records[0].err
	}
	next := *last.state
	next.revision, next.config = want.Revision, records[0].seq
	next.first, next.count, next.sum, next.parts = 0, 0, 0, nil
	next.batches, next.skips = last.follow(next.earliest)
	if next.end != nil && want.End != nil {
		end := *next.end
		end.Expires = want.End.Expires
		next.end = &end
		e := ending{key: want.Key, epoch: next.epoch, expires: end.Expires.UnixMilli()}
		note := []post{{subject: s.subjects.minute(end.Expires), body: e.encode(), unconditional: true}}
		if s.post(ctx, note); note[0].err != nil {
			return reprise.StreamInfo{}, note[0].err
		}
	}
	p := []post{{subject: s.subjects.stream(want.Key), state: &next, expected: last.seq, server: server}}
	if s.post(ctx, p); p[0].err != nil {
		if errors.Is(p[0].err, errWrongLast) {
			s.tidy.delete(server, s.index, records[0].seq)
		}
		return reprise.StreamInfo{}, p[0].err
	}
	// The record before may be about to be read. List deletes it later.
	s.cache.put(want.Key, &entry{state: &next, seq: p[0].seq, server: server})
	return s.info(ctx, want.Key, &next)
}

// hold takes a part of Store.changing, which the caller releases.
func (s *Store) hold(ctx context.Context, part int64) error {
	if s.changing.Acquire(ctx, part) != nil {
		return ended(ctx)
	}
	return nil
}
