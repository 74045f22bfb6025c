package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"reprise"
)

const (
	ruleAppendResult   = "It must return nil if all were stored, and otherwise one error for each request, nil for those that were stored."
	ruleAppendAtomic   = "Each request must be stored whole or not at all, and must be durable when Append returns, to the level that the Store documents."
	ruleAppendRefused  = "A request must be refused, in this order, with ErrNotFound if the stream does not exist in that epoch, with ErrFenced if its Owner is neither the stream's nor one with a higher Fence, with ErrEnded if the stream has ended, and with ErrConflict if First is not its tail plus one or Revision is not the stream's."
	ruleAppendBytes    = "The Store may keep the Bytes of each request and must not change them."
	ruleAppendEarliest = "Earliest is the new start of the window, at most First+Count: events before it must not be counted as kept any more, and may be deleted later."
)

var appendChecks = []check{
	{name: "batches", rule: ruleAppendResult, run: func(e *env) {
		s := e.create("s")
		for n := range 50 {
			s.append(1+n%7, 1)
		}
		s.same()
	}},
	{name: "nothing", rule: ruleAppendResult, run: func(e *env) {
		if errs := e.store.Append(e.ctx, nil); errs != nil {
			e.failf("append of no requests: %v, want nil", errs)
		}
	}},
	{name: "many streams", rule: ruleAppendResult, run: appendManyStreams},
	{name: "some refused", rule: ruleAppendResult, run: appendSomeRefused},
	{name: "refused", rule: ruleAppendRefused, run: appendRefused},
	{name: "contested", rule: ruleAppendRefused, run: appendContested},
	{name: "concurrent", rule: ruleAppendAtomic, run: func(e *env) {
		e.concurrently(16, func(i int) {
			s := e.create(fmt.Sprint("s/", i))
			for n := range 60 {
				s.append(1 + n%3)
			}
			s.same()
		})
	}},
	{name: "bytes", rule: ruleAppendBytes, run: appendBytes},
	{name: "bytes unchanged", rule: ruleAppendBytes, run: appendBytesUnchanged},
	{name: "bytes behind", rule: ruleAppendBytes, run: appendBytesBehind},
	{name: "earliest", rule: ruleAppendEarliest, run: appendEarliest},
}

func appendManyStreams(e *env) {
	const n = 512
	streams := make([]*stream, n)
	e.concurrently(16, func(part int) {
		for i := part; i < n; i += 16 {
			streams[i] = e.create(fmt.Sprint("s/", i))
		}
	})
	for range 3 {
		reqs := make([]reprise.AppendRequest, n)
		for i, s := range streams {
			reqs[i] = s.request(1 + i%4)
		}
		if errs := e.store.Append(e.ctx, reqs); errs != nil {
			e.failf("append to %d streams: %v, want nil", n, errors.Join(errs...))
		}
		for i, s := range streams {
			s.accepted(reqs[i])
		}
	}
	for _, s := range streams {
		s.same()
	}
}

func appendSomeRefused(e *env) {
	good, ahead, other, ended := e.create("good"), e.create("ahead"), e.create("other"), e.create("ended")
	last := e.create("last").append(2)
	ended.append(1).finish(now().Add(time.Hour))
	absent := &stream{e: e, key: key("absent"), epoch: reprise.NewEpoch(), earliest: 1}

	late := ahead.request(2)
	late.First = 2
	foreign := other.request(2)
	foreign.Epoch = reprise.NewEpoch()
	reqs := []reprise.AppendRequest{
		absent.request(1), good.request(2), late, foreign, ended.request(1), last.request(3),
	}
	want := []error{reprise.ErrNotFound, nil, reprise.ErrConflict, reprise.ErrNotFound, reprise.ErrEnded, nil}

	errs := e.store.Append(e.ctx, reqs)
	if len(errs) != len(reqs) {
		e.failf("append to %d streams, some of which refuse: got %d errors, want one for each", len(reqs), len(errs))
	}
	for i, err := range errs {
		e.wantError(err, want[i], "append to %s among others", reqs[i].Key.Name)
	}
	good.accepted(reqs[1])
	last.accepted(reqs[5])
	for _, s := range []*stream{good, ahead, other, ended, last} {
		s.same()
	}
	_, err := e.store.Read(e.ctx, absent.key, 0, 1)
	e.wantError(err, reprise.ErrNotFound, "read a stream that was only appended to")
	for _, s := range []*stream{good, ahead, other, last} {
		s.append(1).same()
	}
}

func appendRefused(e *env) {
	s := e.create("s")
	at := func(first uint64) reprise.AppendRequest {
		req := s.request(2)
		req.First = first
		return req
	}
	s.refused(at(0), reprise.ErrConflict, "at 0 to an empty stream")
	s.refused(at(2), reprise.ErrConflict, "at 2 to an empty stream")
	s.append(3, 2)
	for _, first := range []uint64{1, 4, 5, 7, 1 << 40} {
		s.refused(at(first), reprise.ErrConflict, fmt.Sprintf("at %d, the tail is 5", first))
	}
	foreign := s.request(1)
	foreign.Epoch = reprise.NewEpoch()
	s.refused(foreign, reprise.ErrNotFound, "in another epoch")
	foreign.Epoch = ""
	s.refused(foreign, reprise.ErrNotFound, "in no epoch")
	s.same()

	s.finish(now().Add(time.Hour))
	s.refused(s.request(1), reprise.ErrEnded, "after the end")
	again := s.request(1)
	again.End = s.end
	s.refused(again, reprise.ErrEnded, "of a second end")
	s.same()

	absent := &stream{e: e, key: key("absent"), epoch: reprise.NewEpoch(), earliest: 1}
	absent.refused(absent.request(1), reprise.ErrNotFound, "to a stream that does not exist")
	other := &stream{e: e, key: reprise.StreamKey{Tenant: "other", Name: "s"}, epoch: s.epoch, earliest: 1}
	other.refused(other.request(1), reprise.ErrNotFound, "to the same name in another tenant")
}

