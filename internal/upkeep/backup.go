package upkeep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"reprise"
	"reprise/internal/transfer"
	"reprise/store/sqlitestore"
)

// Backup writes all that lies in store, as it lies there within its wrappers, into the new file path, which is
// a file of sqlitestore. Appends go on meanwhile. Of a sqlitestore the file is one consistent view. Of other
// stores each stream is as it was when it was copied. The error wraps os.ErrExist if there is such a file.
func Backup(ctx context.Context, store reprise.Store, path string) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	err = file.Close()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("backup: %w", err), os.Remove(path))
		}
	}()
	if err != nil {
		return err
	}
	if err := write(ctx, Innermost(store), path); err != nil {
		return err
	}
	return errors.Join(flush(path), flush(filepath.Dir(path)))
}

func write(ctx context.Context, store reprise.Store, path string) error {
	if s, ok := store.(*sqlitestore.Store); ok {
		return s.Backup(ctx, path)
	}
	target, err := sqlitestore.Open(ctx, path, &sqlitestore.Options{Sync: sqlitestore.SyncNormal})
	if err != nil {
		return err
	}
	_, err = transfer.Copy(ctx, store, target, &transfer.Options{Markers: true})
	return errors.Join(err, target.Close())
}

// flush waits until a file or folder is on the disk.
func flush(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// ErrNotEmpty: a backup is restored into an empty store.
var ErrNotEmpty = errors.New("the store holds streams already, and a backup is restored into an empty one")

// Restore copies what the file path holds, which Backup has written, into the innermost store, which is empty: the
// restored store has the wrappers of the one that was backed up. The streams that had
// not ended get another epoch whose fork is the last event of the backup: a cursor beyond it, of what was
// appended after the backup, is then answered with epoch_changed, and never taken for one of other events. The
// error is ErrNotEmpty if store has streams.
func Restore(ctx context.Context, path string, store reprise.Store, progress func(transfer.Progress)) (
	transfer.Result, error,
) {
	if _, err := os.Stat(path); err != nil { // sqlitestore would make it
		return transfer.Result{}, fmt.Errorf("restore: %w", err)
	}
	page, err := store.List(ctx, reprise.ListQuery{AllNamespaces: true, Limit: 1})
	if err != nil {
		return transfer.Result{}, fmt.Errorf("restore: %w", err)
	}
	if len(page.Streams) > 0 {
		return transfer.Result{}, fmt.Errorf("restore: %w", ErrNotEmpty)
	}
	backup, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		return transfer.Result{}, fmt.Errorf("restore: %w", err)
	}
	result, err := transfer.Copy(ctx, newRenewed(backup), store,
		&transfer.Options{Markers: true, Progress: progress})
	return result, errors.Join(err, backup.Close())
}
