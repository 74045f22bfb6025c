package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"reprise"
)

var _ reprise.CreateAppender = (*Store)(nil)

// Create creates or finds a stream; see reprise.Store. A creation takes three round trips.
func (s *Store) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	return s.create(ctx, info, nil)
}

// CreateAppend creates a stream with its first batch, or finds it; see reprise.CreateAppender. It takes as many round
// trips as Create: the message that creates the stream carries the batch.
func (s *Store) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	return s.create(ctx, info, &first)
}

// create implements Create if first is nil, and CreateAppend otherwise.
func (s *Store) create(ctx context.Context, info reprise.StreamInfo,
	first *reprise.AppendRequest,
) (_ reprise.StreamInfo, err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	defer leave()
	if info.Revision > 0 {
		if err := s.hold(ctx, maxAppends); err != nil {
			return reprise.StreamInfo{}, err
		}
		defer s.changing.Release(maxAppends)
	}
	for {
		server := s.server()
		last, err := s.currentBy(ctx, info.Key, s.likelyLast) // make requires that there is none
		if err != nil {
			return reprise.StreamInfo{}, err
		}
		if info.Revision > 0 {
			kept, err := s.configure(ctx, server, &info, last)
			if !errors.Is(err, errWrongLast) {
				return kept, err
			}
			continue
		}
		if last != nil && !last.gone {
			return s.existing(ctx, info, last)
		}
		made, err := s.make(ctx, server, info, first, last)
		if !errors.Is(err, errWrongLast) {
			return made, err
		}
	}
}

// existing returns the result of a Create of a stream that exists.
func (s *Store) existing(ctx context.Context, info reprise.StreamInfo, last *entry) (reprise.StreamInfo, error) {
	s.cache.put(info.Key, last)
	have, err := s.info(ctx, info.Key, last.state)
	if err == nil && !have.Config.Equal(info.Config) {
		return reprise.StreamInfo{}, fmt.Errorf("%w: the stream is there with another configuration",
			reprise.ErrConflict)
	}
	return have, err
}

// make creates a stream whose subject has last, which may be nil, as its newest message. It writes the record in the
// index first, then the parts of first and the note of an end, and then the message that points to all of them. What no
// such message points to has no effect. All of them are sent to one server, since a restart in between may lose some.
func (s *Store) make(ctx context.Context, server string, info reprise.StreamInfo, first *reprise.AppendRequest,
	last *entry,
) (reprise.StreamInfo, error) {
	r := &record{key: info.Key, epoch: info.Epoch, config: info.Config}
	body := r.encode()
	records := []post{{subject: s.subjects.index(info.Key), body: body, unconditional: true}}
	if s.post(ctx, records); records[0].err != nil {
		return reprise.StreamInfo{}, records[0].err
	}
	st := &state{
		epoch: info.Epoch, created: info.Created.UnixMilli(), index: records[0].seq, owner: info.Owner,
		earliest: info.Tail + 1, tail: info.Tail, end: info.End, producers: info.Producers,
		lineage: info.Lineage,
	}
	if first != nil {
		st = after(&entry{state: st}, first)
	}
	p := []post{{subject: s.subjects.stream(info.Key), server: server, alone: true}}
	if err := s.prepareCreate(ctx, info.Key, st, first, &p[0]); err != nil {
		return reprise.StreamInfo{}, err
	}
	if last != nil {
		p[0].expected = last.seq
	}
	s.post(ctx, p)
	if p[0].err != nil {
		if errors.Is(p[0].err, errWrongLast) {
			s.tidy.delete(server, s.index, records[0].seq)
			for _, part := range st.parts {
				s.tidy.delete(server, s.name, part.seq)
			}
		}
		return reprise.StreamInfo{}, p[0].err
	}
	// The caller owns Labels and Meta, so the cached record is decoded from the written bytes.
	r, err := decodeRecord(info.Key, body)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	s.cache.addRecord(st.index, r)
	s.cache.put(info.Key, &entry{state: st, seq: p[0].seq, server: server})
	return st.info(info.Key, r.config), nil
}

