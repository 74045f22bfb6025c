package redisstore

import (
	"context"
	"errors"

	"reprise/internal/border"
)

// ErrDamaged: what is in Redis is not what was written, or some of it is missing. It wraps nothing that is retryable.
var ErrDamaged = errors.New("damaged")

// storeError maps each error that leaves the Store; see package border. ctx is that of the caller, without the bound of
// the store.
func storeError(ctx context.Context, err error) error { return border.Error(ctx, err, ErrDamaged) }

// storeErrors is storeError for each of errs, in their places.
func storeErrors(ctx context.Context, errs []error) {
	for i := range errs {
		errs[i] = storeError(ctx, errs[i])
	}
}
