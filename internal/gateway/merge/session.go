package merge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"reprise/internal/gateway/link"
	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// session is an initialized connection to a member. It receives the messages of the member.
type session struct {
	m           *member
	link        link.Link
	opened      time.Time
	greeting    json.RawMessage // the result of initialize
	initialized sync.Once

	// Guarded by the member's mu: whether Options.Up was called, and whether the link has ended.
	up, over bool
}

// greet opens a session with the client's initialize.
func (m *member) greet(ctx context.Context) (*session, error) {
	opened, err := m.Open()
	if err != nil {
		return nil, fmt.Errorf("it cannot be started: %w", err)
	}
	s := &session{m: m, link: opened, opened: time.Now()}
	opened.Start(s)
	if !m.l.run(s.awaitEnd) {
		opened.Close()
		<-opened.Done()
		return nil, errClosed
	}
	if err := s.initialize(ctx); err != nil {
		opened.Close()
		return nil, err
	}
	return s, nil
}

// initialize sends the client's initialize.
func (s *session) initialize(ctx context.Context) error {
	s.m.l.mu.Lock()
	params := s.m.l.params
	s.m.l.mu.Unlock()
	m, err := s.ask(ctx, wire.MethodInitialize, params)
	if err != nil {
		return err
	}
	if m.Err != nil {
		return fmt.Errorf("it refuses to be initialized: %s", m.Err)
	}
	version := wire.Text(m.Result, "protocolVersion")
	if version == "" || version >= wire.Version20260728 {
		return fmt.Errorf("it has agreed on version %q, which has no sessions", version)
	}
	s.greeting = m.Result
	s.link.Agree(version)
	return nil
}

// becomeInitialized notifies the member once that the client is ready, and repeats the earlier messages of the client.
func (s *session) becomeInitialized(ctx context.Context) {
	s.initialized.Do(func() {
		raw := wire.Request("", wire.NoteInitialized, nil)
		_ = s.link.Send(ctx, link.Message{Raw: raw, Method: wire.NoteInitialized}) // else the link has ended
	})
}

// begin notifies the client of the items of a late session, and the member of the client's subscriptions.
func (s *session) begin(ctx context.Context) {
	l, m := s.m.l, s.m
	if !l.initialized.Load() {
		return // clientInitialized does
	}
	s.becomeInitialized(ctx)
	l.mu.Lock()
	level := l.level
	l.mu.Unlock()
	if level != "" && s.offers("logging") {
		_, _ = s.ask(ctx, wire.MethodSetLevel, wire.Compact(map[string]string{"level": level}))
	}
	m.mu.Lock()
	wanted := make([]string, 0, len(m.wanted))
	for uri := range m.wanted {
		wanted = append(wanted, uri)
	}
	m.mu.Unlock()
	for _, uri := range wanted {
		_, _ = s.ask(ctx, wire.MethodSubscribe, wire.Compact(map[string]string{"uri": uri}))
	}
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if s.offers(kind) {
			l.to.Receive(wire.Notification("notifications/"+kind+"/list_changed", nil), 0)
		}
	}
}

// capability returns a member of the capabilities, or nil if it is missing.
func (s *session) capability(name string) json.RawMessage {
	return wire.Members(wire.Members(s.greeting)["capabilities"])[name]
}

func (s *session) offers(capability string) bool { return s.capability(capability) != nil }

// ask sends a request of our own and waits for the response.
func (s *session) ask(ctx context.Context, method string, params json.RawMessage) (mcphttp.Message, error) {
	r := &request{to: s, method: method, answer: make(chan answer, 1)}
	id := s.m.l.requests.addOwn(r)
	defer s.m.l.requests.take(id)
	raw := wire.Request(wire.ID(id), method, params)
	if err := s.link.Send(ctx, link.Message{Raw: raw, ID: id, Method: method, Params: params}); err != nil {
		return mcphttp.Message{}, err
	}
	select {
	case a := <-r.answer:
		return a.m, a.err
	case <-ctx.Done():
		s.link.Drop(id)
		return mcphttp.Message{}, context.Cause(ctx)
	}
}

// forward sends a request of the gateway. It reports false if the link had ended before and nothing was sent.
func (s *session) forward(ctx context.Context, m link.Message) bool {
	l := s.m.l
	l.requests.add(m.ID, &request{to: s, method: m.Method})
	err := s.link.Send(ctx, m)
	if err == nil || l.requests.take(m.ID) == nil { // or it was answered when the link ended
		return true
	}
	if errors.Is(err, link.ErrEnded) {
		return false
	}
	if f, ok := errors.AsType[*wire.Failure](err); ok {
		l.refuse(m.ID, f)
	} else {
		l.refuse(m.ID, s.m.away(err.Error()))
	}
	return true
}

// awaitEnd waits for the end of the link and answers the requests that are under way then.
func (s *session) awaitEnd() {
	<-s.link.Done()
	s.m.release(s)
	why := link.Interrupted(s.link.Err())
	for id, r := range s.m.l.requests.end(s) {
		if r.answer != nil {
			r.answer <- answer{err: why}
		} else {
			s.m.l.to.Fail(id, why)
		}
	}
}

// Receive implements link.Receiver.
func (s *session) Receive(m mcphttp.Message, during int64) {
	l := s.m.l
	if during >= ownIDs {
		during = 0
	}
	if of, ok := strings.CutSuffix(m.Method, "/list_changed"); ok {
		s.m.noteChange(strings.TrimPrefix(of, "notifications/"))
	}
	switch {
	case m.Method == "":
		s.takeResponse(m)
		return
	case m.ID != "":
		id := wire.ID(l.requests.ask(question{from: s, id: m.ID}))
		m.ID, m.Raw = id, wire.Request(id, m.Method, m.Params)
	case m.Method == wire.NoteUpdated:
		m = wire.Notification(m.Method, withURI(m.Params, s.m.Name))
	case strings.HasSuffix(m.Method, "/list_changed") && !l.initialized.Load():
		return // the client has not asked for a list yet
	}
	if during == 0 {
		during = l.requests.only(s)
	}
	l.to.Receive(m, during)
}

// takeResponse passes a response to the waiting call.
func (s *session) takeResponse(m mcphttp.Message) {
	id := wire.ParseID([]byte(m.ID))
	r := s.m.l.requests.take(id)
	switch {
	case r == nil: // it comes too late
	case r.answer != nil:
		r.answer <- answer{m: m}
	default:
		if m.Result != nil {
			m.Result = withURIs(r.method, m.Result, s.m.Name)
		}
		s.m.l.to.Receive(m, id)
	}
}

// Fail implements link.Receiver.
func (s *session) Fail(id int64, why *wire.Failure) {
	if r := s.m.l.requests.take(id); r == nil {
		return
	} else if r.answer != nil {
		r.answer <- answer{err: why}
		return
	}
	s.m.l.to.Fail(id, why)
}

// Unsent implements link.Receiver. The gateway sends the request again, to another session.
func (s *session) Unsent(id int64) {
	if r := s.m.l.requests.take(id); r == nil {
		return
	} else if r.answer != nil {
		r.answer <- answer{err: link.ErrEnded}
		return
	}
	s.m.l.to.Unsent(id)
}

// Garbage implements link.Receiver.
func (s *session) Garbage() { s.m.l.to.Garbage() }
