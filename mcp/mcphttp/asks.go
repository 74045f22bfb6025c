package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"reprise"
)

// ask sends a request to the client under an id that is unique in the session. The id names the exchange, so that any
// replica finds the waiting call.
func (s *Session) ask(exchange string, to sink, id ID, message []byte, answer func([]byte)) (seen ID, err error) {
	m, err := ParseMessage(message)
	if err != nil {
		return "", err
	}
	seen = stringID(exchange + "." + randomText(exchangeName))
	s.mu.Lock()
	s.asks[seen] = &ask{id: id, answer: answer}
	s.mu.Unlock()
	if err := to.send(m.withID(seen), false); err != nil {
		s.forget([]ID{seen})
		return "", err
	}
	return seen, nil
}

// forget drops requests whose answer no longer has a receiver.
func (s *Session) forget(asked []ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range asked {
		delete(s.asks, id)
	}
}

// takeAnswer passes the client's response to the waiting call of this process, and reports whether there was one.
func (s *Session) takeAnswer(m *Message) bool {
	s.mu.Lock()
	a := s.asks[m.ID]
	delete(s.asks, m.ID)
	s.mu.Unlock()
	if a == nil {
		return false
	}
	response := m.withID(a.id)
	return s.h.begin(func() { a.answer(response) })
}

// deliverAnswer passes the client's response to the waiting call, on any replica. It drops a response without a waiting
// call.
func (s *Session) deliverAnswer(ctx context.Context, m *Message) error {
	if s.takeAnswer(m) || s.h.opts.Replica == nil {
		return nil
	}
	var seen string
	_ = json.Unmarshal([]byte(m.ID), &seen) // a number is not one of ours
	exchange, _, _ := strings.Cut(seen, ".")
	if !isExchange(exchange) {
		return nil
	}
	what := routed{Tenant: s.Tenant, Session: s.ID, Message: m.Raw}
	if exchange == standalone {
		s.h.tellOthers(callAnswer, what)
		return nil
	}
	stream, err := s.h.log.Stream(ctx, s.h.streamKey(s.Tenant, s.ID, exchange))
	if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil || info.End != nil {
		return err
	}
	return s.h.tell(ctx, info.Owner.Name, callAnswer, what)
}

// cancel hands over a notifications/cancelled, to whatever replica has the request.
func (s *Session) cancel(m *Message) {
	if s.takeCancel(m) {
		return
	}
	s.h.tellOthers(callCancel, routed{Tenant: s.Tenant, Session: s.ID, Message: m.Raw})
}

// takeCancel hands over a notifications/cancelled if the request is one of ours.
func (s *Session) takeCancel(m *Message) bool {
	var params struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(m.Params, &params) != nil {
		return true // it names none
	}
	id, err := parseID(params.RequestID)
	if err != nil {
		return true
	}
	s.mu.Lock()
	x := s.calls[id]
	s.mu.Unlock()
	if x == nil {
		return false
	}
	s.h.backend.Cancel(x, *m)
	return true
}

// answered drops a request that has its answer.
func (s *Session) answered(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, id)
}
