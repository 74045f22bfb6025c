package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"reprise"
)

const (
	ruleSweep       = "Sweep removes up to limit streams whose End.Expires is not after now, leaves a mark in the place of each until remember, and forgets marks whose time is past."
	ruleSweepResult = "It returns the streams that it removed, without Producers."
	ruleSizes       = "Sizes returns what each tenant keeps."
	ruleOverhead    = "It must be the sum of StreamInfo.Overhead or, where names and configurations count as they are encoded, more, but not five times as much."
)

var sweepChecks = []check{
	{name: "due", rule: ruleSweep, needs: sweeps, run: func(e *env) {
		at := now().Add(time.Hour)
		before, exactly, after := e.create("before").append(2), e.create("exactly"), e.create("after")
		before.finish(at.Add(-time.Millisecond))
		exactly.finish(at)
		after.finish(at.Add(time.Millisecond))
		never := e.create("never").append(1)

		e.sweep(at.Add(-time.Hour), at, 10)
		e.sweep(at, at.Add(time.Hour), 10, before, exactly)
		before.gone(reprise.ErrExpired)
		exactly.gone(reprise.ErrExpired)
		e.listed(everything, never.state(), after.state())
		after.same()
		never.append(1).same()
		e.sweep(at, at.Add(time.Hour), 10)
	}},
	{name: "limit", rule: ruleSweep, needs: sweeps, run: func(e *env) {
		const n = 10
		at := now()
		for i := range n {
			e.create(fmt.Sprint("s/", i)).finish(at)
		}
		for _, want := range []int{3, 3, 3, 1, 0} {
			swept, err := e.store.(reprise.Sweeper).Sweep(e.ctx, at, at.Add(time.Hour), 3)
			e.noError(err, "sweep")
			if len(swept) != want {
				e.failf("%d streams were swept, want %d of %d with a limit of 3", len(swept), want, n)
			}
		}
		e.listed(everything)
	}},
	{name: "result", rule: ruleSweepResult, needs: sweeps, run: func(e *env) {
		at := now()
		p := newProducers(e)
		p.send("a", "b")
		plain := e.createKey(reprise.StreamKey{Tenant: "other", Name: "x:s"}, configs()["all"]).append(3, 4).trim(5)
		e.sweep(at, at.Add(time.Hour), 10, p.stream.finish(at), plain.finish(at))
	}},
	{name: "copied", rule: ruleSweep, needs: sweeps, run: func(e *env) {
		end := copiedEnd()
		s := e.createInfo(reprise.StreamInfo{
			Key: key("s"), Tail: 41, End: end, Owner: owner("a", 2), Producers: []reprise.Producer{{ID: "p"}},
		})
		left := e.copied("left", 7)
		e.sweep(end.Expires.Add(-time.Millisecond), end.Expires, 10)
		e.sweep(end.Expires, end.Expires.Add(time.Hour), 10, s)
		s.gone(reprise.ErrExpired)
		e.listed(everything, left.state())
	}},
	{name: "owned", rule: ruleSweepResult, needs: sweeps, run: func(e *env) {
		at := now()
		s := e.owned("s", owner("a", 1)).append(3)
		s.owner = owner("b", 2)
		e.sweep(at, at.Add(time.Hour), 10, s.finish(at))
	}},
	{name: "marks", rule: ruleSweep, needs: sweeps, run: func(e *env) {
		at := now()
		short, long := e.create("short").finish(at), e.create("long").finish(at.Add(time.Millisecond))
		until := time.Now().Add(300 * time.Millisecond)
		e.sweep(at, until, 10, short)
		e.sweep(at.Add(time.Millisecond), at.Add(time.Hour), 10, long)
		e.forgets(short.key, until)
		e.sweep(now(), now().Add(time.Hour), 10)
		short.gone(reprise.ErrNotFound)
		long.gone(reprise.ErrExpired)
	}},
	{name: "name used again", rule: ruleSweep, needs: sweeps, run: func(e *env) {
		at := now()
		e.sweep(at, at.Add(time.Hour), 10, e.create("s").finish(at))
		again := e.create("s").append(2)
		e.sweep(at.Add(2*time.Hour), at.Add(3*time.Hour), 10) // the first one's mark is past, and so is its end
		again.same()
		removed := e.create("removed").finish(at)
		removed.remove(reprise.RemoveSpec{})
		e.create("removed")
		e.sweep(at, at.Add(time.Hour), 10)
	}},
}

