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

// Errors of Open and of a Store that cannot be used.
var (
	// ErrRefused means that the server rejects the user, or denies what the store needs.
	ErrRefused = fmt.Errorf("%w: refused by the server", reprise.ErrInvalid)
	// ErrNewer means that a newer version of this program created the tables.
	ErrNewer = fmt.Errorf("%w: made by a newer version", reprise.ErrInvalid)
	// ErrNotOurs means that the schema holds tables of another program.
	ErrNotOurs = fmt.Errorf("%w: not the tables of this program", reprise.ErrInvalid)
	// ErrDamaged means that the data in the database differs from what was written. It wraps no retryable error.
	ErrDamaged = errors.New("damaged")
)

// storeError maps each error that leaves the Store. It maps errors of the server by their code; see package border. ctx
// is the caller's context, without the timeout of the store.
func storeError(ctx context.Context, err error) error {
	return border.Error(ctx, kindOf(err), ErrRefused, ErrNewer, ErrNotOurs, ErrDamaged)
}

// kindOf wraps a permanent error of the server in the sentinel that names its kind.
func kindOf(err error) error {
	// Codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
	switch code := sqlState(err); {
	case code == "XX001", code == "XX002": // data_corrupted, index_corrupted
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case code == noTable, code == "42883", strings.HasPrefix(code, "3F"):
		return fmt.Errorf("%w: %w", ErrNotOurs, err)
	case code == "22021": // a text that is not a valid name
		return fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
	}
	// A retry may help after a lost connection, a timeout, a full disk or during a start of the server.
	return err
}

// openError is storeError for Open. It distinguishes what an operator must change from what may be temporary.
func openError(ctx context.Context, err error) error {
	code := sqlState(err)
	for _, class := range []string{"28", "3D", "42501"} { // authorization, no such database, privilege
		if strings.HasPrefix(code, class) {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	return storeError(ctx, err)
}

// sqlState returns the code of an error of the server, or "" for other errors.
func sqlState(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// undone reports whether the server rolled the transaction back in favor of another one, so that it can be repeated.
func undone(err error) bool {
	switch sqlState(err) {
	case "40001", "40P01": // serialization_failure, deadlock_detected
		return true
	}
	return false
}
