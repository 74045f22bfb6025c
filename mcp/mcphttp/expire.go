package mcphttp

import (
	"context"
	"errors"
	"time"

	"reprise"
)

// sweepSessions ends idle sessions until the Handler is closed.
func (h *Handler) sweepSessions() {
	every := max(h.opts.SessionIdle/(2*usedPart), time.Millisecond)
	timer := time.NewTimer(every)
	defer timer.Stop()
	// What this process does not know of is in the store alone: sessions of processes that have ended.
	// They are looked for less often, since all must be listed.
	listed := time.Time{}
	for {
		select {
		case <-timer.C:
		case <-h.running.Done():
			return
		}
		h.sweepKnown()
		if time.Since(listed) >= h.opts.SessionIdle {
			listed = time.Now()
			if err := h.sweepStored(h.running); err != nil && h.running.Err() == nil {
				h.opts.Logger.Warn("failed to end some idle MCP sessions", "error", err)
			}
		}
		timer.Reset(every)
	}
}

// sweepKnown ends idle sessions of this process, and keeps those alive for other replicas that are in use.
func (h *Handler) sweepKnown() {
	h.mu.Lock()
	known := make([]*Session, 0, len(h.sessions))
	for _, s := range h.sessions {
		known = append(known, s)
	}
	h.mu.Unlock()
	for _, s := range known {
		switch {
		case h.running.Err() != nil:
			return
		case s.busy():
			s.touch()
		case time.Since(s.idleSince()) >= h.opts.SessionIdle:
			h.endIdle(s)
		}
	}
}

// endIdle ends a session if it was not used on another replica either.
func (h *Handler) endIdle(s *Session) {
	err := s.refresh(h.running)
	switch {
	case errors.Is(err, errNoSession):
		h.drop(s)
		return
	case err == nil && time.Since(s.idleSince()) < h.opts.SessionIdle:
		return
	case err == nil:
		err = h.terminate(h.running, s, Idle)
	}
	if err != nil && h.running.Err() == nil {
		h.opts.Logger.Warn("an idle MCP session is not ended", "session", s.ID, "tenant", s.Tenant, "error", err)
	}
}

// sweepStored ends idle sessions that this process does not know.
func (h *Handler) sweepStored(ctx context.Context) error {
	return h.each(ctx, h.states, func(info *reprise.StreamInfo) error {
		if info.End != nil || time.Since(info.Created) < h.opts.SessionIdle {
			return nil
		}
		key := sessionKey{info.Key.Tenant, info.Key.Name[len(h.states):]}
		h.mu.Lock()
		known := h.sessions[key] != nil
		h.mu.Unlock()
		if known {
			return nil
		}
		s, err := h.read(ctx, key)
		switch {
		case errors.Is(err, errNoSession):
			return h.endUnmade(ctx, info.Key)
		case err != nil:
			return err
		}
		defer s.end(errSessionEnded)
		if time.Since(s.state.Used) < h.opts.SessionIdle {
			return nil
		}
		_, err = s.stream.End(ctx, string(Idle), reprise.Event{})
		if errors.Is(err, reprise.ErrEnded) || errors.Is(err, reprise.ErrNotFound) {
			return nil // another replica was first
		}
		if err == nil {
			h.endWhole(s, Idle)
			if hook := h.opts.Hooks.SessionEnded; hook != nil {
				hook(s.Tenant, Idle)
			}
		}
		return err
	})
}

// endUnmade ends the stream of a session whose creator died before it recorded the state of the session.
func (h *Handler) endUnmade(ctx context.Context, key reprise.StreamKey) error {
	stream, err := h.log.Stream(ctx, key)
	if err == nil {
		_, err = stream.End(ctx, string(Idle), reprise.Event{})
	}
	if errors.Is(err, reprise.ErrEnded) || errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
		return nil
	}
	return err
}

// each calls f for all streams of a namespace, the newest first.
func (h *Handler) each(ctx context.Context, namespace string, f func(*reprise.StreamInfo) error) error {
	q := reprise.ListQuery{Namespace: namespace, Limit: 1000}
	for {
		page, err := h.log.List(ctx, q)
		if err != nil {
			return err
		}
		var failed error
		for i := range page.Streams {
			failed = errors.Join(failed, f(&page.Streams[i]))
		}
		if page.Next == "" || failed != nil {
			return failed
		}
		q.After = page.Next
	}
}