// sweep sweeps; the result must be want, in any order.
func (e *env) sweep(now, remember time.Time, limit int, want ...*stream) {
	swept, err := e.store.(reprise.Sweeper).Sweep(e.ctx, now, remember, limit)
	e.noError(err, "sweep")
	if len(swept) != len(want) {
		e.failf("%d streams were swept, want %d", len(swept), len(want))
	}
	byKey := func(a, b reprise.StreamInfo) int { return cmp.Compare(a.Key.String(), b.Key.String()) }
	slices.SortFunc(swept, byKey)
	slices.SortFunc(want, func(a, b *stream) int { return byKey(a.info, b.info) })
	for i, s := range want {
		e.sameInfo(swept[i], s.state())
		if swept[i].Producers != nil {
			e.failf("%s was swept with producers: %v", s.key, swept[i].Producers)
		}
	}
}

var sizeChecks = []check{
	{name: "counted", rule: ruleSizes, needs: sizes, run: func(e *env) {
		a := e.createKey(reprise.StreamKey{Tenant: "a", Name: "s"}, reprise.StreamConfig{})
		b := e.createKey(reprise.StreamKey{Tenant: "a", Name: "x:s"}, reprise.StreamConfig{})
		c := e.createKey(reprise.StreamKey{Tenant: "C", Name: "s"}, reprise.StreamConfig{})
		e.sized(a, b, c)
		a.append(3, 4)
		c.append(9)
		e.sized(a, b, c)
		a.trim(6)
		b.append(2).trim(3)
		e.sized(a, b, c)
		req := c.request(4)
		req.Earliest, req.Kept = 8, keptBytes(8, 13)
		c.send(req)
		e.sized(a, b, c)
		a.remove(reprise.RemoveSpec{})
		c.remove(reprise.RemoveSpec{Remember: now().Add(time.Hour)})
		e.sized(b)
		again := e.createKey(c.key, reprise.StreamConfig{}).append(1)
		e.sized(b, again)
	}},
	{name: "copied", rule: ruleSizes, needs: sizes, run: func(e *env) {
		s := e.copied("s", 41)
		e.sized(s)
		e.sized(s.append(3))
	}},
	{name: "nothing", rule: ruleSizes, needs: sizes, run: func(e *env) { e.sized() }},
	{name: "overhead", rule: ruleOverhead, needs: sizes, run: func(e *env) {
		var streams []*stream
		for i, config := range configs() {
			streams = append(streams, e.createKey(key(fmt.Sprint("ns:", i)), config).append(2))
		}
		wide := reprise.StreamConfig{Labels: map[string]string{}, Meta: bytes.Repeat([]byte("m"), 5000)}
		for i := range 60 {
			wide.Labels[fmt.Sprint("label-", i)] = strings.Repeat("v", 250)
		}
		streams = append(streams, e.createKey(key("wide"), wide))
		e.sized(streams...)
		for _, s := range streams[1:] {
			s.remove(reprise.RemoveSpec{})
		}
		e.sized(streams[0])
		e.sized(streams[0].finish(now().Add(time.Hour)))
		streams[0].remove(reprise.RemoveSpec{})
		e.sized()
	}},
	{name: "swept", rule: ruleSizes, needs: sizes | sweeps, run: func(e *env) {
		at := now()
		s, left := e.create("s").append(3).finish(at), e.create("left").append(4)
		e.sized(s, left)
		e.sweep(at, at.Add(time.Hour), 10, s)
		e.sized(left)
	}},
}

// sized checks that the Store keeps the given streams and nothing else.
func (e *env) sized(streams ...*stream) {
	want := map[reprise.Tenant]reprise.Size{}
	for _, s := range streams {
		size := want[s.key.Tenant]
		state := s.state()
		size.Streams++
		size.Events += int64(state.Kept())
		size.Bytes += state.Bytes
		size.Overhead += state.Overhead()
		want[s.key.Tenant] = size
	}
	got, err := e.store.(reprise.Sizer).Sizes(e.ctx)
	e.noError(err, "sizes")
	got = maps.Clone(got)
	maps.DeleteFunc(got, func(_ reprise.Tenant, s reprise.Size) bool { return s == reprise.Size{} })
	for tenant, size := range got {
		if least := want[tenant].Overhead; size.Overhead >= least && size.Overhead < 5*least {
			size.Overhead = least
			got[tenant] = size
		}
	}
	if !maps.Equal(got, want) {
		e.failf("the sizes are %+v, want %+v", got, want)
	}
}
