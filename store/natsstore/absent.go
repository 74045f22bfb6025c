package natsstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// A server that cannot read a message answers that there is none, whatever the reason: its disk is full, it has too
// many open files, or it is shutting down and has closed the stream already. Taken at its word, it would make an
// existing stream missing, a removal without effect successful, and a list short. So an answer without messages is
// confirmed.

// errClosing means that a server says that it has no messages at all, although it has.
var errClosing = errors.New("the NATS server cannot read its messages now")

// noResults is the description of an answer to a request for several subjects that have no message. The server
// determines that from the subjects that it keeps in memory. If it cannot read a message it has another description.
const noResults = "No Results"

func description(msg *nats.Msg) string {
	if d := msg.Header["Description"]; len(d) > 0 {
		return d[0]
	}
	return ""
}

// confirm is called after a server answered a request with no message. server is the id of the connected server before
// that. The error wraps reprise.ErrUnavailable if the answer proves nothing. It calls got with the message if there is
// one nevertheless.
func (s *Store) confirm(ctx context.Context, stream string, req *getRequest, server string,
	got func(*nats.Msg) error,
) error {
	switch {
	case len(req.MultiLast) > 0:
		return nil
	case req.Last != "":
		return s.confirmNone(ctx, stream, req.Last, got)
	}
	err := s.confirmReadable(ctx, stream)
	if err == nil && s.wire.nc.ConnectedServerId() != server {
		err = unavailable(errLost)
	}
	return err
}

// confirmReadable returns an error unless the server can read a message of a JetStream stream, or there is none. If it
// can now, it could before.
func (s *Store) confirmReadable(ctx context.Context, stream string) error {
	first, none := &getRequest{Seq: 1, Next: ">"}, false
	var err error
	if s.single {
		_, none, err = s.directOnce(ctx, stream, first, func(*nats.Msg) error { return nil })
	} else if err = s.request(ctx, "STREAM.MSG.GET."+stream, first, &stored{}); isCode(err, codeNoMessage) {
		none, err = true, nil
	}
	if err == nil && none {
		err = s.confirmEmpty(ctx, stream)
	}
	return err
}

// confirmNone calls got with the newest message of a subject if there is one.
func (s *Store) confirmNone(ctx context.Context, stream, subject string, got func(*nats.Msg) error) error {
	_, _, err := s.directOnce(ctx, stream, &getRequest{MultiLast: []string{subject}}, got)
	return err
}

// confirmEmpty returns an error if a JetStream stream has messages.
func (s *Store) confirmEmpty(ctx context.Context, stream string) error {
	info, err := s.streamInfo(ctx, stream, "")
	if err == nil && info.State.Msgs > 0 {
		err = unavailable(fmt.Errorf("%s: %w", stream, errClosing))
	}
	return err
}
