package redisstore_test

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/redisstore"
	"reprise/store/storetest"
)

// shared is the server of all tests that need none of their own. It is nil where there is no binary.
var shared *testserver.RedisServer

func TestMain(m *testing.M) {
	var err error
	if shared, err = testserver.StartRedis(nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if !errors.Is(err, testserver.ErrMissing) || os.Getenv("CI") != "" {
			os.Exit(1)
		}
	}
	code := m.Run()
	if shared != nil {
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	// The driver leaves a goroutine that sleeps for a second when it has asked whether a server is of a cluster.
	err = goleak.Find()
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); {
		err = goleak.Find()
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// server is the shared one.
func server(tb testing.TB) *testserver.RedisServer {
	tb.Helper()
	if shared == nil {
		tb.Skip("redis-server is not installed")
	}
	return shared
}

var prefixes atomic.Int64

// place makes a prefix of its own on a server.
func place(tb testing.TB, on *testserver.RedisServer) string {
	prefix := fmt.Sprint("t", prefixes.Add(1))
	return on.URL() + "?prefix=" + prefix
}

// open makes a place on the shared server, which a fault kills.
func open(tb testing.TB) storetest.Harness {
	on := server(tb)
	url := place(tb, on)
	return storetest.Harness{
		Persistent: true,
		Open:       func() (reprise.Store, error) { return redisstore.Open(tb.Context(), url, nil) },
		Share:      func() (reprise.Store, error) { return redisstore.Open(tb.Context(), url, nil) },
		Fault:      func(reprise.Store) (mend func() error, err error) { return on.Start, on.Kill() },
		Deafen: func(reprise.Store) error {
			_, err := on.Command("CLIENT", "KILL", "TYPE", "pubsub")
			return err
		},
		Cut: func(reprise.Store) error {
			_, err := on.Command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			return err
		},
	}
}

// TestStoreOnServerThatLoses runs the checks of a loss on a server that keeps what it had at a snapshot.
func TestStoreOnServerThatLoses(t *testing.T) {
	on := testserver.Redis(t, &testserver.RedisOptions{Config: []string{"--appendonly", "no"}})
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		url := place(tb, on)
		return storetest.Harness{
			Persistent: true,
			Open:       func() (reprise.Store, error) { return redisstore.Open(tb.Context(), url, nil) },
			Share:      func() (reprise.Store, error) { return redisstore.Open(tb.Context(), url, nil) },
			Lose: func(store reprise.Store) (take func() error, err error) {
				_, err = on.Command("SAVE")
				return func() error {
					if err := errors.Join(on.Kill(), on.Start()); err != nil {
						return err
					}
					return answers(tb, store)
				}, err
			},
		}
	}, &storetest.Options{Groups: []string{"loss"}})
}

// answers waits until a store can be used. It looks at no stream.
func answers(tb testing.TB, s reprise.Store) (err error) {
	until(tb, "the server is back", func() bool {
		_, err = s.List(tb.Context(), reprise.ListQuery{Tenant: "nobody", Limit: 1})
		return !isUnavailable(err)
	})
	return err
}

func TestStoreKeepsContract(t *testing.T) {
	storetest.Run(t, open, &storetest.Options{Events: 30_000, Streams: 3_000})
}
