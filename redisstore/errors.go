package redisstore

import (
	"context"
	"errors"
	"fmt"

	"reprise"
)

// ErrDamaged: what is in Redis is not what was written, or some of it is missing. It wraps nothing that is retryable.
var ErrDamaged = errors.New("damaged")

// failed maps an error of the driver or the server to one of package reprise. ctx is that of the caller, without the
// bound of the store.
func failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", reprise.ErrUnavailable, err)
}
