package natsstore

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"reprise"
)

// Sizes returns what each tenant keeps; see reprise.Sizer. The server hands out the header of the newest
// message of each stream: the cost is that of as many small messages as there are streams.
func (s *Store) Sizes(ctx context.Context) (_ map[reprise.Tenant]reprise.Size, err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
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
	for {
		newest, err := s.newest(ctx)
		if err != nil {
			return err
		}
		states, seen, err := s.states(ctx)
		if err != nil {
			return err
		}
		if seen < newest { // the server that was asked is behind
			if err := pause(ctx, lagStep); err != nil {
				return err
			}
			continue
		}
		for key, st := range states {
			f(key, st)
		}
		return nil
	}
}

// newest is the sequence of the newest message of all streams, 0 where any server knows it.
func (s *Store) newest(ctx context.Context) (uint64, error) {
	if s.single {
		return 0, nil
	}
	var answer stored
	err := s.request(ctx, "STREAM.MSG.GET."+s.name, &getRequest{Last: s.name + ".s.>"}, &answer)
	if isCode(err, codeNoMessage) {
		return 0, nil
	}
	return answer.Message.Seq, err
}

// states reads the states of all streams at one server. seen is the sequence of the newest.
func (s *Store) states(ctx context.Context) (states map[reprise.StreamKey]*state, seen uint64, err error) {
	consumer, err := s.js.CreateConsumer(ctx, s.name, jetstream.ConsumerConfig{
		FilterSubject: s.name + ".s.>", DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: time.Minute, Replicas: 1,
	})
	if err != nil {
		return nil, 0, s.clientError(ctx, err)
	}
	defer s.tidy.dropConsumer(consumer.CachedInfo().Name)
	left := int(consumer.CachedInfo().NumPending)
	states = make(map[reprise.StreamKey]*state, left)
	for left > 0 {
		const most = 1000
		batch, err := consumer.Fetch(min(left, most), jetstream.FetchContext(ctx))
		if err != nil {
			return nil, 0, s.clientError(ctx, err)
		}
		n := 0
		for msg := range batch.Messages() {
			n++
			key, e, err := s.oneState(msg)
			switch {
			case isDamage(err):
				s.leaveOut(err)
			case err != nil:
				return nil, 0, err
			default:
				states[key] = e.state
			}
			seen = max(seen, e.seq)
		}
		left -= n
		switch err := batch.Error(); {
		case errors.Is(err, nats.ErrNoResponders): // the consumer is not known to all servers yet
			if err := pause(ctx, lagStep); err != nil {
				return nil, 0, err
			}
		case err != nil:
			return nil, 0, s.clientError(ctx, err)
		case n == 0:
			return nil, 0, unavailable(errIncomplete)
		}
	}
	return states, seen, nil
}

// oneState reads a message. Its sequence is there even if the error says that the rest is damaged.
func (s *Store) oneState(msg jetstream.Msg) (key reprise.StreamKey, e *entry, err error) {
	e = &entry{}
	meta, err := msg.Metadata()
	if err != nil {
		return key, e, unavailable(err)
	}
	e.seq = meta.Sequence.Stream
	if key, err = s.subjects.keyOf(msg.Subject()); err != nil {
		return key, e, err
	}
	read, err := newEntry(e.seq, msg.Headers(), nil)
	if err != nil {
		return key, e, s.explain(key, err)
	}
	return key, read, nil
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
