package api

import (
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/identity"
)

// What a principal may not do to something that it may not know of is answered as if that did not exist. What it may do
// to nothing at all is forbidden, and so is to make what it could not see afterwards: neither tells what there is.

// needs refuses who has a scope for nothing.
func (x *exchange) needs(scope identity.Scope) error {
	if !x.who.May(scope) {
		return &identity.ScopeError{Scope: scope}
	}
	return nil
}

// mayMake refuses to make what a scope is not granted for. name is that of a stream, or the session of an execution.
func (x *exchange) mayMake(scope identity.Scope, name, what string) error {
	if x.who.MayOn(scope, name) {
		return nil
	}
	return fmt.Errorf("%w: the scope %q of these credentials is for %ss that begin with %s", identity.ErrForbidden,
		scope, what, x.who.Prefixes(scope))
}

// notYours is what is answered for what does not exist.
func notYours(key reprise.StreamKey) error {
	return fmt.Errorf("stream %s: %w", key, reprise.ErrNotFound)
}

// mayReadStream refuses who may not read a stream. A ticket for another stream is refused
// whether that stream exists or not.
func (x *exchange) mayReadStream(key reprise.StreamKey) error {
	if err := x.mayReadAny(key); err != nil {
		return err
	}
	if !x.who.MayRead(key) {
		return notYours(key)
	}
	return nil
}

// mayReadAny refuses who has a ticket for another stream, and who may read nothing.
func (x *exchange) mayReadAny(key reprise.StreamKey) error {
	if x.who.Only == (reprise.StreamKey{}) {
		return x.needs(identity.ScopeRead)
	}
	if x.who.Only != key {
		return fmt.Errorf("%w: this stream is not yours to read", identity.ErrForbidden)
	}
	return nil
}

// mayReadExecution is mayReadStream for that of an execution, which is granted by its session.
func (s *Server) mayReadExecution(x *exchange, id string) error {
	key := streamKey(x.who.Tenant, executionNamespace+id)
	if err := x.mayReadAny(key); err != nil || !x.who.Bounded(identity.ScopeRead) {
		return err
	}
	return s.bySession(x, id, func(session string) bool { return x.who.MayReadAs(key, session) })
}

// mayUseExecution refuses who has a scope for other sessions than that of an execution.
func (s *Server) mayUseExecution(x *exchange, scope identity.Scope, id string) error {
	if x.who.MayAll(scope) {
		return nil
	}
	return s.bySession(x, id, func(session string) bool { return x.who.MayOn(scope, session) })
}

// bySession refuses an execution whose session is not allowed, for one whose scopes are for sessions. Nobody knows any
// more of which session an execution was that has expired: that one does not exist either. All that does not exist is
// refused after the same time.
func (s *Server) bySession(x *exchange, id string, allowed func(session string) bool) error {
	begun := time.Now()
	session, err := s.host.SessionOf(x.r.Context(), x.who.Tenant, id)
	if errors.Is(err, reprise.ErrExpired) || err == nil && !allowed(session) {
		err = notYours(streamKey(x.who.Tenant, executionNamespace+id))
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
