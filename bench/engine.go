package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/natsstore"
	"reprise/store/pgstore"
	"reprise/store/redisstore"
)

// engine is a server of others that stores events, and the contenders of one race share: the first one to start
// starts it, and the last one to close ends it.
type engine struct {
	name  string
	start func() (engineServer, error)
	open  func(ctx context.Context, url string) (reprise.Store, error)

	mu     sync.Mutex
	server engineServer
	users  int
}

type engineServer interface {
	URL() string
	Stop() error
}

// redisEngine is Redis with more arguments for its command line. It syncs each write if they do not say otherwise.
func redisEngine(config ...string) *engine {
	return &engine{
		name:  "redis",
		start: func() (engineServer, error) { return testserver.StartRedis(&testserver.RedisOptions{Config: config}) },
		open: func(ctx context.Context, url string) (reprise.Store, error) {
			return redisstore.Open(ctx, url, nil)
		},
	}
}

// postgresEngine is PostgreSQL that syncs each commit, as it does by default, with room in its log for a race
// without a checkpoint.
func postgresEngine() *engine {
	config := []string{"max_wal_size = 4GB", "checkpoint_timeout = 1h"}
	return &engine{
		name: "postgres",
		start: func() (engineServer, error) {
			return testserver.StartPostgres(&testserver.PostgresOptions{Config: config})
		},
		open: func(ctx context.Context, url string) (reprise.Store, error) { return pgstore.Open(ctx, url, nil) },
	}
}

// natsEngine is a NATS server that keeps its streams in files and syncs them every two minutes, its default.
func natsEngine() *engine {
	return &engine{
		name:  "nats",
		start: func() (engineServer, error) { return testserver.StartNATS(nil) },
		open:  func(ctx context.Context, url string) (reprise.Store, error) { return natsstore.Open(ctx, url, nil) },
	}
}

// IsMissing reports whether err says that the binary of a server is not on this machine.
func IsMissing(err error) bool {
	return errors.Is(err, testserver.ErrMissing)
}

// acquire starts the server if nobody has. The caller calls release once.
func (e *engine) acquire() (url string, release func() error, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users == 0 {
		if e.server, err = e.start(); err != nil {
			return "", nil, fmt.Errorf("start %s: %w", e.name, err)
		}
	}
	e.users++
	return e.server.URL(), e.release, nil
}

func (e *engine) release() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.users--
	if e.users > 0 {
		return nil
	}
	return e.server.Stop()
}

// openLog opens a store at url and a Log over it.
func (e *engine) openLog(ctx context.Context, url string) (*reprise.Log, func() error, error) {
	store, err := e.open(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	log, err := reprise.Open(ctx, store, nil)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return log, func() error { return errors.Join(log.Close(), store.Close()) }, nil
}

// contender is a Contender that uses the server: start gets its URL, and what it returns is closed before the server.
func (e *engine) contender(name string,
	start func(ctx context.Context, scale Scale, url string) (Runner, error),
) Contender {
	return Contender{Name: name, Start: func(ctx context.Context, scale Scale) (Runner, error) {
		url, release, err := e.acquire()
		if err != nil {
			return nil, err
		}
		runner, err := start(ctx, scale, url)
		if err != nil {
			return nil, errors.Join(err, release())
		}
		return closing{runner.Lap, func() error { return errors.Join(runner.Close(), release()) }}, nil
	}}
}
