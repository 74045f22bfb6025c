//go:build race

package sqlitestore_test

// suiteStreams bounds the streams of the conformance suite; SQLite is slow under
// the race detector.
const suiteStreams = 2_000
