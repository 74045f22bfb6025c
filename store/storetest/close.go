package storetest

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"reprise"
)

const (
	ruleClose      = "It must wait for calls under way, and closing again must return nil."
	ruleClosed     = "After Close all of them return ErrClosed."
	ruleReleases   = "Close releases everything."
	rulePersistent = "Persistent says that what was acknowledged outlives the Store."
)

var closeChecks = []check{
	{name: "closed", rule: ruleClosed, run: func(e *env) {
		s := e.create("s").append(2)
		e.noError(e.store.Close(), "close")
		for what, err := range e.everyCall(e.ctx, s) {
			e.wantError(err, reprise.ErrClosed, "%s after Close", what)
		}
	}},
	{name: "again", rule: ruleClose, run: func(e *env) {
		e.create("s").append(2)
		for range 3 {
			e.noError(e.store.Close(), "close")
		}
	}},
	{name: "unused", rule: ruleClose, run: func(e *env) { e.noError(e.store.Close(), "close") }},
	{name: "under way", rule: ruleClose, run: closeUnderWay},
	{name: "goroutines", rule: ruleReleases, run: noGoroutineIsLeft},
	{name: "reopened", rule: rulePersistent, needs: persists, run: reopened},
	{name: "reopened marks", rule: rulePersistent, needs: persists, run: func(e *env) {
		s, left := e.create("s").append(2), e.create("left")
		s.remove(reprise.RemoveSpec{Remember: now().Add(time.Hour)})
		e.reopen()
		s.gone(reprise.ErrExpired)
		e.listed(everything, left.state())
		e.create("s").append(1).same()
	}},
	{name: "reopened list", rule: rulePersistent, needs: persists, run: func(e *env) {
		var want []reprise.StreamInfo
		for i := range 7 {
			want = append([]reprise.StreamInfo{e.create(fmt.Sprint("s/", i*3%7)).state()}, want...)
			e.reopen()
		}
		e.listed(everything, want...)
	}},
}

// closeUnderWay closes the Store while it is in use, from two goroutines.
func closeUnderWay(e *env) {
	const users = 6
	streams := make([]*stream, users)
	for i := range streams {
		streams[i] = e.create(fmt.Sprint("s/", i)).append(100)
	}
	busy := make(chan struct{}) // closed when a user has made some calls, or one that failed
	makeBusy := sync.OnceFunc(func() { close(busy) })
	e.concurrently(users+2, func(i int) {
		if i >= users {
			<-busy
			e.noError(e.store.Close(), "close while calls are under way")
			return
		}
		defer makeBusy()
		for n := 0; ; n++ {
			if n == 5 {
				makeBusy()
			}
			if err := streams[i].anyCall(n); err != nil {
				e.wantError(err, reprise.ErrClosed, "call %d while the Store is closed", n)
				return
			}
		}
	})
	if e.harness.Persistent {
		e.open()
		for _, s := range streams {
			s.same()
		}
	}
}

// anyCall makes one of several calls and returns its error.
func (s *stream) anyCall(n int) error {
	e := s.e
	switch n % 4 {
	case 0:
		page, err := e.store.Read(e.ctx, s.key, 50, 1<<20)
		if err == nil {
			if e.harness.Renews && page.Info.Epoch != s.epoch {
				s.goOn(&page.Info)
			}
			s.consistent(&page, 50, 1<<20)
		}
		return err
	case 1:
		_, err := e.store.List(e.ctx, everything)
		return err
	default:
		req := s.request(2)
		errs := e.store.Append(e.ctx, []reprise.AppendRequest{req})
		if errs == nil {
			s.accepted(req)
			return nil
		}
		return errs[0]
	}
}

// noGoroutineIsLeft uses and closes the Store, several times if it can be opened again, and counts goroutines.
// Goroutines that start once for the whole program have started when Run determined the abilities.
func noGoroutineIsLeft(e *env) {
	s := e.create("s")
	for range 3 {
		s.append(3).same()
		e.list(everything)
		if e.harness.Persistent {
			e.reopen()
		}
	}
	e.close()
	e.noGoroutines()
}

// noGoroutines waits until the number of goroutines is no higher than before the Store was opened.
func (e *env) noGoroutines() {
	var left int
	err := e.attempt(func() {
		e.until(func() bool {
			left = runtime.NumGoroutine() - e.goroutines
			return left <= 0
		}, "goroutines are to end after Close")
	})
	if err != nil {
		var stacks bytes.Buffer
		e.noError(pprof.Lookup("goroutine").WriteTo(&stacks, 1), "goroutine profile")
		e.failf("%w: %d are left:\n%s", err, left, &stacks)
	}
}

// reopened closes and opens the Store after each change, and checks everything that it keeps.
func reopened(e *env) {
	s := e.createKey(key("s"), configs()["labels"])
	p := newProducersOf(e.createKey(key("producers"), configs()["meta"]))
	steps := []func(){
		func() {},
		func() { s.append(3, 1, 4) },
		func() { s.trim(3) },
		func() { p.send("a", "b"); p.send("a") },
		func() { s.append(1, 5); p.send("c") },
		func() { s.trim(s.tail + 1) },
		func() { s.append(2); s.finish(now().Add(time.Hour)) },
		func() { s.trim(s.tail) },
	}
	for _, step := range steps {
		step()
		e.reopen()
		s.everyPosition()
		p.same()
		p.stream.same()
	}
	s.refused(s.request(1), reprise.ErrEnded, "after the end, opened again")
	s.remove(reprise.RemoveSpec{})
	e.reopen()
	s.gone(reprise.ErrNotFound)
	e.listed(everything, p.stream.state())
}
