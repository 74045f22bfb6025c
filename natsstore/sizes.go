package natsstore

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"reprise"
)

// Sizes returns what each tenant keeps; see reprise.Sizer. The server hands out the header of the newest
// message of each stream: the cost is that of as many small messages as there are streams.
func (s *Store) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	sizes := map[reprise.Tenant]reprise.Size{}
	err = s.eachState(ctx, func(key reprise.StreamKey, st *state) {
		if !st.gone {
			size := sizes[key.Tenant]
			size.Streams++
			size.Events += int64(st.tail + 1 - st.earliest)
			size.Bytes += st.kept
			sizes[key.Tenant] = size
		}
	})
	if err != nil {
		return nil, err
	}
	return sizes, nil
}

// eachState calls f with the state of each stream, those that are gone included.
func (s *Store) eachState(ctx context.Context, f func(reprise.StreamKey, *state)) error {
	consumer, err := s.js.CreateConsumer(ctx, s.name, jetstream.ConsumerConfig{
		FilterSubject: s.name + ".s.>", DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: time.Minute, Replicas: 1,
	})
	if err != nil {
		return s.clientError(ctx, err)
	}
	name := consumer.CachedInfo().Name
	defer s.tidy.dropConsumer(name)
	for left := int(consumer.CachedInfo().NumPending); left > 0; {
		const most = 1000
		batch, err := consumer.Fetch(min(left, most), jetstream.FetchContext(ctx))
		if err != nil {
			return s.clientError(ctx, err)
		}
		n := 0
		for msg := range batch.Messages() {
			n++
			if err := s.oneState(msg, f); err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil {
			return s.clientError(ctx, err)
		}
		if n == 0 {
			return unavailable(errIncomplete)
		}
		left -= n
	}
	return nil
}

func (s *Store) oneState(msg jetstream.Msg, f func(reprise.StreamKey, *state)) error {
	key, err := s.subjects.keyOf(msg.Subject())
	if err != nil {
		return err
	}
	text := msg.Headers()[header]
	if len(text) != 1 {
		return s.explain(key, ErrDamaged)
	}
	st, err := decodeState(text[0])
	if err != nil {
		return s.explain(key, err)
	}
	f(key, st)
	return nil
}

// clientError is what to make of an error of package jetstream.
func (s *Store) clientError(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		if ctx.Err() == nil {
			return unavailable(err)
		}
		return ended(ctx)
	}
	return unavailable(err)
}

// streamInfo asks the leader of a stream about it. With a filter the answer has the subjects that match.
func (s *Store) streamInfo(ctx context.Context, stream, filter string) (*jetstream.StreamInfo, error) {
	var all *jetstream.StreamInfo
	for {
		req := map[string]any{}
		if filter != "" {
			req["subjects_filter"] = filter
			if all != nil {
				req["offset"] = len(all.State.Subjects)
			}
		}
		var answer struct {
			jetstream.StreamInfo
			Total int `json:"total"`
		}
		if err := s.request(ctx, "STREAM.INFO."+stream, req, &answer); err != nil {
			return nil, err
		}
		if all == nil {
			all = &answer.StreamInfo
		} else {
			for subject, n := range answer.State.Subjects {
				all.State.Subjects[subject] = n
			}
		}
		if len(answer.State.Subjects) == 0 || len(all.State.Subjects) >= answer.Total {
			return all, nil
		}
	}
}
