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

// Errors of Open.
var (
	// ErrInUse means that another process, or another Store of this process, uses the file.
	ErrInUse = fmt.Errorf("%w: the file is in use", reprise.ErrUnavailable)
	// ErrNotOurs means that the file is not a SQLite database, or belongs to another program.
	ErrNotOurs = fmt.Errorf("%w: not a file of this program", reprise.ErrInvalid)
	// ErrNewer means that a newer version of this program wrote the file.
	ErrNewer = fmt.Errorf("%w: written by a newer version", reprise.ErrInvalid)
	// ErrReadOnly means that the file or its folder is not writable.
	ErrReadOnly = fmt.Errorf("%w: the file or its folder is read-only", reprise.ErrInvalid)
	// ErrDamaged means that data in the file differs from what was written. It wraps no retryable error.
	ErrDamaged = errDamaged
)

// errBusy means that a call gave up waiting for others.
var errBusy = fmt.Errorf("%w: the file is busy", reprise.ErrUnavailable)

// openError is storeError for Open. It maps errors of the operating system and of SQLite for a file that cannot be
// opened.
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
	case errors.Is(err, fs.ErrNotExist): // the folder does not exist
		return border.Error(ctx, err, fs.ErrNotExist)
	}
	return storeError(ctx, err)
}

// storeError maps each error that leaves the Store. It maps errors of SQLite by their code; see package border. ctx is
// the context of the call, whose end interrupts SQLite.
func storeError(ctx context.Context, err error) error {
	switch code := sqlite.ErrCode(err).ToPrimary(); {
	case code == sqlite.ResultCorrupt, code == sqlite.ResultNotADB:
		err = fmt.Errorf("%w: %w", errDamaged, err)
	case ctx.Err() != nil: // the cause of the context takes precedence
	case isFull(err):
		err = fmt.Errorf("%w: %w", reprise.DiskFull, err)
	case code == sqlite.ResultReadOnly && !errors.Is(err, ErrReadOnly):
		// Open returns ErrReadOnly for a file that was never writable.
		err = fmt.Errorf("%w: %w", reprise.ReadOnly, err)
	}
	// A retry may help after a full disk, a disk error or a lack of memory.
	return border.Error(ctx, err, ErrInUse, ErrNotOurs, ErrNewer, ErrReadOnly, ErrDamaged, reprise.DiskFull,
		reprise.ReadOnly)
}
