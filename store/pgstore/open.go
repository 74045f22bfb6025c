package pgstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"reprise"
	"reprise/store/internal/driver"
)

// Store is a reprise.Store in PostgreSQL. It implements reprise.Concurrent, reprise.Watcher, reprise.Sweeper and
// reprise.Sizer.
type Store struct {
	opts Options
	sql  statements
	pool *pgxpool.Pool
	// sockets are all connections of the pool.
	sockets sockets
	// name distinguishes the notifications of this replica from others'.
	name string

	// use is held for reading by each call and for writing by Close.
	use driver.Gate

	watches  watches
	renewals renewals
	// life ends when the Store is closed.
	life       context.Context
	end        context.CancelFunc
	background sync.WaitGroup
}

var (
	_ reprise.Store      = (*Store)(nil)
	_ reprise.Concurrent = (*Store)(nil)
	_ reprise.Watcher    = (*Store)(nil)
	_ reprise.Sweeper    = (*Store)(nil)
	_ reprise.Sizer      = (*Store)(nil)
)

// Open connects to the database at a URL of the form postgres://user:password@host:port/database?parameter=value and
// creates or updates the tables. docs/internals/storage-postgres.md lists the parameters. opts may be nil. The error is
// ErrRefused, ErrNewer or ErrNotOurs, or it wraps reprise.ErrInvalid if the URL is wrong and reprise.ErrUnavailable if
// the server does not answer. It never contains the password.
func Open(ctx context.Context, url string, opts *Options) (_ *Store, err error) {
	defer func() { err = storeError(ctx, err) }()
	o, config, err := parse(url, opts)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	s := &Store{opts: o, name: rand.Text()[:hashChars]}
	s.sql.init(&o)
	s.sockets.open = map[*socket]struct{}{}
	config.ConnConfig.DialFunc = s.sockets.dial(config.ConnConfig.DialFunc)
	listen := config.ConnConfig
	if o.Listen != "" {
		if listen, err = pgx.ParseConfig(o.Listen); err != nil {
			return nil, fmt.Errorf("PostgreSQL: %w: the parameter listen: %w", reprise.ErrInvalid, err)
		}
		listen.DialFunc = s.sockets.dial(listen.DialFunc)
		listen.RuntimeParams["application_name"] = config.ConnConfig.RuntimeParams["application_name"]
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", openError(ctx, err))
	}
	if err := s.prepare(ctx); err != nil {
		time.AfterFunc(closePatience, s.sockets.closeAll)
		s.pool.Close()
		return nil, fmt.Errorf("PostgreSQL: %w", openError(ctx, err))
	}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.background.Go(func() { s.tidyLoop() })
	s.background.Go(func() { s.watchLoop(listen.Copy()) })
	return s, nil
}

// prepare updates the tables and reads the settings of the server that affect durability.
func (s *Store) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := migrate(ctx, conn.Conn(), &s.opts); err != nil {
		return err
	}
	if err := s.recognize(ctx, conn.Conn()); err != nil {
		return err
	}
	var level string
	err = conn.QueryRow(ctx, "SELECT current_setting('synchronous_commit')").Scan(&level)
	if err == nil && (s.opts.Commit == "off" || s.opts.Commit == "" && level == "off") {
		s.opts.Logger.WarnContext(ctx, "synchronous_commit is off: a crash of the server may take back events that readers have seen")
	}
	return err
}

// ConcurrentAppends returns Options.Commits; see reprise.Concurrent.
func (s *Store) ConcurrentAppends() int { return s.opts.Commits }

// Close closes all connections. It waits for calls under way.
func (s *Store) Close() (err error) {
	defer func() { err = storeError(context.Background(), err) }()
	if !s.use.Close() {
		return nil
	}
	s.end()
	s.background.Wait()
	patience := time.AfterFunc(closePatience, s.sockets.closeAll)
	defer patience.Stop()
	s.pool.Close()
	return nil
}

// closePatience is how long Close waits for an answer of the server.
const closePatience = time.Second

// statements are the statements of a Store, with the name of its schema filled in.
type statements struct {
	append, read, create, configure string
	trim, remove, mark              string
	sweep, forget, sizes            string
	notify, poll, stats             string
	adopt                           string
}

func (q *statements) init(o *Options) {
	*q = statements{
		append: appendStatement, read: readStatement, create: createStatement,
		configure: configureStatement,
		trim:      trimStatement, remove: removeStatement, mark: markStatement,
		sweep: sweepStatement, forget: forgetStatement, sizes: sizesStatement,
		notify: notifyStatement, poll: pollStatement, stats: statsStatement, adopt: adoptStatement,
	}
	for _, text := range []*string{
		&q.append, &q.read, &q.create, &q.configure, &q.trim, &q.remove, &q.mark, &q.sweep, &q.forget, &q.sizes,
		&q.notify, &q.poll, &q.stats, &q.adopt,
	} {
		*text = o.in(*text)
	}
}
