package storetest

import (
	"fmt"
	"slices"
	"time"

	"reprise"
)

var scaleChecks = []check{
	{name: "long stream", rule: ruleReadCost, run: longStream},
	{name: "many streams", rule: ruleListPages, run: manyStreams},
}

// longStream creates a stream of Options.Events events in batches of 100 and reads at positions throughout it.
func longStream(e *env) {
	const batch, short = 100, 50
	batches := max(e.opts.Events/batch, 2*short)
	s := e.create("s")
	for range short {
		s.append(batch)
	}
	near := e.fastest(func() { s.read(s.tail-10, 1<<20) })
	for s.tail < uint64(batches*batch) {
		s.append(batch)
	}
	far := e.fastest(func() { s.read(s.tail-10, 1<<20) })
	// An O(n) search would take batches/short times as long, 200 times by default.
	if allowed := 5*near + 100*time.Microsecond; far > allowed {
		e.failf("a read near the tail takes %v with %d batches and %v with %d", near, short, far, batches)
	}
	for after := uint64(0); after <= s.tail; after += 1 + s.tail/97 {
		s.read(after, 10_000)
	}
	for after := uint64(0); after < s.tail; {
		page := s.read(after, 1<<20)
		after = page.Batches[len(page.Batches)-1].Last()
	}
	s.trim(s.tail / 2)
	s.read(0, 10_000)
	s.read(s.tail-1, 10_000)
	req := s.request(1)
	req.Earliest = req.First
	req.Kept = eventBytes
	s.send(req)
	s.same()
}

// fastest returns the shortest time that f takes in several attempts.
func (e *env) fastest(f func()) time.Duration {
	const times = 200
	least := time.Duration(1<<63 - 1)
	for range times {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	return least
}

// manyStreams creates Options.Streams streams with one event each, and lists and finds all of them.
func manyStreams(e *env) {
	const callers = 16
	n := e.opts.Streams / callers * callers
	streams := make([]*stream, n)
	e.concurrently(callers, func(part int) {
		for i := part; i < n; i += callers {
			streams[i] = e.createKey(reprise.StreamKey{
				Tenant: reprise.Tenant(fmt.Sprint("t", i%3)), Name: fmt.Sprintf("n%d:s/%d", i%2, i),
			}, reprise.StreamConfig{})
		}
	})
	for chunk := range slices.Chunk(streams, 500) {
		reqs := make([]reprise.AppendRequest, len(chunk))
		for i, s := range chunk {
			reqs[i] = s.request(1)
		}
		if errs := e.store.Append(e.ctx, reqs); errs != nil {
			e.failf("append to %d streams: %v, want nil", len(chunk), errs[0])
		}
		for i, s := range chunk {
			s.accepted(reqs[i])
		}
	}
	seen := map[reprise.StreamKey]int{}
	for _, info := range e.list(everything) {
		seen[info.Key]++
	}
	for i, s := range streams {
		if seen[s.key] != 1 {
			e.failf("%s appears %d times over all pages, want once", s.key, seen[s.key])
		}
		if i%31 == 0 {
			s.same()
		}
	}
	got := e.list(reprise.ListQuery{Tenant: "t1", Namespace: "n1:", Limit: 1000})
	if len(got) != len(filter(streams, "t1", "n1:")) {
		e.failf("%d streams in one namespace of one tenant, want %d", len(got), len(filter(streams, "t1", "n1:")))
	}
}

func filter(streams []*stream, t reprise.Tenant, namespace string) (out []*stream) {
	for _, s := range streams {
		if s.key.Tenant == t && s.key.Namespace() == namespace {
			out = append(out, s)
		}
	}
	return out
}
