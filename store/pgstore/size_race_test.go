//go:build race

package pgstore_test

// The race detector makes all of it several times as slow.
const suiteEvents, suiteStreams = 20_000, 500
