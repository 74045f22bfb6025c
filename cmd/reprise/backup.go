package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/bytesize"
	"reprise/internal/datadir"
	"reprise/internal/storeurl"
	"reprise/internal/upkeep"
)

// backupCmd backs up a store.
type backupCmd struct {
	File string `arg:"" help:"The new file to write to."`

	storePlace `embed:""`
	quietly    `embed:""`
}

// Help is shown below the usage.
func (*backupCmd) Help() string {
	return `Appends continue during the backup. The backup of a store in a file contains everything that was acknowledged before one point in time; the backup of another store contains each stream as of the time at which that stream was copied. FILE appears complete or not at all, and is itself a store: "reprise store stats sqlite:FILE" inspects it.

Encrypted data stays encrypted in the backup. The files "keys", "store.keys" and "token" of the data directory are not part of it: keep a copy of them too. Without "keys" no cursor is valid any more, and without "store.keys" encrypted data cannot be read.

Exit codes: 0 success; 1 no backup was made; 2 wrong usage.`
}

// Run backs up.
func (c *backupCmd) Run(ctx context.Context, asked *stops) error {
	c.unchecked = true // data is copied as it is stored
	if _, err := os.Lstat(c.File); err == nil {
		return usage("%s is there already", c.File)
	}
	started := time.Now()
	err := c.askOr(ctx, asked, c.download, func() error {
		return c.use(ctx, asked, func(ctx context.Context, store reprise.Store) error {
			return upkeep.Backup(ctx, store, c.File)
		})
	})
	if err != nil {
		return err
	}
	info, err := os.Stat(c.File)
	if err != nil {
		return err
	}
	took := time.Since(started)
	if c.JSON {
		return printObject(map[string]any{"file": c.File, "bytes": info.Size(), "seconds": took.Seconds()})
	}
	return c.sayResult("backed up to %s, %v, in %v\n", c.File, bytesize.Size(info.Size()), took.Round(time.Millisecond))
}

// download writes the backup of a server under a temporary name until it is complete.
func (c *backupCmd) download(ctx context.Context, server *client.Client) (err error) {
	res, err := server.Do(ctx, http.MethodPost, "/v1/store/backup", nil) //nolint:bodyclose // by the deferred call
	if err != nil {
		return err
	}
	defer res.Body.Close()
	part := c.File + ".part"
	file, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	bar := newProgress(os.Stderr, c.Quiet || c.JSON)
	defer bar.end()
	arriving := &counted{from: res.Body, show: func(n int64) { bar.show(n, max(n, res.ContentLength)) }}
	_, err = io.Copy(file, arriving) // fails if the body is shorter than announced
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(fmt.Errorf("backup: %w", err), os.Remove(part))
	}
	return os.Rename(part, c.File)
}

// counted reports the number of bytes read.
type counted struct {
	from io.Reader
	n    int64
	show func(n int64)
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	c.show(c.n)
	return n, err
}

// restoreCmd creates a store from a backup.
type restoreCmd struct {
	File string   `arg:"" type:"existingfile" help:"The backup."`
	To   storeURL `arg:"" optional:"" help:"The store to restore into, which must be empty, or @FILE for a file with its URL. Default: the store in the data directory."`

	quietly `embed:""`

	Data string `placeholder:"DIR" help:"Data directory that log: and sqlite: without a path mean. Default: reprise in $$XDG_STATE_HOME or ~/.local/state."`
	JSON bool   `name:"json" help:"Print lines of JSON: progress, what failed, and the result."`
}

// Help is shown below the usage.
func (*restoreCmd) Help() string {
	return `Cursors from before the backup stay valid if the server has the file "keys" that it had then. A cursor of an event that was appended after the backup gets the error epoch_changed, which names the last event of the backup and the number of the reader's events that no longer exist. Such a reader never continues silently among other events.

An encrypted or compressed store is restored unchanged: start the server with the same "compress+" or "encrypt+" in front of its URL, and the same "store.keys". Executions that were running at the time of the backup end as "lost".

Exit codes: 0 success; 1 failure: empty the store before the next try; 2 wrong usage.`
}

// Run restores.
func (c *restoreCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	place := storePlace{Data: c.Data}
	_, base := storeurl.Split(c.To.url)
	if base == "" {
		base = storeurl.Default(place.dataDir())
	}
	if isArchive(base) {
		return usage("%s: a backup is not restored into an archive", storeurl.Redact(base))
	}
	to, err := openPlaceWith(ctx, base, place.dataDir(), &storeurl.Options{Unmarked: true}, false)
	if err != nil {
		return err
	}
	report := storeCopyCmd{JSON: c.JSON, quietly: c.quietly, bar: newProgress(os.Stderr, c.Quiet || c.JSON)}
	started := time.Now()
	result, err := upkeep.Restore(ctx, c.File, upkeep.Innermost(to.store), report.progress)
	report.bar.end()
	if err == nil && to.dir != nil {
		err = upkeep.RecordStart(ctx, to.store, filepath.Join(to.data(), datadir.StartsFile))
	}
	if err == nil {
		err = report.report(&result, time.Since(started))
	}
	return errors.Join(err, to.close())
}
