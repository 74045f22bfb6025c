package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
)

const (
	ruleFilledWhole    = "It must make the stream with the batch or not at all."
	ruleFilledKept     = "It must return the stream as it is kept then, which is what Append leaves of first."
	ruleFilledExisting = "A stream that exists must be left as it is, with the results of Create."
)

var createAppendChecks = []check{
	{name: "kept", rule: ruleFilledKept, needs: fills, run: filledKept},
	{name: "opened again", rule: ruleFilledKept, needs: fills | persists, run: func(e *env) {
		s := e.filled("s", 3, nil)
		ended := e.filled("ended", 2, func(req *reprise.AppendRequest) { req.End = copiedEnd() })
		e.reopen()
		s.same()
		ended.same()
		s.append(2)
		e.reopen()
		s.same()
	}},
	{name: "swept", rule: ruleFilledKept, needs: fills | sweeps, run: func(e *env) {
		due := e.filled("due", 1, func(req *reprise.AppendRequest) {
			req.End = &reprise.End{Outcome: "completed", Time: now(), Expires: now().Add(-time.Second)}
		})
		swept, err := e.store.(reprise.Sweeper).Sweep(e.ctx, now(), now().Add(time.Hour), 10)
		e.noError(err, "sweep")
		if len(swept) != 1 || swept[0].Key != due.key {
			e.failf("%d streams were swept, want the one that was made with its end", len(swept))
		}
		due.gone(reprise.ErrExpired)
		e.filled("due", 2, nil).append(1).same() // the name is free again
	}},
	{name: "existing", rule: ruleFilledExisting, needs: fills, run: filledExisting},
	{name: "concurrent", rule: ruleFilledExisting, needs: fills, run: filledConcurrent},
	{name: "seen whole", rule: ruleFilledWhole, needs: fills, run: filledSeen},
	{name: "crash", rule: ruleFilledWhole, needs: fills | persists, run: filledCrash},
}

// filledStream returns a stream that does not exist yet, and the request that creates it.
func (e *env) filledStream(name string, count int) (*stream, reprise.AppendRequest) {
	info := reprise.StreamInfo{
		Key: key(name), Epoch: reprise.NewEpoch(), Created: now(), Config: configs()["all"],
		Owner: reprise.Owner{Name: "a", Fence: 3},
	}
	s := &stream{
		e: e, key: info.Key, epoch: info.Epoch, first: info.Epoch, owner: info.Owner, info: info, earliest: 1,
	}
	return s, s.request(count)
}

// filled creates a stream with a first batch of count events. edit may change the request.
func (e *env) filled(name string, count int, edit func(req *reprise.AppendRequest)) *stream {
	s, req := e.filledStream(name, count)
	if edit != nil {
		edit(&req)
	}
	info, err := e.store.(reprise.CreateAppender).CreateAppend(e.ctx, s.info, req)
	e.noError(err, "create %s with %d events", s.key, count)
	s.accepted(req)
	e.sameInfo(info, s.state())
	s.same()
	return s
}

func filledKept(e *env) {
	for _, count := range []int{1, 3, 1000, 100_000} { // of 16 bytes each
		s := e.filled(fmt.Sprint("s/", count), count, nil)
		s.read(uint64(count)/2, 1)
		s.refused(s.requestAt(1), reprise.ErrConflict, "at 1 to a stream that was made with a batch")
		s.append(2, 1).same()
		s.trim(uint64(count) + 2).same()
	}
	ended := e.filled("ended", 4, func(req *reprise.AppendRequest) { req.End = copiedEnd() })
	ended.refused(ended.request(1), reprise.ErrEnded, "to a stream that was made with its end")
	trimmed := e.filled("trimmed", 5, func(req *reprise.AppendRequest) {
		req.Earliest, req.Kept = 3, keptBytes(3, 5)
	})
	trimmed.append(1).same()
	producer := reprise.Producer{ID: "p", Epoch: 1, Seq: 7, First: 1, Last: 2}
	produced := e.filled("produced", 2, func(req *reprise.AppendRequest) {
		req.Producers = []reprise.Producer{producer}
	})
	if got := produced.read(1<<63, 0).Info.Producers; len(got) != 1 || got[0] != producer {
		e.failf("the producers are %+v, want %+v", got, producer)
	}
	listed := e.list(reprise.ListQuery{AllNamespaces: true, Limit: 1})
	e.sameInfo(listed[0], produced.state())
}

// requestAt returns the append of one event at the given seq.
func (s *stream) requestAt(first uint64) reprise.AppendRequest {
	req := s.request(1)
	req.First = first
	return req
}

