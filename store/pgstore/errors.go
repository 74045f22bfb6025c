package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"reprise"
	"reprise/internal/border"
)

// Why the store cannot be used, or not this part of it.
var (
	// ErrRefused: the server does not let the user in, or not do what the store needs.
	ErrRefused = fmt.Errorf("%w: refused by the server", reprise.ErrInvalid)
	// ErrNewer: a newer version of this program has made the tables.
	ErrNewer = fmt.Errorf("%w: made by a newer version", reprise.ErrInvalid)
	// ErrNotOurs: the schema holds tables, but not those of this program.
	ErrNotOurs = fmt.Errorf("%w: not the tables of this program", reprise.ErrInvalid)
	// ErrDamaged: what the database holds is not what was written. It wraps nothing that is retryable.
	ErrDamaged = errors.New("damaged")
)

// storeError maps each error that leaves the Store, and what the driver and the server say by the codes of the
// server; see package border. ctx is that of the caller, without the store's own bound of time.
func storeError(ctx context.Context, err error) error {
	return border.Error(ctx, kindOf(err), ErrRefused, ErrNewer, ErrNotOurs, ErrDamaged)
}

// storeErrors is storeError for each of errs, in their places.
func storeErrors(ctx context.Context, errs []error) {
	for i := range errs {
		errs[i] = storeError(ctx, errs[i])
	}
}

// kindOf wraps an error of the server that trying again does not change in the one that says so.
func kindOf(err error) error {
	// Codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
	switch code := sqlState(err); {
	case code == "XX001", code == "XX002": // data_corrupted, index_corrupted
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case code == noTable, code == "42883", strings.HasPrefix(code, "3F"):
		return fmt.Errorf("%w: %w", ErrNotOurs, err)
	case code == "22021": // a text that no name can be
		return fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
	}
	// A lost connection, no answer in time, a full disk, a server that starts: trying again may help.
	return err
}

// openError is storeError for Open, where what an operator must change is told from what may pass.
func openError(ctx context.Context, err error) error {
	code := sqlState(err)
	for _, class := range []string{"28", "3D", "42501"} { // authorization, no such database, privilege
		if strings.HasPrefix(code, class) {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	return storeError(ctx, err)
}

// sqlState is the code of an error of the server's, "" for one of another kind.
func sqlState(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// undone reports whether the server has undone the transaction for the sake of another, so
// that it can be tried again.
func undone(err error) bool {
	switch sqlState(err) {
	case "40001", "40P01": // serialization_failure, deadlock_detected
		return true
	}
	return false
}
