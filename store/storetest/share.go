package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"reprise"
)

const (
	ruleShared      = "What a call has changed when it returns must be seen by every call that begins afterwards, on any of them."
	ruleSharedSweep = "Of replicas that sweep at the same time each stream is returned to one."
)

var shareChecks = []check{
	{name: "one view", rule: ruleShared, needs: shares, run: shareView},
	{name: "append", rule: ruleAppendRefused, needs: shares, run: shareAppend},
	{name: "take over", rule: ruleTakeOver, needs: shares, run: func(e *env) { ownersContested(e, e.share()) }},
	{name: "create", rule: ruleCreateConcurrent, needs: shares, run: shareCreate},
	{name: "sweep", rule: ruleSharedSweep, needs: shares | sweeps, run: shareSweep},
	{name: "list", rule: ruleListPages, needs: shares, run: shareList},
	{name: "list order", rule: ruleListOrder, needs: shares, run: func(e *env) {
		replicas := []*env{e, e.share(), e.share()}
		var want []reprise.StreamInfo // newest first
		for i := range 40 {
			s := replicas[i*7%3].create(fmt.Sprint("s/", i*7%40))
			want = append([]reprise.StreamInfo{s.state()}, want...)
		}
		for _, replica := range replicas {
			replica.listed(everything, want...)
		}
	}},
	{name: "sizes", rule: ruleSizes, needs: shares | sizes, run: func(e *env) {
		other := e.share()
		s, its := e.create("s").append(3), other.create("its").append(2)
		e.sized(s, its)
		s.on(other).append(4)
		other.sized(s.on(other).since(7), its)
		its.remove(reprise.RemoveSpec{})
		e.sized(s.since(7))
	}},
	{name: "close", rule: ruleReleases, needs: shares, run: func(e *env) {
		other := e.share()
		s := e.create("s").append(1)
		e.noError(other.store.Close(), "close the other replica")
		s.append(1).same()
		third := e.share()
		s.on(third).append(2).same()
	}},
}

// since returns s with the tail that another replica has given it.
func (s *stream) since(tail uint64) *stream {
	newer := *s
	newer.tail = tail
	return &newer
}

// shareView checks through each of two replicas what the other has done.
func shareView(e *env) {
	other := e.share()
	s := e.createInfo(reprise.StreamInfo{Key: key("s"), Config: configs()["all"], Owner: owner("a", 1)})
	at := []*env{e, other}
	steps := []func(s *stream){
		func(s *stream) { s.append(3, 4) },
		func(s *stream) { s.trim(3) },
		func(s *stream) { s.send(s.by(owner("b", 2))) },
		func(s *stream) { s.append(64 << 10) },
		func(s *stream) { s.append(1) },
		func(s *stream) { s.finish(now().Add(time.Hour)) },
	}
	for i, step := range steps {
		s = s.on(at[(i+1)%2])
		step(s)
		s.on(at[i%2]).same()
		s.same()
	}
	_, err := other.store.Create(e.ctx, reprise.StreamInfo{Key: s.key, Epoch: reprise.NewEpoch(), Created: now()})
	e.wantError(err, reprise.ErrConflict, "create with another configuration, through another replica")
	s.on(other).remove(reprise.RemoveSpec{Remember: now().Add(time.Hour)})
	s.on(e).gone(reprise.ErrExpired)
	e.create("s").append(2).on(other).same()
}

// shareAppend lets callers on two replicas append to one stream, each with the seq that it considers the next. Each seq
// must be assigned once.
func shareAppend(e *env) {
	const callers, rounds = 8, 30
	at := []*env{e, e.share()}
	s := e.create("s")
	var events atomic.Int64
	e.concurrently(callers, func(i int) {
		mine := s.on(at[i%2])
		for won := 0; won < rounds; {
			mine.tail = mine.read(1<<63, 0).Info.Tail
			count := 1 + won%3
			errs := mine.e.store.Append(e.ctx, []reprise.AppendRequest{mine.request(count)})
			switch {
			case errs == nil:
				won++
				events.Add(int64(count))
			case !errors.Is(errs[0], reprise.ErrConflict):
				e.failf("append with an expected seq: %v, want nil or ErrConflict", errs)
			}
		}
	})
	for _, replica := range at {
		page := s.on(replica).read(0, 1<<30)
		if page.Info.Tail != uint64(events.Load()) {
			e.failf("%d events were acknowledged to %d callers on two replicas, the tail is %d",
				events.Load(), callers, page.Info.Tail)
		}
	}
}

func shareCreate(e *env) {
	const callers = 8
	at := []*env{e, e.share()}
	for range 20 {
		k := key("name/" + string(reprise.NewEpoch()))
		var created atomic.Int64
		var kept [callers]reprise.StreamInfo
		e.concurrently(callers, func(i int) {
			want := reprise.StreamInfo{
				Key: k, Epoch: reprise.NewEpoch(), Created: now(), Owner: owner(fmt.Sprint("caller-", i), 1),
			}
			info, err := at[i%2].store.Create(e.ctx, want)
			e.noError(err, "create %s", k)
			if info.Epoch == want.Epoch {
				created.Add(1)
			}
			kept[i] = info
		})
		if n := created.Load(); n != 1 {
			e.failf("%d of %d concurrent calls on two replicas have created the stream, want 1", n, callers)
		}
		for i := range kept {
			e.sameInfo(kept[i], kept[0])
		}
	}
}

func shareSweep(e *env) {
	const n, sweepers = 120, 4
	at := []*env{e, e.share()}
	due := now()
	for i := range n {
		e.create(fmt.Sprint("s/", i)).finish(due)
	}
	left := e.create("left").append(1)
	var all [sweepers][]reprise.StreamInfo
	var found atomic.Int64
	e.concurrently(sweepers, func(i int) {
		e.until(func() bool {
			swept, err := at[i%2].store.(reprise.Sweeper).Sweep(e.ctx, due, due.Add(time.Hour), 7)
			e.noError(err, "sweep")
			all[i] = append(all[i], swept...)
			return found.Add(int64(len(swept))) >= n
		}, "all expired streams are to be swept")
	})
	seen := map[reprise.StreamKey]int{}
	for _, info := range slices.Concat(all[:]...) {
		seen[info.Key]++
		if seen[info.Key] > 1 {
			e.failf("%s was returned to %d sweeps", info.Key, seen[info.Key])
		}
	}
	if len(seen) != n {
		e.failf("%d streams were swept, want %d", len(seen), n)
	}
	for _, replica := range at {
		replica.listed(everything, left.state())
	}
}

// shareList lists through one replica while streams are created and removed through another.
func shareList(e *env) {
	const n = 100
	other := e.share()
	for i := range n {
		[]*env{e, other}[i%2].create(fmt.Sprint("old/", i))
	}
	for limit := 1; limit < 30; limit += 7 {
		seen := map[string]int{}
		q := everything
		q.Limit = limit
		for round := 0; ; round++ {
			page, err := e.store.List(e.ctx, q)
			e.noError(err, "list %+v", q)
			for _, info := range page.Streams {
				seen[info.Key.Name]++
			}
			if q.After = page.Next; q.After == "" {
				break
			}
			s := other.create(fmt.Sprintf("new/%d/%d", limit, round))
			if round%2 == 0 {
				s.remove(reprise.RemoveSpec{})
			}
		}
		for i := range n {
			if name := fmt.Sprint("old/", i); seen[name] != 1 {
				e.failf("%s appears %d times over all pages of %d, want once", name, seen[name], limit)
			}
		}
	}
}
