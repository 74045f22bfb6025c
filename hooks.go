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
	// RemovedEarly is called when an ended stream was removed before its time, to make room under a bound that several
	// streams share, with what it had kept.
	RemovedEarly func(key StreamKey, kept Size)
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

// AppendTrace describes how an append was committed, for traces. The append that it is passed to with
// [AppendOptions.Trace] fills it in before it returns. An AppendTrace must not be used by two appends at a time.
//
//	trace := new(reprise.AppendTrace)
//	_, err := stream.AppendWith(ctx, reprise.AppendOptions{Trace: trace}, event)
//	fmt.Println("waited", trace.Began.Sub(trace.Asked), "stored in", trace.Stored.Sub(trace.Began))
//
// An append without one costs a comparison with nil.
type AppendTrace struct {
	// Tries is the number of times that the append has asked its lane for a commit. It is more than 1 if the state of
	// the stream had to be read first, or another replica was ahead. The other fields describe the last try.
	Tries int
	// Asked is the time at which the append asked for its turn.
	Asked time.Time
	// Began is the time at which the commit of the append called the store, and Stored the time at which the store
	// returned, with or without an error. Both are zero for an append that was decided without the store: a duplicate,
	// or a refusal.
	Began, Stored time.Time
	// Streams, Events and Bytes count the contents of the commit.
	Streams, Events, Bytes int
}

// ask records that an append asks for its turn.
func (t *AppendTrace) ask() {
	if t != nil {
		*t = AppendTrace{Tries: t.Tries + 1, Asked: time.Now()}
	}
}

// traced is the information of a lane about the current commit, for traced appends.
type traced struct {
	wanted        bool // whether an append of the group is traced
	began, stored time.Time
}

// tell fills in the traces of the appends of a commit.
func (m *lane) tell(group []*call) {
	var sum AppendTrace
	for i := range m.reqs {
		sum.Events += m.reqs[i].Count
		sum.Bytes += len(m.reqs[i].Bytes)
	}
	for _, c := range group {
		if t := c.opts.Trace; t != nil && c.isOpen() {
			t.Began, t.Stored = m.traced.began, m.traced.stored
			t.Streams, t.Events, t.Bytes = len(m.reqs), sum.Events, sum.Bytes
		}
	}
}
