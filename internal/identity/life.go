package identity

import (
	"context"
	"fmt"
	"time"
)

// errExpired is why a request ends whose credential has expired meanwhile.
var errExpired = fmt.Errorf("%w: expired", ErrUnauthenticated)

// WhileGood returns a context that ends with the credential of a principal: when it expires or is revoked. release must
// be called.
func WhileGood(ctx context.Context, p *Principal) (_ context.Context, release func()) {
	if p.Revoked == nil && p.Expires.IsZero() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stopRevoked, stopTimer := func() bool { return true }, func() bool { return true }
	if p.Revoked != nil {
		stopRevoked = context.AfterFunc(p.Revoked, func() { cancel(ErrRevoked) })
	}
	if !p.Expires.IsZero() {
		stopTimer = time.AfterFunc(time.Until(p.Expires), func() { cancel(errExpired) }).Stop
	}
	return ctx, func() {
		stopTimer()
		stopRevoked()
		cancel(nil)
	}
}
