package reprise

import "time"

// Hooks are functions that a Log calls on certain events, for metrics and traces.
// Any of them may be nil. They are called by the goroutine that does the work,
// so they must be quick, and they must not call the Log.
type Hooks struct {
	// Committed is called after each commit to the store.
	Committed func(CommitInfo)
	// ReaderOpened is called for each request for a reader. The error is
	// the reason of a refusal, or nil.
	ReaderOpened func(key StreamKey, err error)
	// ReaderClosed is called once for each reader that was opened.
	ReaderClosed func(key StreamKey)
	// Gap is called when a reader fell out of the window, with the number of
	// events that it missed.
	Gap func(key StreamKey, missed uint64)
	// StoreRead is called for each page that was read from the store because
	// the events were not in memory.
	StoreRead func(ReadInfo)
	// Swept is called after each sweep.
	Swept func(SweepResult, error)
}

// CommitInfo describes one commit.
type CommitInfo struct {
	// Streams, Events and Bytes count the contents of the commit.
	Streams, Events, Bytes int
	// Duration is the time that the store took.
	Duration time.Duration
	// Waited is how long the first append of the group waited for its turn while other commits were in progress. It is
	// 0 for a lone append.
	Waited time.Duration
	// Failed is the number of streams whose batch was not stored. It does not include Overtaken, the number of streams
	// for which another replica was ahead; their batches are built again at once.
	Failed, Overtaken int
}

// ReadInfo describes one page that was read.
type ReadInfo struct {
	Events, Bytes int
	// Lag is the number of events between the position of the read and the tail, that is, how far behind the reader
	// was. It is 0 for a failed read.
	Lag      uint64
	Duration time.Duration
	Err      error
}