// prepareCreate sets the state and the body of the message that creates a stream, and writes what must exist before it.
func (s *Store) prepareCreate(ctx context.Context, key reprise.StreamKey, st *state, first *reprise.AppendRequest,
	p *post,
) (err error) {
	if st.end != nil {
		if st.data, err = s.noteEnd(ctx, key, st.epoch, st.end); err != nil {
			return err
		}
	}
	switch {
	case first == nil:
	case len(first.Bytes) > s.room:
		if st.parts, err = s.putParts(ctx, s.subjects.parts(key), first.Bytes); err != nil {
			return err
		}
	default:
		p.body = first.Bytes
	}
	p.state, st.bulky = st, len(st.data)+len(st.parts) > 0
	return nil
}

// info returns the state of a stream for the caller of the Store.
func (s *Store) info(ctx context.Context, key reprise.StreamKey, st *state) (reprise.StreamInfo, error) {
	at := st.record()
	r := s.cache.record(at)
	if r == nil || !r.fits(key, st) { // another epoch: an operator has rebuilt the index
		msg, err := s.present(ctx, s.index, at)
		if err != nil {
			return reprise.StreamInfo{}, s.explain(key, err)
		}
		if msg.Header.Get(headerSubject) != s.subjects.index(key) {
			return reprise.StreamInfo{}, errOfAnother(key)
		}
		if r, err = decodeRecord(key, msg.Data); err != nil {
			return reprise.StreamInfo{}, s.explain(key, err)
		}
		if !r.fits(key, st) {
			return reprise.StreamInfo{}, errOfAnother(key)
		}
		s.cache.addRecord(at, r)
	}
	info := st.info(key, r.config)
	if len(st.data) > 0 {
		end := *st.end
		var err error
		if end.Data, err = s.joined(ctx, st.data); err != nil {
			return reprise.StreamInfo{}, s.explain(key, err)
		}
		info.End = &end
	}
	return info, nil
}

// errForeign means that the index has lost the record of a stream and given its sequence to another record.
var errForeign = errors.New("its record is that of another")

func errOfAnother(key reprise.StreamKey) error {
	return fmt.Errorf("stream %s: %w: %w", key, ErrDamaged, errForeign)
}

// joined reads the parts of something large.
func (s *Store) joined(ctx context.Context, parts []part) ([]byte, error) {
	size := 0
	for _, p := range parts {
		size += p.len
	}
	b := make([]byte, 0, size)
	for _, p := range parts {
		msg, err := s.present(ctx, s.name, p.seq)
		if err != nil {
			return nil, err
		}
		if len(msg.Data) != p.len {
			return nil, fmt.Errorf("%w: message %d has %d bytes, not %d", ErrDamaged, p.seq, len(msg.Data), p.len)
		}
		b = append(b, msg.Data...)
	}
	return b, nil
}

// errGone means that a message does not exist although another one points to it. It was removed meanwhile, or lost.
var errGone = errors.New("a message no longer exists")

// present returns a message that is known to be written. It retries for a while if the answering server
// does not have it yet.
func (s *Store) present(ctx context.Context, stream string, seq uint64) (*nats.Msg, error) {
	for patience := time.Now().Add(s.lag()); ; {
		msg, err := s.message(ctx, stream, seq)
		switch {
		case err != nil:
			return nil, err
		case msg != nil:
			return msg, nil
		case time.Now().After(patience):
			return nil, fmt.Errorf("%w: message %d of %s", errGone, seq, stream)
		}
		if err := pause(ctx, lagStep); err != nil {
			return nil, err
		}
	}
}

// How long one server of a cluster may lag behind another. After that, a message that it does not have counts as
// removed.
const (
	maxLag  = time.Second
	lagStep = 10 * time.Millisecond
)

func (s *Store) lag() time.Duration {
	if s.single {
		return 0
	}
	return maxLag
}
