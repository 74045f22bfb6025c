package pgstore

import (
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed migrations/*.sql
var migrations embed.FS

// version is the version of the schema: the number of the last migration.
const version = 3

// quoted returns the name of the schema in the syntax of SQL.
func (o *Options) quoted() string { return pgx.Identifier{o.Schema}.Sanitize() }

// lockKey returns the key of the schema's advisory lock, which orders appends and new partitions. The next higher key
// is held by a replica that migrates the schema or tidies.
func (o *Options) lockKey() int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("reprise:" + o.Schema))
	return int64(h.Sum64() >> 2 << 1)
}

// in replaces the placeholders of a statement by names of the schema.
func (o *Options) in(statement string) string {
	return strings.NewReplacer("{schema}", o.quoted(), "{lock}", strconv.FormatInt(o.lockKey(), 10),
		"{tidy}", strconv.FormatInt(o.lockKey()+1, 10)).Replace(statement)
}

// migrate creates the schema or updates it. If several replicas start at the same time, one migrates and the others
// wait. A role without the right to create schemas suffices if nothing has to be done.
func migrate(ctx context.Context, conn *pgx.Conn, o *Options) error {
	at, err := schemaVersion(ctx, conn, o)
	if err != nil || at == version {
		return err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(
		ctx, o.in("SELECT pg_advisory_xact_lock({tidy})"), pgx.QueryExecModeSimpleProtocol,
	); err != nil {
		return err
	}
	if at, err = schemaVersion(ctx, tx.Conn(), o); err != nil {
		return err
	}
	var there bool
	if err := tx.QueryRow(
		ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, o.Schema,
	).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := tx.Exec(ctx, o.in("CREATE SCHEMA {schema}")); err != nil {
			return err
		}
	}
	for v := at + 1; v <= version; v++ {
		text, err := fs.ReadFile(migrations, fmt.Sprintf("migrations/%04d.sql", v))
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, o.in(string(text)), pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("migration %d: %w", v, err)
		}
	}
	note := fmt.Sprintf("CREATE OR REPLACE FUNCTION {schema}.schema_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT %d'",
		version)
	if _, err := tx.Exec(ctx, o.in(note), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// schemaVersion returns the version of the existing tables, or 0 if there are none.
func schemaVersion(ctx context.Context, conn *pgx.Conn, o *Options) (int, error) {
	var ours, others bool
	const look = `SELECT to_regprocedure($1) IS NOT NULL,
		EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $2)`
	err := conn.QueryRow(ctx, look, o.in("{schema}.schema_version()"), o.Schema).Scan(&ours, &others)
	switch {
	case err != nil:
		return 0, err
	case !ours && others:
		return 0, fmt.Errorf("%w: schema %s", ErrNotOurs, o.quoted())
	case !ours:
		return 0, nil
	}
	var at int
	if err := conn.QueryRow(ctx, o.in("SELECT {schema}.schema_version()")).Scan(&at); err != nil {
		return 0, err
	}
	if at > version {
		return at, fmt.Errorf("%w: schema %d, this program knows %d", ErrNewer, at, version)
	}
	return at, nil
}
