package natsstore

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"reprise"
)

// Sizes returns the size of each tenant; see reprise.Sizer. The server sends the header of the newest message of each
// stream and the length of its record. It costs two small messages for each stream.
func (s *Store) Sizes(ctx context.Context) (_ map[reprise.Tenant]reprise.Size, err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	lengths, err := s.recordLengths(ctx)
	if err != nil {
		return nil, err
	}
	sizes := map[reprise.Tenant]reprise.Size{}
	err = s.eachState(ctx, func(key reprise.StreamKey, st *state) {
		if !st.gone {
			size := sizes[key.Tenant]
			size.Streams++
			size.Events += int64(st.tail + 1 - st.earliest)
			size.Bytes += st.kept
			size.Overhead += reprise.StreamOverhead + int64(len(key.Name)) + lengths[st.record()]
			sizes[key.Tenant] = size
		}
	})
	if err != nil {
		return nil, err
	}
	return sizes, nil
}

// eachState calls f with the state of each stream, including removed ones.
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
		if seen < newest { // the answering server lags behind
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

// newest returns the sequence of the newest message of all streams, or 0 if any server is up to date.
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

// states reads the states of all streams from one server. seen is the sequence of the newest message there.
func (s *Store) states(ctx context.Context) (states map[reprise.StreamKey]*state, seen uint64, err error) {
	states = map[reprise.StreamKey]*state{}
	err = s.headers(ctx, s.name, s.name+".s.>", jetstream.DeliverLastPerSubjectPolicy, func(msg jetstream.Msg) error {
		key, e, err := s.oneState(msg)
		seen = max(seen, e.seq)
		switch {
		case isDamage(err):
			s.leaveOut(err)
		case err != nil:
			return err
		default:
			states[key] = e.state
		}
		return nil
	})
	return states, seen, err
}

// recordLengths returns the lengths of all records in the index by their sequence. A server that lags behind leaves out
// the newest records, which are counted the next time.
func (s *Store) recordLengths(ctx context.Context) (map[uint64]int64, error) {
	lengths := map[uint64]int64{}
	err := s.headers(ctx, s.index, s.name+".i.>", jetstream.DeliverAllPolicy, func(msg jetstream.Msg) error {
		meta, err := msg.Metadata()
		if err != nil {
			return unavailable(err)
		}
		n, err := strconv.ParseInt(msg.Headers().Get(nats.MsgSize), 10, 64)
		if err != nil {
			return unavailable(err)
		}
		lengths[meta.Sequence.Stream] = n
		return nil
	})
	return lengths, err
}

// headers calls f with messages of a JetStream stream, without their bodies, as one server has them. It does not wait
// for records of the index that are deleted meanwhile.
func (s *Store) headers(ctx context.Context, stream, filter string, policy jetstream.DeliverPolicy,
	f func(jetstream.Msg) error,
) error {
	consumer, err := s.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		FilterSubject: filter, DeliverPolicy: policy, HeadersOnly: true,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: time.Minute, Replicas: 1,
	})
	if err != nil {
		return s.clientError(ctx, err)
	}
	defer s.tidy.dropConsumer(stream, consumer.CachedInfo().Name)
	for left := int(consumer.CachedInfo().NumPending); left > 0; {
		const most = 1000
		var batch jetstream.MessageBatch
		if policy == jetstream.DeliverAllPolicy {
			batch, err = consumer.FetchNoWait(min(left, most))
		} else {
			batch, err = consumer.Fetch(min(left, most), jetstream.FetchContext(ctx))
		}
		if err != nil {
			return s.clientError(ctx, err)
		}
		n := 0
		for msg := range batch.Messages() {
			n++
			if err := f(msg); err != nil {
				return err
			}
		}
		left -= n
		switch err := batch.Error(); {
		case errors.Is(err, nats.ErrNoResponders): // not all servers know the consumer yet
			if err := pause(ctx, lagStep); err != nil {
				return err
			}
		case err != nil:
			return s.clientError(ctx, err)
		case n == 0 && policy == jetstream.DeliverAllPolicy:
			return nil
		case n == 0:
			return unavailable(errIncomplete)
		}
	}
	return nil
}

// oneState decodes a message. The sequence is valid even if the error reports damage.
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

// clientError maps an error of package jetstream.
func (s *Store) clientError(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		if ctx.Err() == nil {
			return unavailable(err)
		}
		return ended(ctx)
	}
	return unavailable(err)
}

// streamInfo asks the leader of a stream for its info. With a filter the answer includes the matching subjects.
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
			maps.Copy(all.State.Subjects, answer.State.Subjects)
		}
		if len(answer.State.Subjects) == 0 || len(all.State.Subjects) >= answer.Total {
			return all, nil
		}
	}
}
