package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"reprise"
	"reprise/internal/border"
)

// Errors of Open.
var (
	// ErrInUse means that another process, or another Store of this process, uses the directory.
	ErrInUse = fmt.Errorf("%w: the directory is in use", reprise.ErrUnavailable)
	// ErrNotOurs means that the directory holds files, and none of them belongs to a Store.
	ErrNotOurs = fmt.Errorf("%w: not a directory of this program", reprise.ErrInvalid)
	// ErrNewer means that a newer version of this program wrote the directory.
	ErrNewer = fmt.Errorf("%w: written by a newer version", reprise.ErrInvalid)
	// ErrReadOnly means that the directory is not writable.
	ErrReadOnly = fmt.Errorf("%w: the directory is read-only", reprise.ErrInvalid)
	// ErrDamaged means that data on the disk differs from what was written. It wraps no retryable error.
	ErrDamaged = errors.New("damaged")
)

// damaged returns an error that wraps ErrDamaged and describes the damage.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// openError is storeError for Open.
func openError(ctx context.Context, path string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("open %s: %w", path, err)
	for _, errno := range []error{syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP} {
		if errors.Is(err, errno) {
			err = fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
		}
	}
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		err = fmt.Errorf("%w: %w", ErrReadOnly, err)
	case errors.Is(err, fs.ErrNotExist): // the parent directory does not exist
		return border.Error(ctx, err, fs.ErrNotExist)
	}
	return storeError(ctx, err)
}

// storeError maps each error that leaves the Store; see package border. ctx is the context of the call.
func storeError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil: // the cause of the context takes precedence
	case isFull(err):
		err = fmt.Errorf("%w: %w", reprise.DiskFull, err)
	case errors.Is(err, syscall.EROFS) && !errors.Is(err, ErrReadOnly):
		err = fmt.Errorf("%w: %w", reprise.ReadOnly, err)
	}
	return border.Error(ctx, err, ErrInUse, ErrNotOurs, ErrNewer, ErrReadOnly, ErrDamaged, reprise.DiskFull,
		reprise.ReadOnly)
}

// isFull reports whether err means that the disk has no room.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
