package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"reprise"
)

const ruleFault = "A temporary error (a lost connection, a full disk) wraps ErrUnavailable and leaves the Store usable: it must work again by itself once the cause is gone."

var crashChecks = []check{
	{name: "acknowledged", rule: ruleAppendAtomic, needs: persists, run: crash},
	{name: "fault", rule: ruleFault, needs: faults, run: fault},
}

// crash ends the Store during appends, several times. Acknowledged batches must exist once, and other batches
// completely or not at all.
func crash(e *env) {
	const writers, rounds = 4, 5
	streams := make([]*stream, writers)
	for i := range streams {
		streams[i] = e.create(fmt.Sprint("s/", i))
	}
	for round := range rounds {
		var all [writers]writer
		var wg sync.WaitGroup
		started := make(chan struct{}, 1)
		errs := make([]error, writers)
		for i, s := range streams {
			all[i].stream, all[i].store = s, e.store
			wg.Go(func() { errs[i] = e.attempt(func() { all[i].writeUntilClosed(started) }) })
		}
		for range 1 + 4*round {
			<-started
		}
		var before [writers]int64
		for i := range all {
			before[i] = all[i].acknowledged.Load()
		}
		crashed := e.crash()
		wg.Wait()
		e.noError(errors.Join(append(errs, crashed)...), "crash in round %d", round)
		e.open()
		for i := range all {
			if e.harness.Crash == nil { // Close has waited for them
				before[i] = all[i].acknowledged.Load()
			}
			all[i].recovered(int(before[i]))
		}
	}
}

// crash ends the Store. Calls that are under way fail.
func (e *env) crash() error {
	store := e.store
	e.store = nil
	if e.harness.Crash == nil {
		return store.Close()
	}
	return errors.Join(e.harness.Crash(store), store.Close())
}

// writer appends to one stream until the Store has ended.
type writer struct {
	stream *stream
	store  reprise.Store
	// states are the states of the stream before each append, and after the last.
	states       []stream
	acknowledged atomic.Int64 // appends
}

func (w *writer) writeUntilClosed(started chan<- struct{}) {
	mine := *w.stream
	w.states = append(w.states, mine)
	for n := 0; ; n++ {
		req := mine.request(1 + n%5)
		if n%7 == 6 {
			req.Earliest += (mine.tail - mine.earliest) / 2
			req.Kept = keptBytes(req.Earliest, req.First+uint64(req.Count)-1)
		}
		mine.accepted(req)
		w.states = append(w.states, mine)
		if errs := w.store.Append(mine.e.ctx, []reprise.AppendRequest{req}); errs != nil {
			mine.e.wantError(errs[0], reprise.ErrClosed, "append while the Store is closed")
			return
		}
		w.acknowledged.Add(1)
		select {
		case started <- struct{}{}:
		default:
		}
	}
}

// recovered checks that the Store has the state of the stream after some number of appends, at least least.
func (w *writer) recovered(least int) {
	s := w.stream
	tail := s.read(1<<63, 0).Info.Tail
	for n, state := range w.states {
		if state.tail == tail && n >= least {
			*s = state
			s.same()
			return
		}
	}
	s.e.failf("%s: after the crash the tail is %d, and %d was acknowledged", s.key, tail, w.states[least].tail)
}

// fault makes appends fail, and checks that they succeed after the cause has been removed.
func fault(e *env) {
	const most = 10_000 // appends of 64 KiB, by which the fault must show
	s := e.create("s").append(10)
	mend, err := e.harness.Fault(e.store)
	e.noError(err, "make appends fail")
	var refusal error
	for range most {
		req := s.request(4096)
		if errs := e.store.Append(e.ctx, []reprise.AppendRequest{req}); errs != nil {
			refusal = errs[0]
			break
		}
		s.accepted(req)
	}
	e.passing(refusal, "append under a fault")
	if page, err := e.store.Read(e.ctx, s.key, 0, 1<<20); err != nil {
		e.passing(err, "read under a fault")
	} else {
		s.consistent(&page, 0, 1<<20)
	}
	e.noError(mend(), "end the fault")

	e.until(func() bool {
		page, err := e.store.Read(e.ctx, s.key, 1<<63, 0)
		if err != nil {
			e.passing(err, "read after a fault")
			return false
		}
		s.goOn(&page.Info) // the append that has failed may have been stored
		req := s.request(1)
		errs := e.store.Append(e.ctx, []reprise.AppendRequest{req})
		if errs != nil && errors.Is(errs[0], reprise.ErrConflict) {
			return false // the one that has failed has come in late
		}
		if errs != nil {
			e.passing(errs[0], "append after a fault")
			return false
		}
		s.accepted(req)
		return true
	}, "appends are to work again when the cause is gone")
	s.append(5).same()
}
