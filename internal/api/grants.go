package api

import (
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/web"
)

// If a principal may not know of an object, a request for it is answered as if the object did not exist. An operation
// that the principal may not perform on any object is forbidden, and so is the creation of an object that it could not
// see afterwards: neither answer reveals existing objects.

// notYours returns the error for an object that does not exist.
func notYours(key reprise.StreamKey) error {
	return fmt.Errorf("stream %s: %w", key, reprise.ErrNotFound)
}

// mayReadStream refuses a sender that may not read a stream. A ticket for another stream is refused whether or not that
// stream exists.
func mayReadStream(x *web.Exchange, key reprise.StreamKey) error {
	if err := mayReadAny(x, key); err != nil {
		return err
	}
	if !x.Who.MayRead(key) {
		return notYours(key)
	}
	return nil
}

// mayReadAny refuses a ticket for another stream, and a sender that may not read any stream.
func mayReadAny(x *web.Exchange, key reprise.StreamKey) error {
	if x.Who.Only == (reprise.StreamKey{}) {
		return x.Needs(identity.ScopeRead)
	}
	if x.Who.Only != key {
		return fmt.Errorf("%w: this stream is not yours to read", identity.ErrForbidden)
	}
	return nil
}

// mayReadExecution is mayReadStream for the stream of an execution, which is granted by session.
func (s *Server) mayReadExecution(x *web.Exchange, id string) error {
	key := streamKey(x.Who.Tenant, executionNamespace+id)
	if err := mayReadAny(x, key); err != nil || !x.Who.Bounded(identity.ScopeRead) {
		return err
	}
	return s.bySession(x, id, func(session string) bool { return x.Who.MayReadAs(key, session) })
}

// mayUseExecution refuses a sender whose scope does not include the session of an execution.
func (s *Server) mayUseExecution(x *web.Exchange, scope identity.Scope, id string) error {
	if x.Who.MayAll(scope) {
		return nil
	}
	return s.bySession(x, id, func(session string) bool { return x.Who.MayOn(scope, session) })
}

// bySession refuses an execution whose session is not allowed, for a sender whose scopes are limited to sessions. The
// session of an expired execution is unknown, so it is refused too. All missing executions are refused after the same
// time.
func (s *Server) bySession(x *web.Exchange, id string, allowed func(session string) bool) error {
	begun := time.Now()
	session, err := s.host.SessionOf(x.R.Context(), x.Who.Tenant, id)
	if errors.Is(err, reprise.ErrExpired) || err == nil && !allowed(session) {
		err = execution.ErrNotFound
	}
	if errors.Is(err, reprise.ErrNotFound) {
		identity.EvenOut(x.R.Context(), begun)
	}
	return err
}

// sessionFilter is which sessions a principal may read, nil for all.
func sessionFilter(x *web.Exchange) func(session string) bool {
	if x.Who.MayAll(identity.ScopeRead) {
		return nil
	}
	return func(session string) bool { return x.Who.MayOn(identity.ScopeRead, session) }
}
