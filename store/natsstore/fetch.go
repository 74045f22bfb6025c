package natsstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"reprise"
)

// entry is a message of a stream's subject.
type entry struct {
	*state
	seq  uint64
	body []byte
	// server is the id of the server whose start was current when the message was read; see boot. Messages that rely on
	// this one are sent to that server only.
	server string
}

// getRequest asks for messages; see ADR-31 of NATS.
type getRequest struct {
	Seq       uint64   `json:"seq,omitempty"`
	Last      string   `json:"last_by_subj,omitempty"`
	Next      string   `json:"next_by_subj,omitempty"`
	Batch     int      `json:"batch,omitempty"`
	MaxBytes  int      `json:"max_bytes,omitempty"`
	MultiLast []string `json:"multi_last,omitempty"`
	UpTo      uint64   `json:"up_to_seq,omitempty"`
}

// Headers that the server adds to the messages that it returns.
const (
	headerSequence = "Nats-Sequence"
	headerSubject  = "Nats-Subject"
	headerTime     = "Nats-Time-Stamp"
	headerUpTo     = "Nats-UpTo-Sequence"
)

func sequenceOf(msg *nats.Msg) (uint64, error) {
	n, err := strconv.ParseUint(msg.Header.Get(headerSequence), 10, 64)
	if err != nil {
		return 0, unavailable(fmt.Errorf("%w: a message without a sequence", errIncomplete))
	}
	return n, nil
}

// direct requests messages from any server that has the stream, which may lag behind the others, and calls got with
// each. An answer without messages is confirmed; see confirm. upTo is the last sequence that the server examined, or 0
// if it does not say.
func (s *Store) direct(ctx context.Context, stream string, req *getRequest, got func(*nats.Msg) error) (
	upTo uint64, err error,
) {
	server := s.wire.nc.ConnectedServerId()
	upTo, absent, err := s.directOnce(ctx, stream, req, got)
	if absent {
		err = s.confirm(ctx, stream, req, server, got)
	}
	return upTo, err
}

// directOnce is direct without the confirmation. absent reports whether the server answered that it has no message.
func (s *Store) directOnce(ctx context.Context, stream string, req *getRequest, got func(*nats.Msg) error) (
	upTo uint64, absent bool, err error,
) {
	body, err := json.Marshal(req)
	if err != nil {
		return 0, false, err
	}
	err = s.wire.ask(ctx, s.api+"DIRECT.GET."+stream, body, func(msg *nats.Msg) (bool, error) {
		switch code := status(msg); {
		case code == "":
			return req.Batch > 0 || len(req.MultiLast) > 0, got(msg)
		case code == endOfBatch:
			upTo, _ = strconv.ParseUint(msg.Header.Get(headerUpTo), 10, 64)
			return false, nil
		case code == notFound && (len(req.MultiLast) == 0 || description(msg) == noResults):
			absent = true
			return false, nil
		default:
			return false, unavailable(fmt.Errorf("%s %s", code, description(msg)))
		}
	})
	return upTo, absent, err
}

// change sends a request that deletes something to the JetStream API. The request names messages by sequences, which
// may name other messages after a restart that has lost some. So it is sent to the server of an id only, "" for
// any. If another one is connected, the error is errWrongLast.
func (s *Store) change(ctx context.Context, server, subject string, req any) error {
	var answer struct{}
	if server == "" {
		return s.request(ctx, subject, req, &answer)
	}
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	msg, err := s.wire.bound.request(ctx, server, s.api+subject, body)
	if err != nil {
		return err
	}
	return decodeAnswer(msg, &answer)
}

// decodeAnswer decodes an answer of the JetStream API.
func decodeAnswer(msg *nats.Msg, answer any) error {
	var failed struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &failed); err != nil {
		return unavailable(fmt.Errorf("%w: %w", errIncomplete, err))
	}
	if failed.Error != nil {
		return apiError(failed.Error)
	}
	return json.Unmarshal(msg.Data, answer)
}

// request sends a request that changes nothing to the JetStream API and decodes the answer into answer.
func (s *Store) request(ctx context.Context, subject string, req, answer any) error {
	var body []byte
	if req != nil {
		var err error
		if body, err = json.Marshal(req); err != nil {
			return err
		}
	}
	return s.wire.ask(ctx, s.api+subject, body, func(msg *nats.Msg) (bool, error) {
		return false, decodeAnswer(msg, answer)
	})
}

// stored is a message in the form in which the leader of a stream returns it.
type stored struct {
	Message struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Header  []byte    `json:"hdrs"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
}

// last returns the newest message of a stream, which is its state, or nil if there is none. With several servers it
// asks the leader, because the others may lag behind.
func (s *Store) last(ctx context.Context, key reprise.StreamKey) (*entry, error) {
	found, err := s.likelyLast(ctx, key)
	if found != nil || err != nil {
		return found, err
	}
	err = s.confirmNone(ctx, s.name, s.subjects.stream(key), func(msg *nats.Msg) (err error) {
		if !s.single {
			return errBehind // the leader did not have this message
		}
		found, err = entryOf(msg)
		return err
	})
	return found, s.explain(key, err)
}

// likelyLast is like last, but nil may be wrong while a server shuts down. It suffices before a write that requires
// that there is no message.
func (s *Store) likelyLast(ctx context.Context, key reprise.StreamKey) (found *entry, err error) {
	req := &getRequest{Last: s.subjects.stream(key)}
	if s.single {
		_, _, err = s.directOnce(ctx, s.name, req, func(msg *nats.Msg) (err error) {
			found, err = entryOf(msg)
			return err
		})
		return found, s.explain(key, err)
	}
	var answer stored
	err = s.request(ctx, "STREAM.MSG.GET."+s.name, req, &answer)
	if isCode(err, codeNoMessage) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	head, err := nats.DecodeHeadersMsg(answer.Message.Header)
	if err == nil {
		found, err = newEntry(answer.Message.Seq, head, answer.Message.Data)
	}
	return found, s.explain(key, err)
}

// lastOf returns the newest message of a subject from a single server, or nil if there is none.
func (s *Store) lastOf(ctx context.Context, subject string) (*nats.Msg, error) {
	var found *nats.Msg
	_, err := s.direct(ctx, s.name, &getRequest{Last: subject}, func(msg *nats.Msg) error {
		found = msg
		return nil
	})
	return found, err
}

// explain adds the name of the stream to err.
func (s *Store) explain(key reprise.StreamKey, err error) error {
	if isDamage(err) {
		return fmt.Errorf("stream %s: %w", key, err)
	}
	return err
}

func entryOf(msg *nats.Msg) (*entry, error) {
	seq, err := sequenceOf(msg)
	if err != nil {
		return nil, err
	}
	return newEntry(seq, msg.Header, msg.Data)
}

func newEntry(seq uint64, head nats.Header, body []byte) (*entry, error) {
	text := head[header]
	if len(text) != 1 {
		return nil, fmt.Errorf("%w: message %d has no state", ErrDamaged, seq)
	}
	st, err := decodeState(text[0])
	if err != nil {
		return nil, fmt.Errorf("message %d: %w", seq, err)
	}
	return &entry{state: st, seq: seq, body: body}, nil
}

// message returns the message at a sequence, or nil if it does not exist (anymore or yet).
func (s *Store) message(ctx context.Context, stream string, seq uint64) (*nats.Msg, error) {
	var found *nats.Msg
	_, err := s.direct(ctx, stream, &getRequest{Seq: seq}, func(msg *nats.Msg) error {
		found = msg
		return nil
	})
	return found, err
}
