package redisstore

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"reprise"
	"reprise/store/internal/driver"
)

// Restart says whether a restart of the server may lose acknowledged events.
type Restart uint8

const (
	// RestartAuto means RestartKeeps if the server reports that it syncs its append-only file with each write, and
	// RestartLoses if it does not or if the setting cannot be read.
	RestartAuto Restart = iota
	// RestartLoses means that acknowledged events may be lost, so each stream continues under another epoch.
	RestartLoses
	// RestartKeeps means that all acknowledged events are preserved.
	RestartKeeps
)

// Options are the settings of Open. The zero value of each field means its default. A parameter of the URL overrides
// its field; see docs/internals/storage-redis.md.
type Options struct {
	// Prefix is the start of all keys, so that several logs can share a server: 1 to 64 bytes of letters, digits, '.',
	// '_' and '-'. Default: "reprise". Parameter: prefix.
	Prefix string
	// Timeout bounds each call. Default: 10 s. Parameter: timeout.
	Timeout time.Duration
	// Wait is the number of replicas of the server that must have a batch before it is acknowledged or shown. It cannot
	// be used with a Redis Cluster. Default: 0. Parameter: wait.
	Wait int
	// Restart says whether a restart of the server may lose acknowledged events. Default: RestartAuto. Parameter:
	// restart.
	Restart Restart
	// TTL is how long after the expiry of an ended stream Redis itself removes its keys, so that a Redis that no server
	// uses any more empties itself. A stream that is not archived by then is lost. Default: 0, never. Parameter: ttl.
	TTL time.Duration
	// Set by the URL only.
	sentinelAuth              bool
	caFile, certFile, keyFile string

	// Logger logs settings that may lose events, and streams that continue under another epoch. Default: silent.
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

// Store is a reprise.Store in Redis. It implements reprise.Watcher, reprise.Sweeper, reprise.Sizer, reprise.Concurrent
// and reprise.CreateAppender.
type Store struct {
	opts    Options
	client  rueidis.Client
	keys    keys
	cluster bool
	valkey  bool // WAIT counts only what the connection itself has written
	// publish is the command that notifies watchers. me identifies the sender, so that it ignores its own
	// notifications.
	publish, me string

	// use is held for reading by each call and for writing by Close.
	use driver.Gate

	watches  watches
	replays  replays
	keepers  keepers
	searches searches
	refused  sync.Once // logs that the server refuses SCAN
}

var (
	_ reprise.Store   = (*Store)(nil)
	_ reprise.Watcher = (*Store)(nil)
	_ reprise.Sweeper = (*Store)(nil)
	_ reprise.Sizer   = (*Store)(nil)

	_ reprise.Concurrent     = (*Store)(nil)
	_ reprise.CreateAppender = (*Store)(nil)
)

// Open connects to the server at url, for example "redis://user:password@host:6379/0?prefix=builds".
// docs/internals/storage-redis.md lists all forms and parameters. opts may be nil. The error wraps reprise.ErrInvalid
// if the URL is wrong or the server cannot be used, and reprise.ErrUnavailable if the server does not answer. It never
// contains the password.
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
	s.searches.init()
	return s, nil
}

// concurrentAppends was chosen with BenchmarkLanes and bench. With a round trip of a millisecond, four concurrent
// commits append a sixth more single events a second than one does, and eight no more than four. If client and server
// share two cores, four append a tenth more events in batches of 16 and a sixth fewer single events, because the
// scripts get smaller.
const concurrentAppends = 4

// ConcurrentAppends returns the useful number of concurrent commits; see reprise.Concurrent.
func (s *Store) ConcurrentAppends() int { return concurrentAppends }

// Close ends a search that Sizes has started, and closes the connections; see reprise.Store.
func (s *Store) Close() (err error) {
	defer func() { err = storeError(context.Background(), err) }()
	if !s.use.Close() {
		return nil
	}
	s.searches.close()
	s.watches.close()
	s.client.Close()
	return nil
}

// enter begins a call. If the error is nil, the caller must use the returned context and must call leave.
func (s *Store) enter(ctx context.Context) (bounded context.Context, leave func(), err error) {
	if err := s.use.Enter(ctx); err != nil {
		return nil, nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	return bounded, func() { cancel(); s.use.Leave() }, nil
}
