package redisstore

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"reprise"
)

// Restart says what a start of the server means for streams that were appended to before it.
type Restart uint8

const (
	// RestartAuto: the same as RestartKeeps where the server says that it syncs its append-only file
	// with each write, and as RestartLoses where it does not, or may not be asked.
	RestartAuto Restart = iota
	// RestartLoses: events that were acknowledged may be gone, so each stream goes on under another epoch.
	RestartLoses
	// RestartKeeps: all that was acknowledged is there again.
	RestartKeeps
)

// Options are the settings of Open. The zero value of each field means its default. Those that have a
// parameter of the URL are overridden by it; see docs/storage-redis.md.
type Options struct {
	// Prefix is what all keys begin with, so that several logs can live in one server: 1 to 64 bytes of
	// letters, digits, '.', '_' and '-'. Default: "reprise". Parameter: prefix.
	Prefix string
	// Timeout bounds each call. Default: 10 s. Parameter: timeout.
	Timeout time.Duration
	// Wait is how many replicas of the server must have a batch before it is acknowledged or shown. Not for a
	// Redis Cluster. Default: 0. Parameter: wait.
	Wait int
	// Restart says what a start of the server means. Default: RestartAuto. Parameter: restart.
	Restart Restart
	// From the URL alone.
	sentinelAuth              bool
	caFile, certFile, keyFile string

	// Logger is told of what may lose events and of streams that go on under another epoch. Default: silent.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Prefix == "" {
		d.Prefix = "reprise"
	}
	if d.Timeout <= 0 {
		d.Timeout = 10 * time.Second
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// Store is a reprise.Store in Redis. It is a reprise.Watcher, a reprise.Sweeper, a
// reprise.Sizer and a reprise.Concurrent.
type Store struct {
	opts    Options
	client  rueidis.Client
	keys    keys
	cluster bool
	// publish is the command that tells watchers. me is who tells, so that it need not listen to itself.
	publish, me string

	// use is held for reading by each call and for writing by Close.
	use    sync.RWMutex
	closed bool

	watches watches
	replays replays
	keepers keepers
}

var (
	_ reprise.Store   = (*Store)(nil)
	_ reprise.Watcher = (*Store)(nil)
	_ reprise.Sweeper = (*Store)(nil)
	_ reprise.Sizer   = (*Store)(nil)

	_ reprise.Concurrent = (*Store)(nil)
)

// Open connects to the server at url, such as "redis://user:password@host:6379/0?prefix=builds"; all forms and
// parameters are in docs/storage-redis.md. opts may be nil. The error wraps reprise.ErrInvalid where the URL is
// wrong or the server cannot be used, and reprise.ErrUnavailable where it does not answer; it never holds the password.
func Open(ctx context.Context, url string, opts *Options) (_ *Store, err error) {
	defer func() { err = storeError(ctx, err) }()
	s := &Store{opts: opts.withDefaults(), publish: "SPUBLISH", me: rand.Text()}
	driver, err := parseURL(url, &s.opts)
	if err != nil {
		return nil, err
	}
	s.keys = keys{s.opts.Prefix}
	bounded, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	if s.client, err = connect(bounded, driver); err != nil {
		return nil, openError(ctx, driver, err)
	}
	if err := s.inspect(bounded); err != nil {
		s.client.Close()
		return nil, openError(ctx, driver, err)
	}
	s.watches.init(s)
	return s, nil
}

// concurrentAppends was chosen by BenchmarkLanes and by bench. With a millisecond to the server, four commits under
// way take a sixth more single events a second than one, and eight no more than four. Where client and server share
// two cores, four take a tenth more events in batches of 16 and a sixth fewer single ones, since the scripts get
// smaller.
const concurrentAppends = 4

// ConcurrentAppends is how many commits are worth having under way; see reprise.Concurrent.
func (s *Store) ConcurrentAppends() int { return concurrentAppends }

// Close ends the connections; see reprise.Store.
func (s *Store) Close() (err error) {
	defer func() { err = storeError(context.Background(), err) }()
	s.use.Lock()
	defer s.use.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.watches.close()
	s.client.Close()
	return nil
}

// enter begins a call. If the error is nil, the caller calls leave, and uses the context that it got.
func (s *Store) enter(ctx context.Context) (bounded context.Context, leave func(), err error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	s.use.RLock()
	if s.closed {
		s.use.RUnlock()
		return nil, nil, reprise.ErrClosed
	}
	bounded, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	return bounded, func() { cancel(); s.use.RUnlock() }, nil
}
