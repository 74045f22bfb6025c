package reprise

import "time"

// AppendTrace tells how an append was committed, for traces. The append that it is given to with
// [AppendOptions.Trace] fills it in before it returns; one AppendTrace is for one append at a time.
//
//	trace := new(reprise.AppendTrace)
//	_, err := stream.AppendWith(ctx, reprise.AppendOptions{Trace: trace}, event)
//	fmt.Println("waited", trace.Began.Sub(trace.Asked), "stored in", trace.Stored.Sub(trace.Began))
//
// An append without one costs a comparison with nil.
type AppendTrace struct {
	// Tries is how often the append has asked its lane for a commit. It is more than 1 where the state of the stream
	// had to be read first, or another replica was ahead. What follows is about the last try.
	Tries int
	// Asked is when the append asked for its turn.
	Asked time.Time
	// Began is when the commit that carried the append asked the store, and Stored is when the store had answered,
	// with an error too. Both are zero for an append that was decided without the store: a duplicate, or a refusal.
	Began, Stored time.Time
	// Streams, Events and Bytes count what the commit carried.
	Streams, Events, Bytes int
}

// ask notes that an append asks for its turn.
func (t *AppendTrace) ask() {
	if t != nil {
		*t = AppendTrace{Tries: t.Tries + 1, Asked: time.Now()}
	}
}

// traced is what a lane knows of the commit under way for those who trace their appends.
type traced struct {
	wanted        bool // an append of the group is traced
	began, stored time.Time
}

// tell fills in the traces of the appends that a commit carried.
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
