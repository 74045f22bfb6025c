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

// Why a directory cannot be opened.
var (
	// ErrInUse: another process, or another Store of this one, has the directory.
	ErrInUse = fmt.Errorf("%w: the directory is in use", reprise.ErrUnavailable)
	// ErrNotOurs: the directory holds files, and none of them is of a Store.
	ErrNotOurs = fmt.Errorf("%w: not a directory of this program", reprise.ErrInvalid)
	// ErrNewer: a newer version of this program has written the directory.
	ErrNewer = fmt.Errorf("%w: written by a newer version", reprise.ErrInvalid)
	// ErrReadOnly: the directory cannot be written to.
	ErrReadOnly = fmt.Errorf("%w: the directory is read-only", reprise.ErrInvalid)
	// ErrDamaged: bytes on the disk are not those that were written. It wraps nothing that is retryable.
	ErrDamaged = errors.New("damaged")
)

// damaged makes an error that wraps ErrDamaged and says what is wrong.
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
	case errors.Is(err, fs.ErrNotExist): // the directory above is missing
		return border.Error(ctx, err, fs.ErrNotExist)
	}
	return storeError(ctx, err)
}

// storeError maps each error that leaves the Store; see package border. ctx is that of the call.
func storeError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil: // whose cause comes first
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		err = fmt.Errorf("%w: %w", reprise.DiskFull, err)
	case errors.Is(err, syscall.EROFS) && !errors.Is(err, ErrReadOnly):
		err = fmt.Errorf("%w: %w", reprise.ReadOnly, err)
	}
	return border.Error(ctx, err, ErrInUse, ErrNotOurs, ErrNewer, ErrReadOnly, ErrDamaged, reprise.DiskFull,
		reprise.ReadOnly)
}

// storeErrors is storeError for each of errs, in their places.
func storeErrors(ctx context.Context, errs []error) {
	for i := range errs {
		errs[i] = storeError(ctx, errs[i])
	}
}