func filledExisting(e *env) {
	maker := e.store.(reprise.CreateAppender)
	for name, s := range map[string]*stream{
		"filled": e.filled("filled", 3, nil), "ended": e.filled("ended", 1, nil).finish(now().Add(time.Hour)),
		"empty": e.createKey(key("empty"), configs()["all"]),
	} {
		again, req := e.filledStream(name, 2)
		info, err := maker.CreateAppend(e.ctx, again.info, req)
		e.noError(err, "create %s again", name)
		e.sameInfo(info, s.state())
		s.same()
		again.info.Config = reprise.StreamConfig{}
		_, err = maker.CreateAppend(e.ctx, again.info, req)
		e.wantError(err, reprise.ErrConflict, "create %s with another configuration", name)
		s.same()
	}
	s := e.create("expired").append(2)
	s.remove(reprise.RemoveSpec{Remember: now().Add(time.Hour)})
	e.filled("expired", 1, nil).append(1).same()
}

func filledConcurrent(e *env) {
	const callers = 8
	for round := range 20 {
		var made atomic.Int64
		var kept [callers]reprise.StreamInfo
		e.concurrently(callers, func(i int) {
			s, req := e.filledStream(fmt.Sprint("s/", round), 1+i)
			info, err := e.store.(reprise.CreateAppender).CreateAppend(e.ctx, s.info, req)
			e.noError(err, "create %s", s.key)
			if info.Epoch == s.epoch {
				made.Add(1)
				s.accepted(req)
				s.same()
			}
			kept[i] = info
		})
		if n := made.Load(); n != 1 {
			e.failf("%d of %d concurrent calls have made the stream, want 1", n, callers)
		}
		for i := range kept {
			e.sameInfo(kept[i], kept[0])
		}
	}
}

// filledSeen reads streams while they are created: each is visible with its batch or not at all.
func filledSeen(e *env) {
	const streams = 50
	var made atomic.Int64
	e.concurrently(2, func(part int) {
		if part == 0 {
			defer made.Store(streams)
			for i := range streams {
				e.filled(fmt.Sprint("s/", i), 2, nil)
				made.Store(int64(i + 1))
			}
			return
		}
		for i := int64(0); i < streams; i = made.Load() {
			page, err := e.store.Read(e.ctx, key(fmt.Sprint("s/", i)), 0, 1<<20)
			if errors.Is(err, reprise.ErrNotFound) {
				continue
			}
			e.noError(err, "read a stream while it is made")
			if page.Info.Tail != 2 || len(page.Batches) != 1 {
				e.failf("a stream that was made with 2 events is seen with a tail of %d", page.Info.Tail)
			}
		}
	})
}

// filledCrash ends the Store while streams are created. Each exists with its batch or not at all, and all acknowledged
// ones exist.
func filledCrash(e *env) {
	const writers = 4
	var made [writers][]*stream
	var acknowledged [writers]atomic.Int64
	errs := make([]error, writers)
	started := make(chan struct{}, 1)
	store := e.store.(reprise.CreateAppender)
	failed := make(chan struct{}, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			errs[w] = e.attempt(func() { made[w] = e.fillUntilClosed(store, w, &acknowledged[w], started) })
			failed <- struct{}{}
		})
	}
	for range 10 {
		select {
		case <-started:
		case <-failed:
			wg.Wait()
			e.noError(errors.Join(errs...), "create before the crash")
		}
	}
	var before [writers]int64
	for w := range before {
		before[w] = acknowledged[w].Load()
	}
	crashed := e.crash()
	wg.Wait()
	e.noError(errors.Join(append(errs, crashed)...), "crash")
	e.open()
	for w := range made {
		if e.harness.Crash == nil { // Close has waited for them
			before[w] = acknowledged[w].Load()
		}
		for i, s := range made[w] {
			_, err := e.store.Read(e.ctx, s.key, 0, 1)
			if errors.Is(err, reprise.ErrNotFound) && int64(i) >= before[w] {
				continue
			}
			s.same()
		}
	}
}

// fillUntilClosed creates streams until the Store has ended. It returns them, including the one that was rejected.
func (e *env) fillUntilClosed(store reprise.CreateAppender, writer int, acknowledged *atomic.Int64,
	started chan<- struct{},
) (made []*stream) {
	for n := 0; ; n++ {
		s, req := e.filledStream(fmt.Sprintf("s/%d/%d", writer, n), 1+n%3)
		s.accepted(req)
		made = append(made, s)
		if _, err := store.CreateAppend(e.ctx, s.info, req); err != nil {
			e.wantError(err, reprise.ErrClosed, "create while the Store is closed")
			return made
		}
		acknowledged.Add(1)
		select {
		case started <- struct{}{}:
		default:
		}
	}
}
