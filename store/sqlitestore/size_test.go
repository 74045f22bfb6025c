//go:build !race

package sqlitestore_test

// suiteStreams bounds the streams of the conformance suite: each is created by a
// commit of its own, which waits for the disk.
const suiteStreams = 20_000
