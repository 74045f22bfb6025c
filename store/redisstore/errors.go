package redisstore

import (
	"context"
	"errors"

	"reprise/internal/border"
)

// ErrDamaged means that data in Redis is missing or differs from what was written. It wraps no retryable error.
var ErrDamaged = errors.New("damaged")

// storeError maps each error that leaves the Store; see package border. ctx is the caller's context, without the
// timeout of the store.
func storeError(ctx context.Context, err error) error { return border.Error(ctx, err, ErrDamaged) }
