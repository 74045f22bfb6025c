package natsstore

import (
	"context"

	"reprise"
)

// renew moves a stream to another epoch, which shares the remaining events with the previous one. lost means that
// events are known to be lost.
func (s *Store) renew(ctx context.Context, key reprise.StreamKey, last *entry, lost bool) (*entry, error) {
	next := *last.state
	life := reprise.StreamInfo{Epoch: last.epoch, Tail: last.tail, Lineage: last.lineage}
	life.Renew(reprise.NewEpoch())
	next.epoch, next.lineage, next.renewed = life.Epoch, life.Lineage, true
	next.first, next.count, next.sum, next.parts = 0, 0, 0, nil
	next.batches, next.skips = last.follow(next.earliest)
	p := []post{{subject: s.subjects.stream(key), state: &next, expected: last.seq, server: last.server}}
	if s.post(ctx, p); p[0].err != nil {
		return nil, p[0].err
	}
	if lost {
		s.logger.Error("the NATS server has lost events that it had acknowledged; the stream goes on in another epoch",
			"stream", key.String(), "tail", next.tail)
	}
	renewed := &entry{state: &next, seq: p[0].seq, server: last.server}
	s.cache.replace(key, renewed)
	return renewed, nil
}
