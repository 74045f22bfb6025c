// Package storeurl opens the store that a URL names, for the programs of this module.
package storeurl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"reprise"
	"reprise/memstore"
	"reprise/natsstore"
	"reprise/pgstore"
	"reprise/redisstore"
	"reprise/sqlitestore"
)

// ErrScheme: no store has such a URL.
var ErrScheme = errors.New("take memory:, sqlite:PATH, redis://, rediss://, postgres:// or nats://")

// Open opens the store that url names: "memory:", "sqlite:PATH", or the URL of a server, whose
// parameters are those of its package. logger may be nil.
func Open(ctx context.Context, url string, logger *slog.Logger) (reprise.Store, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch {
	case url == "memory:":
		return memstore.New(nil), nil
	case scheme == "sqlite" && rest != "":
		return opened(sqlitestore.Open(ctx, rest, &sqlitestore.Options{Logger: logger}))
	case scheme == "redis" || scheme == "rediss":
		return opened(redisstore.Open(ctx, url, &redisstore.Options{Logger: logger}))
	case scheme == "postgres" || scheme == "postgresql":
		return opened(pgstore.Open(ctx, url, &pgstore.Options{Logger: logger}))
	case scheme == "nats" || scheme == "tls":
		return opened(natsstore.Open(ctx, url, &natsstore.Options{Logger: logger}))
	}
	return nil, fmt.Errorf("store %q: %w", Redact(url), ErrScheme)
}

// opened keeps a nil pointer from becoming a Store.
func opened[S reprise.Store](store S, err error) (reprise.Store, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

// Redact cuts off what may hold a password.
func Redact(url string) string {
	scheme, _, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	return scheme + "://..."
}
