package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"reprise"
)

// boot determines which messages were written before the current start of the server. By default a server does not sync
// each message, so a restart may lose the newest ones, which possibly no client has read. A server has a new id after
// each start. The first replica that sees a new id writes it as a message to the JetStream stream with the events.
// Messages with a lower sequence were written before that start. A stream whose newest message is older than the start
// moves to another epoch before anything else is written to it, so that no seq identifies two events in one epoch; see
// Store.current.
//
// A replica asks for the id once for each connection, because a restart ends the connection. A message that relies on
// one start is not sent after another one; see post.server. If several servers hold the streams, or a proxy is in
// between, ids prove nothing and epochs stay as they are.
type boot struct {
	mu   sync.Mutex
	last start
}

// start is a start of the server: the id of the server, and the first sequence that was written after the start. The
// zero value means that starts are not tracked.
type start struct {
	server string
	first  uint64
}

// boot returns the subject of the message with the id of the server. No tenant has this name.
func (s subjects) boot() string { return s.name + ".d.=.boot" }

// The body of that message is a version and the id of the server. The first such message of a store also has bootFirst:
// messages before it may come from an older version of this program, which did not track starts.
const (
	bootVersion = "1"
	bootFirst   = "first"
)

// keptBoots is the number of such messages that are kept. A loss of power may take the newest ones, and a store without
// any counts as one that has not tracked starts so far. So the older ones are not removed at once.
const keptBoots = 16

// tracksStarts reports whether starts of the server are told apart.
func (s *Store) tracksStarts() bool {
	return s.single && !s.restartKeeps && !s.wire.inCluster()
}

// noServer is no id of a server.
const noServer = "-"

// server returns the id of the connected server, for requests that rely on sequences that are read after this call. It
// is "", for any server, where starts are not tracked.
func (s *Store) server() string {
	if !s.tracksStarts() {
		return ""
	}
	return cmp.Or(s.wire.nc.ConnectedServerId(), noServer)
}

// started returns the current start of the connected server.
func (s *Store) started(ctx context.Context) (start, error) {
	if !s.tracksStarts() {
		return start{}, nil
	}
	s.boot.mu.Lock()
	last := s.boot.last
	s.boot.mu.Unlock()
	// The id is "" while there is no connection. The call then waits for one, and the server may have restarted.
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

// findBoot returns the first sequence after the start of the server with the given id. If none is recorded, it records
// the start now.
func (s *Store) findBoot(ctx context.Context, id string) (first uint64, err error) {
	msg, err := s.lastOf(ctx, s.subjects.boot())
	if err != nil {
		return 0, err
	}
	p := []post{{subject: s.subjects.boot(), body: []byte(bootVersion + " " + id), server: id}}
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
	s.tidy.purgeBoots(id)
	s.logger.Warn("the NATS server was started again and may have lost what it had not synced: streams go on in " +
		"another epoch, which costs nobody what is there; restart=keeps if it syncs always")
	return p[0].seq, nil
}

// isOfBefore reports whether events after last may be lost because it is older than the message first. Nothing follows
// the end of a stream.
func isOfBefore(last *entry, first uint64) bool {
	return last != nil && last.seq < first && !last.gone && last.end == nil
}

// current is like last, but first determines whether the server lost newer messages or may have lost some. If so, the
// stream moves to another epoch, so that readers of lost events get an error.
func (s *Store) current(ctx context.Context, key reprise.StreamKey) (*entry, error) {
	return s.currentBy(ctx, key, s.last)
}

// currentBy is current with last or likelyLast.
func (s *Store) currentBy(ctx context.Context, key reprise.StreamKey,
	newest func(context.Context, reprise.StreamKey) (*entry, error),
) (*entry, error) {
	began, err := s.started(ctx) // before anything is written
	if err != nil {
		return nil, err
	}
	for sure := false; ; sure = true {
		last, err := newest(ctx, key)
		if err != nil || last == nil {
			return last, err
		}
		// Ask after the message was read, because the server may have restarted before that.
		at, err := s.started(ctx)
		if err != nil {
			return nil, err
		}
		if at.server != began.server { // the message may be of the start before
			began = at
			continue
		}
		last.server = at.server
		lost := s.cache.lost(key, last)
		if !lost && !isOfBefore(last, at.first) {
			return last, nil
		}
		if !sure { // an append that was acknowledged while the message was in transit is not a loss
			continue
		}
		renewed, err := s.renew(ctx, key, last, lost)
		if !errors.Is(err, errWrongLast) {
			return renewed, err
		}
	}
}

// readable is current for calls that read or remove the stream. A full server cannot store another epoch. The stream
// then stays in the old epoch, in which nothing can be appended.
func (s *Store) readable(ctx context.Context, key reprise.StreamKey) (*entry, error) {
	last, err := s.current(ctx, key)
	if isFull(err) {
		return s.last(ctx, key)
	}
	return last, err
}
