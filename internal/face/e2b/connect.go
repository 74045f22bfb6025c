package e2b

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/problem"
	"reprise/internal/web"
)

// streamType is the media type of a stream of messages in JSON, each in an envelope: a byte of flags, the length in
// four bytes, and the message. The last envelope of a response says how the stream has ended.
const (
	streamType = "application/connect+json"
	flagEnd    = 2
)

// ending is the message of the last envelope.
type ending struct {
	Error *rpcError `json:"error,omitempty"`
}

// envelope returns a message in its envelope.
func envelope(flags byte, message any) []byte {
	text, err := json.Marshal(message)
	if err != nil {
		panic(err) // the messages are strings, numbers and bytes
	}
	head := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(text)))
	return append(head, text...)
}

// readEnvelope reads a message of a request. The error is io.EOF behind the last one.
func readEnvelope(from io.Reader, v any) error {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return web.BodyError(err)
	}
	size := binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0]&flagEnd != 0:
		return io.EOF
	case head[0] != 0:
		return invalid("the message is compressed, which was not agreed on")
	case size > maxBody:
		return invalid("the message has %d bytes, at most %d are taken", size, maxBody)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(from, text); err != nil {
		return web.BodyError(err)
	}
	return decodeText(text, v)
}

// decodeStream reads the only message of the request for a stream.
func decodeStream(x *web.Exchange, v any) error {
	if x.R.Header.Get("Content-Type") != streamType {
		return decode(x, v)
	}
	body, err := x.Body(maxBody + 5)
	if err != nil {
		return err
	}
	if err := readEnvelope(body, v); !errors.Is(err, io.EOF) {
		return err
	}
	return invalid("the request has no message")
}

// sender writes the messages of a response.
type sender struct {
	x         *web.Exchange
	out       *web.SteadyWriter
	keepAlive time.Duration
}

// keepAliveHeader asks for a sign of life every so many seconds.
const keepAliveHeader = "Keepalive-Ping-Interval"

// begin sends the head of a response.
func begin(x *web.Exchange) *sender {
	s := &sender{x: x, out: x.Steady(true), keepAlive: 15 * time.Second}
	if n, err := strconv.Atoi(x.R.Header.Get(keepAliveHeader)); err == nil && n > 0 && n < 60 {
		s.keepAlive = time.Duration(n) * time.Second
	}
	x.W.Header().Set("Content-Type", streamType)
	x.AllowWrite()
	x.W.WriteHeader(http.StatusOK)
	return s
}

func (s *sender) send(message any) error {
	_, err := s.out.Write(envelope(0, message))
	return err
}

// end sends the last envelope, of which err is the reason if it is not nil.
func (s *sender) end(err error) error {
	last := ending{}
	if err != nil {
		p := problem.From(err)
		last.Error = &rpcError{codeOf(err, &p), err.Error()}
	}
	_, err = s.out.Write(envelope(flagEnd, last))
	return err
}

// each calls f with the events of a reader until the stream has ended, and idle every so often while there are none.
func each(ctx context.Context, reader *reprise.Reader, every time.Duration, f func(*reprise.Event) error,
	idle func() error,
) error {
	alive := time.NewTicker(every)
	defer alive.Stop()
	for {
		changed := reader.Changed()
		events, err := reader.Poll(ctx)
		if errors.Is(err, reprise.ErrEnded) {
			return nil
		}
		if err != nil {
			return err
		}
		for e := range events.All() {
			if err := f(&e); err != nil {
				return err
			}
		}
		if events.Len() > 0 {
			continue
		}
		select {
		case <-changed:
		case <-alive.C:
			if err := idle(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
