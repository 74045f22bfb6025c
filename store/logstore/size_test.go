//go:build !race

package logstore_test

// suiteStreams bounds the streams of the conformance suite: each is created by a commit, which waits for the disk.
const suiteStreams = 20_000
