// Package grants says which objects the sender of a request may use.
//
// If a principal may not know of an object, a request for it is answered as if the object did not exist. An operation
// that the principal may not perform on any object is forbidden, and so is the creation of an object that it could not
// see afterwards: neither answer reveals existing objects.
package grants

import (
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/web"
)

// NotFound returns the error for an object that does not exist.
func NotFound(key reprise.StreamKey) error {
	return fmt.Errorf("stream %s: %w", key, reprise.ErrNotFound)
}

// MayReadStream refuses a sender that may not read a stream. A ticket for another stream is refused whether or not that
// stream exists.
func MayReadStream(x *web.Exchange, key reprise.StreamKey) error {
	if err := mayReadAny(x, key); err != nil {
		return err
	}
	if !x.Who.MayRead(key) {
		return NotFound(key)
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

// Executions says who may use the executions of a Host, which are granted by session.
type Executions struct{ Host *execution.Host }

// MayRead is MayReadStream for the stream of an execution, which is granted by session.
func (e Executions) MayRead(x *web.Exchange, id string) error {
	key := reprise.StreamKey{Tenant: x.Who.Tenant, Name: execution.Namespace + id}
	if err := mayReadAny(x, key); err != nil || !x.Who.Bounded(identity.ScopeRead) {
		return err
	}
	return e.bySession(x, id, func(session string) bool { return x.Who.MayReadAs(key, session) })
}

// MayUse refuses a sender whose scope does not include the session of an execution.
func (e Executions) MayUse(x *web.Exchange, scope identity.Scope, id string) error {
	if x.Who.MayAll(scope) {
		return nil
	}
	return e.bySession(x, id, func(session string) bool { return x.Who.MayOn(scope, session) })
}

// bySession refuses an execution whose session is not allowed, for a sender whose scopes are limited to sessions. The
// session of an expired execution is unknown, so it is refused too. All missing executions are refused after the same
// time.
func (e Executions) bySession(x *web.Exchange, id string, allowed func(session string) bool) error {
	begun := time.Now()
	session, err := e.Host.SessionOf(x.R.Context(), x.Who.Tenant, id)
	if errors.Is(err, reprise.ErrExpired) || err == nil && !allowed(session) {
		err = execution.ErrNotFound
	}
	if errors.Is(err, reprise.ErrNotFound) {
		identity.EvenOut(x.R.Context(), begun)
	}
	return err
}

// Sessions is which sessions a principal may read, nil for all.
func Sessions(x *web.Exchange) func(session string) bool {
	if x.Who.MayAll(identity.ScopeRead) {
		return nil
	}
	return func(session string) bool { return x.Who.MayOn(identity.ScopeRead, session) }
}
