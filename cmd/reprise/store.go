package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"reprise"
	"reprise/internal/datadir"
	"reprise/internal/marker"
	"reprise/internal/storeurl"
	"reprise/store/sqlitestore"
)

// storeKeys is the flag of the commands that open a store.
type storeKeys struct {
	StoreKeys string `placeholder:"FILE" help:"Keys of a store with encrypt+ in front of its URL. Default: store.keys in the directory of the secrets."`
}

// file is the file with the keys, by default in the directory secrets.
func (k *storeKeys) file(secrets string) string {
	if k.StoreKeys != "" {
		return k.StoreKeys
	}
	return filepath.Join(secrets, datadir.StoreKeysFile)
}

// place is a store that a verb has opened in the place of a server.
type place struct {
	store reprise.Store
	dir   *datadir.Dir // nil for a store that lies elsewhere
}

// data is the path of the data directory, "" if there is none.
func (p *place) data() string {
	if p.dir == nil {
		return ""
	}
	return p.dir.Path
}

// openPlace opens the store that a URL names, alone: the file of a server that runs is refused.
// data is the data directory, for "sqlite:" and "log:" without a path. mustExist refuses to make a new
// store; without it the store is the target of a copy, see syncAtEnd.
func openPlace(ctx context.Context, url, data string, keys *storeKeys, mustExist bool) (*place, error) {
	return openPlaceWith(ctx, url, data, &storeurl.Options{Keys: keys.file(data)}, mustExist)
}

// openPlaceWith is openPlace with the settings of storeurl.
func openPlaceWith(ctx context.Context, url, data string, opts *storeurl.Options,
	mustExist bool,
) (p *place, err error) {
	_, base := storeurl.Split(url)
	if base == "memory:" {
		return nil, usage("--store %s: what is in memory is gone with its server", url)
	}
	opts.MaxStreams = math.MaxInt // what a server has refused does not concern the verbs
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
	if base == "sqlite:" || base == "log:" {
		if data == "" {
			return p, datadir.ErrNone
		}
		if _, err := os.Stat(data); err != nil && mustExist {
			return p, fmt.Errorf("data directory: %w", err)
		}
		if p.dir, err = datadir.Lock(data); err != nil {
			return p, err
		}
	}
	if file, ok := storeurl.Path(p.data(), url); ok && mustExist {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return p, fmt.Errorf("there is no store yet: %w", err)
		}
	}
	if strings.HasPrefix(url, "sqlite:") && !mustExist {
		path, _ := storeurl.Path(p.data(), url)
		p.store, err = syncAtEnd(ctx, path, opts.Unmarked)
	} else {
		p.store, err = storeurl.OpenIn(ctx, p.data(), url, opts)
	}
	return p, err
}

// syncAtEnd opens a file to copy to. To wait for the disk after each batch of a long stream would take most of
// the time. It is enough when the file is closed: what a loss of power takes back before, the copy does again.
func syncAtEnd(ctx context.Context, path string, unmarked bool) (reprise.Store, error) {
	store, err := sqlitestore.Open(ctx, path, &sqlitestore.Options{Sync: sqlitestore.SyncNormal})
	if err != nil {
		return nil, err // and not a Store that is a nil pointer
	}
	check := marker.Check
	if unmarked {
		check = marker.Compare
	}
	if err := check(ctx, store); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func (p *place) close() error {
	var errs []error
	if p.store != nil {
		errs = append(errs, p.store.Close())
	}
	if p.dir != nil {
		errs = append(errs, p.dir.Close())
	}
	return errors.Join(errs...)
}
