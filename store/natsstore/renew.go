package natsstore

import (
	"context"
	"errors"

	"reprise"
)

// current is the newest message of a stream, as last, after a look at whether the server has lost some that were
// newer: one that was not synced, and has lost its power. Then the stream goes on in another epoch, so that who
// has seen what was lost is told.
func (s *Store) current(ctx context.Context, key reprise.StreamKey) (*entry, error) {
	last, err := s.last(ctx, key)
	if err != nil || !s.cache.lost(key, last) {
		return last, err
	}
	for {
		// An append that was acknowledged while the message was on its way is no loss.
		last, err := s.last(ctx, key)
		if err != nil || !s.cache.lost(key, last) {
			return last, err
		}
		renewed, err := s.renew(ctx, key, last)
		if !errors.Is(err, errWrongLast) {
			return renewed, err
		}
	}
}

// renew gives a stream another epoch that shares what is left of the one before. What it has is kept.
func (s *Store) renew(ctx context.Context, key reprise.StreamKey, last *entry) (*entry, error) {
	next := *last.state
	life := reprise.StreamInfo{Epoch: last.epoch, Tail: last.tail, Lineage: last.lineage}
	life.Renew(reprise.NewEpoch())
	next.epoch, next.lineage, next.renewed = life.Epoch, life.Lineage, true
	next.first, next.count, next.sum, next.parts = 0, 0, 0, nil
	next.batches, next.skips = last.follow(next.earliest)
	p := []post{{subject: s.subjects.stream(key), state: &next, expected: last.seq}}
	if s.post(ctx, p); p[0].err != nil {
		return nil, p[0].err
	}
	s.logger.Error("the NATS server has lost events that it had acknowledged; the stream goes on in another epoch",
		"stream", key.String(), "tail", next.tail)
	renewed := &entry{state: &next, seq: p[0].seq}
	s.cache.replace(key, renewed)
	return renewed, nil
}
