package mcphttp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"reprise"
)

// errNoSession is the error for a session that does not exist, has ended, or belongs to another principal.
var errNoSession = fmt.Errorf("%w: no such session", reprise.ErrNotFound)

// errSessionEnded is why the life of a Session ends.
var errSessionEnded = errors.New("the session has ended")

// sessionKey names a session in this process.
type sessionKey struct {
	tenant reprise.Tenant
	id     string
}

const (
	// stateKept is the number of kept states of a session. The newest one is valid.
	stateKept = 4
	// endedKept is how long the state of an ended session is kept.
	endedKept = time.Minute
	// usedPart is the fraction of Options.SessionIdle after which the use of a session is recorded in the store.
	usedPart = 4
)

// streamKey names the stream of an exchange.
func (h *Handler) streamKey(tenant reprise.Tenant, session, exchange string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: tenant, Name: h.streams + session + "/" + exchange}
}

func (h *Handler) stateKey(tenant reprise.Tenant, session string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: tenant, Name: h.states + session}
}

// newSession returns a session that is not registered yet.
func (h *Handler) newSession(tenant reprise.Tenant, principal, id string) *Session {
	s := &Session{
		ID: id, Tenant: tenant, Principal: principal, Created: time.Now().UTC(),
		h: h, used: time.Now(), release: func() {}, unwatch: func() bool { return true },
		calls: map[ID]*Exchange{}, asks: map[ID]*ask{}, conns: map[string]*response{},
	}
	s.life, s.end = context.WithCancelCause(h.answering)
	return s
}

// keep makes a session durable and registers it.
func (h *Handler) keep(ctx context.Context, s *Session, state sessionState) error {
	stream, _, err := h.log.Create(ctx, h.stateKey(s.Tenant, s.ID), reprise.StreamConfig{
		Retention: reprise.Retention{MaxEvents: stateKept, MaxAge: endedKept},
		Labels:    map[string]string{"principal": s.Principal},
	})
	if err != nil {
		return err
	}
	s.stream = stream
	state.Principal, state.Used = s.Principal, time.Now().UTC()
	appended, err := stream.Append(ctx, reprise.Event{Type: "state", Data: compact(state), Format: reprise.FormatJSON})
	if err != nil {
		return err
	}
	s.state, s.seen = state, appended.Last
	h.mu.Lock()
	h.sessions[sessionKey{s.Tenant, s.ID}] = s
	s.watch()
	h.mu.Unlock()
	if hook := h.opts.Hooks.SessionOpened; hook != nil {
		hook(s.Tenant)
	}
	return nil
}

// session finds a session. The error is errNoSession, or comes from the Log.
func (h *Handler) session(ctx context.Context, tenant reprise.Tenant, principal, id string) (*Session, error) {
	if len(id) != sessionName || !isRandomText(id) {
		return nil, errNoSession
	}
	key := sessionKey{tenant, id}
	h.mu.Lock()
	s := h.sessions[key]
	h.mu.Unlock()
	if s == nil {
		var err error
		if s, err = h.load(ctx, key); err != nil {
			return nil, err
		}
	}
	if s.Principal != principal {
		return nil, errNoSession
	}
	if err := s.refresh(ctx); err != nil {
		if errors.Is(err, errNoSession) {
			h.drop(s)
		}
		return nil, err
	}
	s.touch()
	return s, nil
}

// load finds a session in the store.
func (h *Handler) load(ctx context.Context, key sessionKey) (*Session, error) {
	h.loading.Lock()
	defer h.loading.Unlock()
	h.mu.Lock()
	s := h.sessions[key]
	h.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := h.read(ctx, key)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, reprise.ErrClosed
	}
	if release, err := h.opts.Admit(key.tenant, s.Principal, false); err == nil {
		s.release = release
	}
	h.sessions[key] = s
	s.watch()
	return s, nil
}

// watch makes s end when its principal is excluded. The caller holds the mutex of the Handler.
func (s *Session) watch() {
	s.unwatch = context.AfterFunc(s.h.opts.Life(s.Tenant, s.Principal), func() { s.h.begin(s.exclude) })
}

// exclude ends a session whose principal is excluded, at least in this process.
func (s *Session) exclude() {
	if err := s.h.terminate(s.h.storing, s, Ended); err != nil {
		s.h.opts.Logger.Warn("the MCP session of an excluded principal is left to its idle time",
			"session", s.ID, "tenant", s.Tenant, "error", err)
		s.h.drop(s)
	}
}

// read makes a Session from its state in the store.
func (h *Handler) read(ctx context.Context, key sessionKey) (*Session, error) {
	stream, err := h.log.Stream(ctx, h.stateKey(key.tenant, key.id))
	if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
		return nil, errNoSession
	}
	if err != nil {
		return nil, err
	}
	s := h.newSession(key.tenant, "", key.id)
	s.stream = stream
	info, err := stream.Info(ctx)
	if err == nil && info.End == nil {
		s.state, s.seen, err = readState(ctx, stream)
	} else if err == nil {
		err = errNoSession
	}
	if err != nil {
		s.end(err)
		return nil, err
	}
	s.Principal, s.Created = s.state.Principal, info.Created
	return s, nil
}

