package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"reprise"
	"reprise/internal/storeurl"
)

// openStore opens the store that a URL names.
func openStore(ctx context.Context, url string, dir *dataDir, logger *slog.Logger) (reprise.Store, error) {
	if strings.HasPrefix(url, "sqlite:") {
		url = "sqlite:" + sqlitePath(url, dir)
	}
	store, err := storeurl.Open(ctx, url, logger)
	if errors.Is(err, storeurl.ErrScheme) {
		return nil, usage("--store %q: %w", storeurl.Redact(url), storeurl.ErrScheme)
	}
	return store, err
}

// place is a store that a verb has opened in the place of a server.
type place struct {
	store reprise.Store
	dir   *dataDir // nil for a store that lies elsewhere
}

// openPlace opens the store that a URL names, alone: that of a server which runs on a file
// is refused. data is the data directory, for "sqlite:" without a path. mustExist refuses to make a new file.
func openPlace(ctx context.Context, url, data string, mustExist bool) (p *place, err error) {
	if url == "memory:" {
		return nil, usage("--store %s: what is in memory is gone with its server", url)
	}
	p = &place{}
	if isArchive(url) {
		if !mustExist {
			return nil, usage("%s is an archive, which \"reprise store archive\" writes", storeurl.Redact(url))
		}
		p.store, err = openArchiveStore(ctx, url)
		return p, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if url == "sqlite:" {
		if _, err := os.Stat(data); err != nil && mustExist {
			return p, fmt.Errorf("data directory: %w", err)
		}
		if p.dir, err = lockDataDir(data); err != nil {
			return p, err
		}
	}
	if strings.HasPrefix(url, "sqlite:") && mustExist {
		if _, err := os.Stat(sqlitePath(url, p.dir)); errors.Is(err, fs.ErrNotExist) {
			return p, fmt.Errorf("there is no store yet: %w", err)
		}
	}
	p.store, err = openStore(ctx, url, p.dir, nil)
	return p, err
}

func (p *place) close() error {
	var errs []error
	if p.store != nil {
		errs = append(errs, p.store.Close())
	}
	if p.dir != nil {
		errs = append(errs, p.dir.close())
	}
	return errors.Join(errs...)
}

// sqlitePath is the file that a sqlite: URL names.
func sqlitePath(url string, dir *dataDir) string {
	if path := strings.TrimPrefix(url, "sqlite:"); path != "" {
		return path
	}
	return filepath.Join(dir.path, storeFile)
}

// storeText is the store's URL as it is shown, without passwords.
func storeText(url string, dir *dataDir) string {
	if strings.HasPrefix(url, "sqlite:") {
		return "sqlite:" + sqlitePath(url, dir)
	}
	return storeurl.Redact(url)
}
