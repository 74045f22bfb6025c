package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/park"
)

// Exchange is one request on its way, and the answer to it.
type Exchange struct {
	W   http.ResponseWriter
	R   *http.Request
	Who identity.Principal // the sender, zero on a path for everybody
	// Scope is what the route needs.
	Scope identity.Scope
	// Query holds the parameters, each of which the route knows.
	Query Query

	mux *Mux
}

// Exchange returns an Exchange for a request that was passed on; see Pass.
func (m *Mux) Exchange(w http.ResponseWriter, r *http.Request) *Exchange {
	return &Exchange{W: w, R: r, mux: m}
}

// Record returns the record of the request, for its line in the log.
func (x *Exchange) Record() *httpserver.Record { return &recordOf(x.W).Record }

// Seat returns where the response is parked, nil if it is not.
func (x *Exchange) Seat() *park.Seat { return recordOf(x.W).seat }

// AtEnd calls f when the response ends, which for a parked one is after its handler.
func (x *Exchange) AtEnd(f func()) { recordOf(x.W).atEnd(f) }

// errAged is the cause that ends a response which follows a stream. Its reader is told to reconnect, as at a shutdown.
var errAged = fmt.Errorf("%w: the connection has reached its age", reprise.ErrClosed)

// EndWithConnection ends the context of the request when the connection reaches its age, if there is a bound on
// that; the connection is closed with the response.
func (x *Exchange) EndWithConnection() {
	left, ok := httpserver.Remaining(x.R.Context())
	if !ok {
		return
	}
	if x.R.ProtoMajor == 1 {
		x.W.Header().Set("Connection", "close")
	}
	x.EndWith(func(end context.CancelCauseFunc) (stop func() bool) {
		return time.AfterFunc(left, func() { end(errAged) }).Stop
	})
}

// EndWithServer ends the context of the request when the server drains.
func (x *Exchange) EndWithServer() {
	if seat := x.Seat(); seat != nil {
		seat.Await() // of which Drain ends all together
		return
	}
	x.EndWith(func(end context.CancelCauseFunc) (stop func() bool) {
		return context.AfterFunc(x.mux.draining, func() { end(errDraining) })
	})
}

// OnDrain calls f with the reason when the server drains, unless stop is called before.
func (x *Exchange) OnDrain(f func(error)) (stop func() bool) {
	return context.AfterFunc(x.mux.draining, func() { f(errDraining) })
}

// EndWith lets a timer end the context of the request. start starts the timer.
func (x *Exchange) EndWith(start func(end context.CancelCauseFunc) (stop func() bool)) {
	if seat := x.Seat(); seat != nil {
		stop := start(seat.End)
		x.AtEnd(func() { stop() })
		return
	}
	ctx, cancel := context.WithCancelCause(x.R.Context())
	stop := start(cancel)
	x.R = x.R.WithContext(ctx)
	x.AtEnd(func() {
		stop()
		cancel(nil)
	})
}

// Needs refuses a sender that does not have the scope for any object.
func (x *Exchange) Needs(scope identity.Scope) error {
	if !x.Who.May(scope) {
		return &identity.ScopeError{Scope: scope}
	}
	return nil
}

// MayMake refuses the creation of an object outside the scope. name is the name of a stream, or the session of
// an execution.
func (x *Exchange) MayMake(scope identity.Scope, name, what string) error {
	if x.Who.MayOn(scope, name) {
		return nil
	}
	return fmt.Errorf("%w: the scope %q of these credentials is for %ss that begin with %s", identity.ErrForbidden,
		scope, what, x.Who.Prefixes(scope))
}
