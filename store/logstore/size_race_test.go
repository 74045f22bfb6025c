//go:build race

package logstore_test

// suiteStreams bounds the streams of the conformance suite under the race detector.
const suiteStreams = 2_000
