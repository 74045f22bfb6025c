package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"zombiezen.com/go/sqlite"

	"reprise"
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

// openError maps what the system and SQLite say of a file that cannot be opened.
func openError(err error) error {
	readOnly := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) ||
		sqlite.ErrCode(err).ToPrimary() == sqlite.ResultReadOnly
	if readOnly {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return err
}

// storeError maps what SQLite says to the errors of package reprise. ctx is that of the
// call, whose end interrupts SQLite.
func storeError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errDamaged), errors.Is(err, reprise.ErrUnavailable), errors.Is(err, reprise.ErrClosed),
		errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
		return err
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	// A full disk, an error of the disk, no memory: trying again may help.
	return fmt.Errorf("%w: %w", reprise.ErrUnavailable, err)
}
