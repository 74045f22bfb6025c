package mcphttp

import (
	"context"
	"encoding/json"
	"errors"

	"reprise"
)

// The messages between replicas. Correctness does not depend on them: a replica that misses a takeover continues to
// send to a connection without a reader.
const (
	callAnswer   = "answer"   // a client has answered what was asked by the callee
	callCancel   = "cancel"   // a client has cancelled a request
	callTakeover = "takeover" // a client reads a stream through the caller now
	callEnd      = "end"      // a session has ended
)

// routed is the body of a call.
type routed struct {
	What    string          `json:"what"`
	Tenant  reprise.Tenant  `json:"tenant"`
	Session string          `json:"session"`
	Stream  string          `json:"stream,omitempty"`
	Message json.RawMessage `json:"message,omitempty"`
}

// service is the name under which replicas call each other.
func (h *Handler) service() string { return "mcphttp/" + h.opts.Name }

// tell calls a replica. One that is dead is not called.
func (h *Handler) tell(ctx context.Context, name, what string, call routed) error {
	if h.opts.Replica == nil || name == "" {
		return nil
	}
	if dead, err := h.isDead(ctx, name); dead || err != nil {
		return err
	}
	call.What = what
	_, err := h.opts.Replica.Call(ctx, name, h.service(), compact(call))
	return err
}

// tellOthers calls all other replicas and waits for none.
func (h *Handler) tellOthers(what string, call routed) {
	if h.opts.Replica == nil {
		return
	}
	for _, other := range h.opts.Replica.Members() {
		if other.Self {
			continue
		}
		h.begin(func() {
			if err := h.tell(h.running, other.Name, what, call); err != nil && h.running.Err() == nil {
				h.opts.Logger.Debug("a replica was not notified", "replica", other.Name, "what", what, "error", err)
			}
		})
	}
}

// serveReplicas answers the calls of other replicas.
func (h *Handler) serveReplicas(_ context.Context, _ string, body []byte) ([]byte, error) {
	var call routed
	if err := json.Unmarshal(body, &call); err != nil {
		return nil, errors.Join(reprise.ErrInvalid, err)
	}
	h.mu.Lock()
	s := h.sessions[sessionKey{call.Tenant, call.Session}]
	h.mu.Unlock()
	if s == nil {
		return nil, nil // nothing of it is here
	}
	switch call.What {
	case callTakeover:
		s.takeover(call.Stream, nil)
	case callEnd:
		h.drop(s)
		h.begin(s.forgetCalls)
	case callAnswer, callCancel:
		m, err := ParseMessage(call.Message)
		if err != nil {
			return nil, err
		}
		if call.What == callAnswer {
			s.takeAnswer(&m)
		} else {
			s.takeCancel(&m)
		}
	}
	return nil, nil
}
