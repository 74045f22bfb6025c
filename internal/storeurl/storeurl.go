// Package storeurl opens the store that a URL names, for the programs of this module. Wrappers stand in front, the
// outermost first: "compress+encrypt+sqlite:events.db".
package storeurl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"reprise"
	"reprise/memstore"
	"reprise/natsstore"
	"reprise/pgstore"
	"reprise/redisstore"
	"reprise/sqlitestore"
	"reprise/storewrap"
)

// ErrScheme: no store has such a URL.
var ErrScheme = errors.New("take memory:, sqlite:PATH, redis://, rediss://, postgres:// or nats://, with compress+ or encrypt+ in front")

// Options are the settings of Open. The zero value of each field means its default.
type Options struct {
	// Keys is the file with the keys of encrypt+.
	Keys string
	// Inner, if not nil, puts another Store around the innermost one, within all wrappers. Where it fails, that one is closed.
	Inner func(reprise.Store) (reprise.Store, error)
	// Logger is told what goes wrong in the background. Default: silent.
	Logger *slog.Logger
}

// Split takes the wrappers off a URL, the outermost first.
func Split(url string) (wrappers []string, base string) {
	for {
		name, rest, ok := strings.Cut(url, "+")
		if !ok || name != "compress" && name != "encrypt" {
			return wrappers, url
		}
		wrappers, url = append(wrappers, name), rest
	}
}

// Open opens the store that url names: "memory:", "sqlite:PATH", or the URL of a server, whose
// parameters are those of its package. opts may be nil.
func Open(ctx context.Context, url string, opts *Options) (reprise.Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	wrappers, base := Split(url)
	store, err := open(ctx, base, o.Logger)
	if err == nil && o.Inner != nil {
		inner := store
		if store, err = o.Inner(inner); err != nil {
			err = errors.Join(err, inner.Close())
		}
	}
	for _, name := range slices.Backward(wrappers) {
		if err != nil {
			return nil, err
		}
		inner := store
		if store, err = wrap(inner, name, &o); err != nil {
			err = errors.Join(err, inner.Close())
		}
	}
	return store, err
}

func wrap(inner reprise.Store, name string, o *Options) (reprise.Store, error) {
	if name == "compress" {
		return opened(storewrap.Compress(inner, nil))
	}
	keys, err := storewrap.LoadKeyset(o.Keys)
	if err != nil {
		return nil, err
	}
	return opened(storewrap.Encrypt(inner, keys))
}

func open(ctx context.Context, url string, logger *slog.Logger) (reprise.Store, error) {
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
