package supervisor

import (
	"context"

	"reprise/internal/execution/command"
	"reprise/internal/problem"
)

// accept takes connections until the listener is closed.
func (s *session) accept() {
	for {
		raw, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.serving.Go(func() {
			conn, err := Accept(raw, s.dir, s.secret)
			if err != nil || !s.keep(conn) {
				return
			}
			s.serve(conn)
			_ = conn.Close()
			s.leave(conn)
		})
	}
}

// leave removes a connection whose server has gone.
func (s *session) leave(conn *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	s.changed.Broadcast()
	if s.conns != nil && len(s.conns) == 0 {
		select {
		case s.left <- struct{}{}:
		default:
		}
	}
}

// keep records a connection, so that it is closed at the end at the latest.
func (s *session) keep(conn *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		_ = conn.Close()
		return false
	}
	s.conns[conn] = true
	select {
	case <-s.left:
	default:
	}
	return true
}

// serve answers calls until the connection ends.
func (s *session) serve(conn *Conn) {
	for {
		var c call
		if err := conn.Receive(&c); err != nil {
			return
		}
		switch c.Op {
		case callFollow:
			s.serving.Go(func() { s.follow(conn, nil, func(n *News) error { return conn.Send(n) }) })
			continue
		case callAck, callForget:
			s.note(&c)
			continue
		}
		if conn.Send(s.answer(&c)) != nil {
			return
		}
	}
}

// note carries out a call that is not answered.
func (s *session) note(c *call) {
	switch c.Op {
	case callAck:
		s.writer.Ack(c.Ack)
	case callForget:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ended != nil {
			s.forget()
		}
	}
}

// answer carries out a call.
func (s *session) answer(c *call) replied {
	if c.Op == callStatus {
		s.mu.Lock()
		defer s.mu.Unlock()
		return replied{News: s.news()}
	}
	t, err := s.Control(context.Background(), &c.Control)
	if c.Op == command.OpResize {
		s.tell()
	}
	stdin, err := Answer(&c.Control, t, Refused(err))
	if err != nil {
		p := problem.From(err)
		return replied{Stdin: stdin, Refused: &p}
	}
	return replied{Stdin: stdin}
}

// news returns the progress of the command. The caller holds mu.
func (s *session) news() *News {
	return &News{Progress: s.writer.Progress(), State: s.State(), Ended: s.ended}
}

// follow sends news that differ from last, for as long as there is some.
func (s *session) follow(conn *Conn, last *News, send func(*News) error) {
	for {
		s.mu.Lock()
		var now *News
		for {
			now = s.news()
			if s.conns == nil || !s.conns[conn] || last == nil || now.differs(last) && !s.isOnlyStart(now) {
				break
			}
			s.changed.Wait()
		}
		gone := s.conns == nil || !s.conns[conn]
		s.mu.Unlock()
		if gone || send(now) != nil {
			return
		}
		last = now
	}
}

func (n *News) differs(last *News) bool {
	return n.Tail != last.Tail || !n.StartedAt.Equal(last.StartedAt) || n.Resized != last.Resized ||
		n.Stopping != last.Stopping || n.Ended != last.Ended || !n.FullSince.Equal(last.FullSince)
}

// isOnlyStart reports whether now says that the command was started, and what follows may come at once. The caller
// holds mu.
func (s *session) isOnlyStart(now *News) bool {
	return !s.startTold.Load() && now.Tail <= 1 && now.Ended == nil && now.Resized == nil
}
