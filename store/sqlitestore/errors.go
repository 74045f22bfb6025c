package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"zombiezen.com/go/sqlite"

	"reprise"
	"reprise/internal/border"
)

// Why a file cannot be opened.
var (
	// ErrInUse: another process, or another Store of this one, has the file.
	ErrInUse = fmt.Errorf("%w: the file is in use", reprise.ErrUnavailable)
	// ErrNotOurs: the file is not a SQLite database, or one of another program.
	ErrNotOurs = fmt.Errorf("%w: not a file of this program", reprise.ErrInvalid)
	// ErrNewer: a newer version of this program has written the file.
	ErrNewer = fmt.Errorf("%w: written by a newer version", reprise.ErrInvalid)
	// ErrReadOnly: the file, or the folder that it lies in, cannot be written to.
	ErrReadOnly = fmt.Errorf("%w: the file or its folder is read-only", reprise.ErrInvalid)
	// ErrDamaged: bytes in the file are not those that were written. It wraps
	// nothing that is retryable.
	ErrDamaged = errDamaged
)

// errBusy is why a call gave up that has waited for others.
var errBusy = fmt.Errorf("%w: the file is busy", reprise.ErrUnavailable)

// openError is storeError for Open: it maps what the system and SQLite say of a file that cannot be opened.
func openError(ctx context.Context, path string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("open %s: %w", path, err)
	readOnly := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) ||
		sqlite.ErrCode(err).ToPrimary() == sqlite.ResultReadOnly
	for _, errno := range []error{syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.ELOOP} {
		if errors.Is(err, errno) {
			err = fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
		}
	}
	switch {
	case readOnly:
		err = fmt.Errorf("%w: %w", ErrReadOnly, err)
	case errors.Is(err, fs.ErrNotExist): // the folder is missing
		return border.Error(ctx, err, fs.ErrNotExist)
	}
	return storeError(ctx, err)
}

// storeError maps each error that leaves the Store, and what SQLite says by its code; see package border. ctx is that
// of the call, whose end interrupts SQLite.
func storeError(ctx context.Context, err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		err = fmt.Errorf("%w: %w", errDamaged, err)
	case sqlite.ResultFull:
		err = fmt.Errorf("%w: %w", reprise.DiskFull, err)
	case sqlite.ResultReadOnly:
		if !errors.Is(err, ErrReadOnly) { // which Open says of a file that never could be written
			err = fmt.Errorf("%w: %w", reprise.ReadOnly, err)
		}
	}
	// A full disk, an error of the disk, no memory: trying again may help.
	return border.Error(ctx, err, ErrInUse, ErrNotOurs, ErrNewer, ErrReadOnly, ErrDamaged, reprise.DiskFull,
		reprise.ReadOnly)
}

// storeErrors is storeError for each of errs, in their places.
func storeErrors(ctx context.Context, errs []error) {
	for i := range errs {
		errs[i] = storeError(ctx, errs[i])
	}
}
