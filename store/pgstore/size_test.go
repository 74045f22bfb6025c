//go:build !race

package pgstore_test

const suiteEvents, suiteStreams = 100_000, 2_000
