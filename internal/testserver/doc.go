// Package testserver starts real servers for tests, benchmarks and examples: Redis, PostgreSQL and NATS, from
// the binaries of the system, each at a free port of 127.0.0.1 and with a temporary folder of its own.
//
//	server := testserver.Redis(t, nil)
//	store, err := redisstore.Open(ctx, server.URL(), nil)
//
// A server can be killed (Kill, then Start with the remaining data) and paused (Pause, Resume). It ends with its test.
// A server that the tests of a package share is started in TestMain, with StartRedis and similar functions, and ended
// with Stop.
package testserver

import (
	"errors"
	"os"
	"testing"
	"time"
)

// ErrMissing means that the binary of the server is not installed. The test is skipped, or fails if the environment
// variable CI is set.
var ErrMissing = errors.New("the server is not installed")

// started stops the server at the end of the test, or skips or fails the test with err.
func started(tb testing.TB, server interface{ Stop() error }, err error) {
	tb.Helper()
	failOrSkip(tb, err)
	tb.Cleanup(func() {
		if err := server.Stop(); err != nil {
			tb.Error(err)
		}
	})
}

// failOrSkip ends a test whose server could not be started.
func failOrSkip(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case errors.Is(err, ErrMissing) && os.Getenv("CI") == "":
		tb.Skip(err)
	case err != nil:
		tb.Fatal(err)
	}
}

// TempDir is tb.TempDir for the folder of a server that a test kills. What the server has started, such as a supervisor
// that makes the directory of the next run, may go on writing there for a moment, and its end is not waited for.
func TempDir(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	tb.Cleanup(func() {
		if err := removeAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// removeWithin is how long a process that was killed may go on writing into the folder of its server.
const removeWithin = time.Minute

// removeAll removes the folder of a server that was killed. Once it is gone, nothing can be made in it any more.
func removeAll(dir string) error {
	for deadline := time.Now().Add(removeWithin); ; time.Sleep(10 * time.Millisecond) {
		if err := os.RemoveAll(dir); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