// appendContested lets several callers append to one stream, each with the seq that it considers the next. Exactly one
// may win each seq.
func appendContested(e *env) {
	const callers, rounds = 8, 40
	s := e.create("s")
	var wins atomic.Int64
	e.concurrently(callers, func(int) {
		for won := 0; won < rounds; {
			mine := *s
			mine.tail = s.read(1<<63, 0).Info.Tail
			errs := e.store.Append(e.ctx, []reprise.AppendRequest{mine.request(1 + won%3)})
			switch {
			case errs == nil:
				won++
				wins.Add(int64(1 + (won-1)%3))
			case !errors.Is(errs[0], reprise.ErrConflict):
				e.failf("append with an expected seq: %v, want nil or ErrConflict", errs)
			}
		}
	})
	page := s.read(0, 1<<30)
	if page.Info.Tail != uint64(wins.Load()) {
		e.failf("%d events were acknowledged to %d concurrent callers, the tail is %d",
			wins.Load(), callers, page.Info.Tail)
	}
}

// appendBytes stores bytes of various kinds and sizes, and expects the same batches back.
func appendBytes(e *env) {
	rnd := rand.NewChaCha8([32]byte{1})
	s := e.create("s")
	req := reprise.AppendRequest{Key: s.key, Epoch: s.epoch, First: 1, Earliest: 1}
	var want []reprise.Batch
	for i, size := range []int{1, 2, 7, 100, 4095, 4096, 4097, 16 << 10, 65535, 65536, 1 << 20, 8<<20 + 1000, 3} {
		b := make([]byte, size)
		if i%2 == 0 {
			_, _ = rnd.Read(b)
		}
		req.Count, req.Bytes = 1+i*i, b
		req.Kept += int64(size)
		if errs := e.store.Append(e.ctx, []reprise.AppendRequest{req}); errs != nil {
			e.failf("append %d bytes: %v", size, errs)
		}
		want = append(want, reprise.Batch{First: req.First, Count: req.Count, Bytes: b})
		req.First += uint64(req.Count)
	}
	page, err := e.store.Read(e.ctx, s.key, 0, 1<<30)
	e.noError(err, "read")
	e.sameBatches(page.Batches, want)
	if page.Info.Bytes != req.Kept {
		e.failf("Bytes is %d, want %d", page.Info.Bytes, req.Kept)
	}
}

func (e *env) sameBatches(got, want []reprise.Batch) {
	if len(got) != len(want) {
		e.failf("got %d batches, want the %d that were appended", len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.First != w.First || g.Count != w.Count || string(g.Bytes) != string(w.Bytes) {
			e.failf("batch %d is of %d events from %d, %d bytes; want %d from %d, %d bytes, unchanged",
				i, g.Count, g.First, len(g.Bytes), w.Count, w.First, len(w.Bytes))
		}
	}
}

// appendBytesUnchanged checks that a Store does not write to the slices of a request, nor to the memory after them.
func appendBytesUnchanged(e *env) {
	const spare = 64
	s := e.create("s")
	var given, copies [][]byte
	for n := range 20 {
		req := s.request(1 + n%5)
		whole := append(req.Bytes, make([]byte, spare)...)
		req.Bytes = whole[:len(whole)-spare]
		given, copies = append(given, whole), append(copies, append([]byte(nil), whole...))
		s.send(req)
		s.read(0, 1<<20)
	}
	s.trim(20)
	s.same()
	s.finish(now().Add(time.Hour))
	s.remove(reprise.RemoveSpec{})
	for i := range given {
		if string(given[i]) != string(copies[i]) {
			e.failf("the bytes of batch %d, or those behind them, were changed", i)
		}
	}
}

// appendBytesBehind passes batches as a Log does: they are adjacent in one block of memory, to which the next events
// are written while the Store still uses the last batch.
func appendBytesBehind(e *env) {
	s := e.create("s")
	var want []reprise.Batch
	for range 3 {
		block := make([]byte, 0, 40*eventBytes)
		for len(block) < cap(block) {
			req := s.request(1 + len(want)%3)
			if len(req.Bytes) > cap(block)-len(block) {
				break
			}
			from := len(block)
			block = append(block, req.Bytes...)
			req.Bytes = block[from:]
			s.send(req)
			want = append(want, reprise.Batch{First: req.First, Count: req.Count, Bytes: s.batch(req.First, req.Count)})
		}
	}
	e.sameBatches(s.read(0, 1<<20).Batches, want)
	s.same()
}

func appendEarliest(e *env) {
	s := e.create("s")
	for n := range 60 {
		req := s.request(1 + n%4)
		next := req.First + uint64(req.Count)
		switch n % 5 {
		case 1, 2, 3: // in the middle of the window, at its end, in the new batch
			req.Earliest += (next - req.Earliest) * uint64(n%5) / 3
		case 4: // nothing is left
			req.Earliest = next
		}
		req.Kept = keptBytes(req.Earliest, next-1)
		s.send(req)
		s.same()
		s.read(max(s.earliest, 2)-2, 1<<20)
	}
}
