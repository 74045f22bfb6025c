package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"reprise/client"
	"reprise/internal/datadir"
	"reprise/internal/storeurl"
	"reprise/store/logstore"
	"reprise/store/sqlitestore"
)

func (p *storePlace) dataDir() string { return cmp.Or(p.Data, defaultDataDir()) }

// askOr calls ask with the server that uses the store, or open if there is none. Without --data, --store or a URL, that
// is the server of the other verbs; if nothing listens at the default address, the store in the default data directory
// is opened. With one of them, the store is opened unless a server holds the data directory, or the store and the data
// directory that the store lies in; then that server is asked.
func (p *storePlace) askOr(ctx context.Context, asked *stops, ask func(context.Context, *client.Client) error,
	open func() error,
) error {
	withServer := func(server *client.Client) error {
		ctx, release := asked.context(ctx)
		defer release()
		return ask(ctx, server)
	}
	if p.Place.url == "" && p.Data == "" && p.Store.url == "" {
		server, err := p.Server.clientWith(client.Options{GiveUpFirst: -1}) // it need not be there
		if err != nil {
			return err
		}
		err = withServer(server)
		if p.Server.isNamed() || !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		return open()
	}
	err := open()
	data := p.dataDir()
	switch {
	case errors.Is(err, datadir.ErrInUse):
	case errors.Is(err, sqlitestore.ErrInUse), errors.Is(err, logstore.ErrInUse):
		path, _ := storeurl.Path(data, p.url())
		data = filepath.Dir(path)
	default:
		return err
	}
	server, holderErr := p.holder(data)
	if holderErr != nil {
		return errors.Join(err, holderErr)
	}
	if server == nil {
		return err
	}
	return withServer(server)
}

// holder returns the server that holds a data directory, nil if it is unknown. The server gets the token, so that an
// address that any user may have written does not count.
func (p *storePlace) holder(data string) (*client.Client, error) {
	lock, err := os.ReadFile(filepath.Join(data, datadir.LockFile))
	if open := datadir.CheckNotOpen(data); open != nil || errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilerr // the server is unknown
	}
	if err != nil {
		return nil, err
	}
	_, address, _ := strings.Cut(strings.TrimSpace(string(lock)), "\n")
	if address == "" {
		return nil, nil
	}
	connect := p.Server
	connect.URL, connect.Context = address, ""
	if token := filepath.Join(data, datadir.TokenFile); connect.TokenFile == "" && os.Getenv("REPRISE_TOKEN") == "" {
		if _, err := os.Stat(token); err == nil {
			connect.TokenFile = token
		}
	}
	return connect.client()
}
