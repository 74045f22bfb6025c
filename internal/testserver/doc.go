// Package testserver starts real servers for tests, benchmarks and examples: Redis, PostgreSQL and NATS, from
// the binaries of the system, each at a free port of 127.0.0.1 and with a temporary folder of its own.
//
//	server := testserver.Redis(t, nil)
//	store, err := redisstore.Open(ctx, server.URL(), nil)
//
// A server can be killed (Kill, then Start with the data that is left) and held up (Pause, Resume). It ends
// with its test. One that is shared by the tests of a package is started in TestMain, with StartRedis and
// its likes, and ended with Stop.
package testserver

import "errors"

// ErrMissing: the binary of the server is not on this machine. A test is skipped then, and fails when the
// environment variable CI is set.
var ErrMissing = errors.New("the server is not installed")
