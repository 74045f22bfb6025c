//go:build race

package logstore_test

// suiteStreams and suiteEvents bound the conformance suite under the race detector.
const (
	suiteStreams = 1_000
	suiteEvents  = 20_000
)
