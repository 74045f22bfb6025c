package identity

import (
	"context"
	"fmt"
	"time"
)

// ErrExpired is why a request ends whose credential has expired meanwhile. It wraps ErrUnauthenticated.
var ErrExpired = fmt.Errorf("%w: expired", ErrUnauthenticated)

// WhileGood returns a context that ends with the credential of a principal: when it expires or is revoked, or when the
// login ends by which it came. release must be called. If ctx has the method End, it is the result, and that ends it.
func WhileGood(ctx context.Context, p *Principal) (_ context.Context, release func()) {
	if !p.CanEnd() {
		return ctx, func() {}
	}
	cancel := func(error) {}
	var end context.CancelCauseFunc
	if whole, ok := ctx.(interface{ End(cause error) }); ok {
		end = whole.End
	} else {
		ctx, cancel = context.WithCancelCause(ctx)
		end = cancel
	}
	var stops []func() bool
	for _, life := range []context.Context{p.Revoked, p.LoggedOut} {
		if life != nil {
			stops = append(stops, context.AfterFunc(life, func() { end(ErrRevoked) }))
		}
	}
	if !p.Expires.IsZero() {
		stops = append(stops, time.AfterFunc(time.Until(p.Expires), func() { end(ErrExpired) }).Stop)
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// CanEnd reports whether the proof of p may become invalid during a request.
func (p *Principal) CanEnd() bool {
	return p.Revoked != nil || p.LoggedOut != nil || !p.Expires.IsZero()
}

type contextKey struct{}

// NewContext returns a context with the sender of its request.
func NewContext(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// FromContext returns the principal of NewContext, or nil if there is none.
func FromContext(ctx context.Context) *Principal {
	p, _ := ctx.Value(contextKey{}).(*Principal)
	return p
}
