package api

import (
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
)

// If a principal may not know of an object, a request for it is answered as if the object did not exist. An operation
// that the principal may not perform on any object is forbidden, and so is the creation of an object that it could not
// see afterwards: neither answer reveals existing objects.

// needs refuses a sender that does not have the scope for any object.
func (x *exchange) needs(scope identity.Scope) error {
	if !x.who.May(scope) {
		return &identity.ScopeError{Scope: scope}
	}
	return nil
}

// mayMake refuses the creation of an object outside the scope. name is that of a stream, or the session of an
// execution.
func (x *exchange) mayMake(scope identity.Scope, name, what string) error {
	if x.who.MayOn(scope, name) {
		return nil
	}
	return fmt.Errorf("%w: the scope %q of these credentials is for %ss that begin with %s", identity.ErrForbidden,
		scope, what, x.who.Prefixes(scope))
}

// notYours returns the error for an object that does not exist.
func notYours(key reprise.StreamKey) error {
	return fmt.Errorf("stream %s: %w", key, reprise.ErrNotFound)
}

// mayReadStream refuses a sender that may not read a stream. A ticket for another stream is refused whether or not that
// stream exists.
func (x *exchange) mayReadStream(key reprise.StreamKey) error {
	if err := x.mayReadAny(key); err != nil {
		return err
	}
	if !x.who.MayRead(key) {
		return notYours(key)
	}
	return nil
}

// mayReadAny refuses a ticket for another stream, and a sender that may not read any stream.
func (x *exchange) mayReadAny(key reprise.StreamKey) error {
	if x.who.Only == (reprise.StreamKey{}) {
		return x.needs(identity.ScopeRead)
	}
	if x.who.Only != key {
		return fmt.Errorf("%w: this stream is not yours to read", identity.ErrForbidden)
	}
	return nil
}

// mayReadExecution is mayReadStream for the stream of an execution, which is granted by session.
func (s *Server) mayReadExecution(x *exchange, id string) error {
	key := streamKey(x.who.Tenant, executionNamespace+id)
	if err := x.mayReadAny(key); err != nil || !x.who.Bounded(identity.ScopeRead) {
		return err
	}
	return s.bySession(x, id, func(session string) bool { return x.who.MayReadAs(key, session) })
}

// mayUseExecution refuses a sender whose scope does not include the session of an execution.
func (s *Server) mayUseExecution(x *exchange, scope identity.Scope, id string) error {
	if x.who.MayAll(scope) {
		return nil
	}
	return s.bySession(x, id, func(session string) bool { return x.who.MayOn(scope, session) })
}

// bySession refuses an execution whose session is not allowed, for a sender whose scopes are limited to sessions. The
// session of an expired execution is unknown, so it is refused too. All missing executions are refused after the same
// time.
func (s *Server) bySession(x *exchange, id string, allowed func(session string) bool) error {
	begun := time.Now()
	session, err := s.host.SessionOf(x.r.Context(), x.who.Tenant, id)
	if errors.Is(err, reprise.ErrExpired) || err == nil && !allowed(session) {
		err = execution.ErrNotFound
	}
	if errors.Is(err, reprise.ErrNotFound) {
		identity.EvenOut(x.r.Context(), begun)
	}
	return err
}

// sessionFilter is which sessions a principal may read, nil for all.
func (x *exchange) sessionFilter() func(session string) bool {
	if x.who.MayAll(identity.ScopeRead) {
		return nil
	}
	return func(session string) bool { return x.who.MayOn(identity.ScopeRead, session) }
}