// touch notes that s is used, from time to time in the store too.
func (s *Session) touch() {
	now := time.Now()
	s.mu.Lock()
	s.used = now
	stale := !s.ended && now.Sub(s.state.Used) > s.h.opts.SessionIdle/usedPart
	s.mu.Unlock()
	if stale {
		s.h.begin(func() {
			if err := s.update(s.h.storing, func(*sessionState) {}); err != nil && !errors.Is(err, errNoSession) {
				s.h.opts.Logger.Warn("the use of an MCP session is not noted", "session", s.ID, "error", err)
			}
		})
	}
}

// terminate ends a session permanently.
func (h *Handler) terminate(ctx context.Context, s *Session, why SessionEnd) error {
	_, err := s.stream.End(ctx, string(why), reprise.Event{})
	ended := err == nil
	if err != nil && !errors.Is(err, reprise.ErrEnded) && !errors.Is(err, reprise.ErrNotFound) &&
		!errors.Is(err, reprise.ErrExpired) {
		return err
	}
	if ended {
		h.endWhole(s, why) // before the connections are ended
	}
	h.drop(s)
	h.begin(s.forgetCalls)
	if ended {
		if hook := h.opts.Hooks.SessionEnded; hook != nil {
			hook(s.Tenant, why)
		}
		h.tellOthers(callEnd, routed{Tenant: s.Tenant, Session: s.ID})
	}
	return nil
}

// maxNames is the maximum number of call streams that a session remembers. Older streams are removed when their
// retention ends.
const maxNames = 10_000

// kept remembers the stream of a call.
func (s *Session) kept(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.names) >= maxNames {
		s.names = slices.Clone(s.names[maxNames/2:])
	}
	s.names = append(s.names, name)
}

// forgetCalls removes the streams of answered calls once no call is running, because a client cannot resume calls of an
// ended session. The streams of other processes are removed when their retention ends.
func (s *Session) forgetCalls() {
	s.serving.Wait()
	s.mu.Lock()
	names := s.names
	s.names = nil
	s.mu.Unlock()
	for _, name := range names {
		key := s.h.streamKey(s.Tenant, s.ID, name)
		stream, err := s.h.log.Stream(s.h.storing, key)
		if err != nil {
			continue
		}
		if info, err := stream.Info(s.h.storing); err != nil || info.End == nil {
			continue
		}
		if err := s.h.log.Remove(s.h.storing, key); err != nil && !errors.Is(err, reprise.ErrNotFound) {
			s.h.opts.Logger.Debug("the stream of a call is left to its age", "stream", key, "error", err)
		}
	}
}

// endWhole ends the stream of a session as a whole, so that it expires. A client that did not end the session itself is
// notified.
func (h *Handler) endWhole(s *Session, why SessionEnd) {
	stream, err := h.log.Stream(h.storing, h.streamKey(s.Tenant, s.ID, standalone))
	if err == nil {
		last := reprise.Event{}
		if why == Ended {
			last.Data, last.Format = sessionEndedNote, reprise.FormatJSON
		}
		_, err = stream.End(h.storing, "completed", last)
	}
	if err != nil && !errors.Is(err, reprise.ErrNotFound) {
		h.opts.Logger.Warn("the stream of an MCP session is not ended",
			"session", s.ID, "tenant", s.Tenant, "error", err)
	}
}

// sessionEndedNote is the last message of a session that was not ended by its client.
var sessionEndedNote = []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"notice","logger":"reprise",` +
	`"data":{"code":"session_ended","message":"the session was ended; begin another one"}}}`)

// drop removes an ended session and ends its work in this process.
func (h *Handler) drop(s *Session) {
	s.mu.Lock()
	again := s.ended
	s.ended = true
	s.mu.Unlock()
	if again {
		return
	}
	h.mu.Lock()
	if key := (sessionKey{s.Tenant, s.ID}); h.sessions[key] == s {
		delete(h.sessions, key)
	}
	h.mu.Unlock()
	s.unwatch()
	s.release()
	s.end(errSessionEnded)
	if !h.begin(func() { s.detach() }) {
		s.detach()
	}
}

// detach notifies the backend once no Serve is running.
func (s *Session) detach() {
	s.serving.Wait()
	s.h.backend.Detach(s)
}

// busy reports whether a request of s is unanswered.
func (s *Session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls) > 0 || len(s.conns) > 0
}

// idleSince is when s was used last, as far as this process knows.
func (s *Session) idleSince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Used.After(s.used) {
		return s.state.Used
	}
	return s.used
}
