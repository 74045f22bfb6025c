//go:build !race

package logstore_test

// suiteStreams and suiteEvents bound the conformance suite: each stream is created, and each batch appended, by a
// commit that waits for the disk.
const (
	suiteStreams = 20_000
	suiteEvents  = 100_000
)
