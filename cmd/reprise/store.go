package main

import (
	"context"
	"path/filepath"
	"strings"

	"reprise"
	"reprise/memstore"
	"reprise/sqlitestore"
)

// openStore opens the store that a URL names.
func openStore(ctx context.Context, url string, dir *dataDir) (reprise.Store, error) {
	scheme, _, _ := strings.Cut(url, ":")
	switch scheme {
	case "memory":
		if url != "memory:" {
			return nil, usage("--store %s: memory: takes nothing behind the colon", url)
		}
		return memstore.New(nil), nil
	case "sqlite":
		return sqlitestore.Open(ctx, sqlitePath(url, dir), nil)
	case "redis", "rediss", "postgres", "postgresql", "nats":
		return nil, usage("--store %s: stores on %s are not built in yet; take sqlite: or memory:", hideSecrets(url), scheme)
	}
	return nil, usage("--store %q: take sqlite:, sqlite:PATH or memory:", hideSecrets(url))
}

// sqlitePath is the file that a sqlite: URL names.
func sqlitePath(url string, dir *dataDir) string {
	if path := strings.TrimPrefix(url, "sqlite:"); path != "" {
		return path
	}
	return filepath.Join(dir.path, storeFile)
}

// storeText is the store's URL as it is shown.
func storeText(url string, dir *dataDir) string {
	if strings.HasPrefix(url, "sqlite:") {
		return "sqlite:" + sqlitePath(url, dir)
	}
	return url
}

// hideSecrets cuts off what may hold a password.
func hideSecrets(url string) string {
	scheme, _, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	return scheme + "://..."
}
