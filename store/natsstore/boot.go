package natsstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"reprise"
)

// boot knows which messages the server had when it was started. A server by itself does not sync each message, so one
// that was started again may have lost the newest, and nobody may be left who has seen them. It gives itself another
// id at each start. The first replica that meets an id writes it down, as a message of the stream with the events:
// what has a lower sequence is of before the start. A stream whose newest message is of before goes on in another
// epoch before anything else is written to it, so that no seq stands for two events in one epoch; see Store.current.
//
// A replica asks once for each connection. It can tell that the server was started since by the connection, which is
// then another one. What was judged by one start is not sent after another; see post.server. Where several servers
// have the streams, or others stand in between, ids tell nothing and all stays as it is.
type boot struct {
	mu   sync.Mutex
	last start
}

// start is a start of the server: the id that it gave itself, and the sequence from which on messages were written
// since. The zero value is that of servers whose starts are not looked at.
type start struct {
	server string
	first  uint64
}

// bootSubject is that of the message with the id of the server. No tenant is called so.
func (s subjects) boot() string { return s.name + ".d.=.boot" }

// The body of that message is a version, the id of the server and, in the first one that there ever was, bootFirst: it
// came after all that a version before this one may have written, of which nothing is known.
const (
	bootVersion = "1"
	bootFirst   = "first"
)

// started is the start of the server that is connected to now.
func (s *Store) started(ctx context.Context) (start, error) {
	if !s.single || s.restartKeeps || s.wire.nc.ConnectedClusterName() != "" {
		return start{}, nil
	}
	s.boot.mu.Lock()
	last := s.boot.last
	s.boot.mu.Unlock()
	// It is "" while there is no connection. A call then waits for one, and the server may have been started again.
	if id := s.wire.nc.ConnectedServerId(); id != "" && id == last.server {
		return last, nil
	}
	for {
		if err := s.wire.ready(ctx); err != nil {
			return start{}, err
		}
		at := start{server: s.wire.nc.ConnectedServerId()}
		err := errWrongLast
		if at.server != "" {
			at.first, err = s.findBoot(ctx, at.server)
		}
		switch {
		case err == nil && at.server == s.wire.nc.ConnectedServerId():
			s.boot.mu.Lock()
			defer s.boot.mu.Unlock()
			s.boot.last = at
			return at, nil
		case err != nil && !errors.Is(err, errWrongLast):
			return start{}, err
		}
		if err := pause(ctx, lagStep); err != nil {
			return start{}, err
		}
	}
}

// findBoot reads where the messages since the start of the server with an id begin, or makes them begin now.
func (s *Store) findBoot(ctx context.Context, id string) (first uint64, err error) {
	msg, err := s.lastOf(ctx, s.subjects.boot())
	if err != nil {
		return 0, err
	}
	p := []post{{subject: s.subjects.boot(), body: []byte(bootVersion + " " + id), alone: true, server: id}}
	if msg == nil {
		p[0].body = append(p[0].body, " "+bootFirst...)
		s.post(ctx, p)
		return 0, p[0].err
	}
	seq, err := sequenceOf(msg)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(msg.Data))
	switch {
	case len(fields) < 2 || fields[0] != bootVersion:
		return 0, fmt.Errorf("%w: the message %s", errNewer, s.subjects.boot())
	case fields[1] == id && slices.Contains(fields[2:], bootFirst):
		return 0, nil
	case fields[1] == id:
		return seq, nil
	}
	p[0].expected = seq
	if s.post(ctx, p); p[0].err != nil {
		return 0, p[0].err
	}
	s.logger.Warn("the NATS server was started again and may have lost what it had not synced: streams go on in " +
		"another epoch, which costs nobody what is there; restart=keeps if it syncs always")
	return p[0].seq, nil
}

// isOfBefore reports whether last may be followed by events that were lost, before the message first. Nothing follows
// the end of a stream.
func isOfBefore(last *entry, first uint64) bool {
	return last != nil && last.seq < first && !last.gone && last.end == nil
}

// current is the newest message of a stream, as last, after a look at whether the server has lost some that were newer,
// or may have. Then the stream goes on in another epoch, so that who has seen what was lost is told.
func (s *Store) current(ctx context.Context, key reprise.StreamKey) (*entry, error) {
	if _, err := s.started(ctx); err != nil { // before anything is written
		return nil, err
	}
	for sure := false; ; sure = true {
		last, err := s.last(ctx, key)
		if err != nil || last == nil {
			return last, err
		}
		// It is asked for after the message was read, for the server may have been started again before that.
		at, err := s.started(ctx)
		if err != nil {
			return nil, err
		}
		last.server = at.server
		lost := s.cache.lost(key, last)
		if !lost && !isOfBefore(last, at.first) {
			return last, nil
		}
		if !sure { // an append that was acknowledged while the message was on its way is no loss
			continue
		}
		renewed, err := s.renew(ctx, key, last, lost)
		if !errors.Is(err, errWrongLast) {
			return renewed, err
		}
	}
}

// readable is current for who reads or removes the stream. A server that is full has room for no other epoch: the
// stream is then in the one before, in which nothing can be appended.
func (s *Store) readable(ctx context.Context, key reprise.StreamKey) (*entry, error) {
	last, err := s.current(ctx, key)
	if isFull(err) {
		return s.last(ctx, key)
	}
	return last, err
}
