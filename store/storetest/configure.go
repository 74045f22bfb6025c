package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"reprise"
)

const (
	ruleConfigure        = "With a Revision above 0, Create makes no stream but changes one: in one step the stream must get info.Config, info.Revision and, if it has ended, the Expires of info.End, and Create returns it as it is kept then."
	ruleConfigureRefused = "Such a call must be refused with ErrNotFound if the stream does not exist in info.Epoch, and with ErrConflict if its Revision is not info.Revision less one, unless the stream has info.Revision and an equal configuration already."
)

var configureChecks = []check{
	{name: "changed", rule: ruleConfigure, run: func(e *env) {
		s := e.create("s").append(3, 2).trim(3)
		other := e.create("s/other").append(1)
		for i, name := range []string{"all", "labels", "meta", "retention", "plain"} {
			s.configure(configs()[name]).same()
			s.append(1 + i).same()
		}
		s.trim(5).same()
		other.same()
		e.listed(everything, other.state(), s.state())
	}},
	{name: "owned", rule: ruleConfigure, run: func(e *env) {
		s := e.owned("s", owner("a", 1)).append(3)
		s.configure(configs()["all"]).same()
		s.append(1).same()
	}},
	{name: "producers", rule: ruleConfigure, run: func(e *env) {
		p := newProducers(e)
		p.send("a", "b")
		p.stream.configure(configs()["all"])
		p.same()
		p.send("a", "c")
		p.same()
	}},
	{name: "ended", rule: ruleConfigure, run: configureEnded},
	{name: "swept", rule: ruleConfigure, needs: sweeps, run: configureSwept},
	{name: "refused", rule: ruleConfigureRefused, run: configureRefused},
	{name: "append refused", rule: ruleAppendRefused, run: func(e *env) {
		s := e.create("s").append(3)
		before := s.request(1)
		s.configure(configs()["all"])
		s.refused(before, reprise.ErrConflict, "that relies on the configuration before")
		ahead := s.request(1)
		ahead.Revision++
		s.refused(ahead, reprise.ErrConflict, "that relies on a configuration that was never made")
		s.same()
		s.append(1).same()
	}},
	{name: "contested", rule: ruleConfigureRefused, run: func(e *env) { configureContested(e, e) }},
	{name: "while others append", rule: ruleConfigure, run: func(e *env) { configureWhileAppending(e, e) }},
	{name: "opened again", rule: ruleConfigure, needs: persists, run: func(e *env) {
		open := e.create("open").append(3)
		ended := e.create("ended").append(1).finish(now().Add(time.Hour))
		for _, name := range []string{"all", "labels"} {
			open.configure(configs()[name])
			ended.configure(configs()[name], now().Add(2*time.Hour))
			e.reopen()
			open.same()
			ended.same()
		}
		open.append(2).same()
		e.reopen()
		open.same()
	}},
	{name: "crash", rule: ruleConfigure, needs: persists, run: configureCrash},
	{name: "sizes", rule: ruleOverhead, needs: sizes, run: func(e *env) {
		s, other := e.create("s").append(3), e.create("other").append(1)
		for _, name := range []string{"meta", "all", "labels", "plain"} {
			s.configure(configs()[name])
			e.sized(s, other)
		}
	}},
	{name: "shared", rule: ruleShared, needs: shares, run: func(e *env) {
		at := []*env{e, e.share()}
		s := e.create("s").append(3)
		for i, name := range []string{"all", "labels", "plain", "meta"} {
			before := s.on(at[i%2]).append(1).request(1)
			s.tail++
			s.on(at[(i+1)%2]).configure(configs()[name]).same()
			s.info.Config, s.info.Revision = configs()[name], s.info.Revision+1
			s.on(at[i%2]).refused(before, reprise.ErrConflict, "that relies on what another replica has changed")
			s.on(at[i%2]).same()
		}
	}},
	{name: "shared, contested", rule: ruleShared, needs: shares, run: func(e *env) {
		configureContested(e, e.share())
	}},
	{name: "shared, while others append", rule: ruleShared, needs: shares, run: func(e *env) {
		configureWhileAppending(e, e.share())
	}},
}

// change returns the call of Create that changes the configuration of s next, and when it expires if that is given.
func (s *stream) change(config reprise.StreamConfig, expires ...time.Time) reprise.StreamInfo {
	info := s.state()
	info.Config, info.Revision = config, info.Revision+1
	if len(expires) > 0 {
		end := *s.end
		end.Expires = expires[0]
		info.End = &end
	}
	return info
}

// configure changes the configuration of s, and when it expires if that is given.
func (s *stream) configure(config reprise.StreamConfig, expires ...time.Time) *stream {
	want := s.change(config, expires...)
	kept, err := s.e.store.Create(s.e.ctx, want)
	s.e.noError(err, "change the configuration of %s", s.key)
	s.info.Config, s.info.Revision, s.end = want.Config, want.Revision, want.End
	s.e.sameInfo(kept, s.state())
	return s
}

func configureEnded(e *env) {
	at := now().Add(time.Hour)
	s := e.create("s").append(5).finish(at)
	data := e.createKey(key("data"), configs()["all"]).append(2)
	req := data.request(1)
	req.End = &reprise.End{Outcome: "exited", Time: now(), Expires: at, Data: make([]byte, 60<<10)}
	data.send(req)
	for i, name := range []string{"labels", "retention", "plain"} {
		for _, one := range []*stream{s, data} {
			one.configure(configs()[name], at.Add(time.Duration(i-1)*time.Minute)).same()
		}
	}
	s.trim(4).same()
	s.refused(s.request(1), reprise.ErrEnded, "after a change of the configuration")
	copied := e.createInfo(reprise.StreamInfo{Key: key("copied"), Tail: 41, End: copiedEnd()})
	copied.configure(configs()["all"], at).same()
	s.remove(reprise.RemoveSpec{})
	s.gone(reprise.ErrNotFound)
}

// configureSwept checks that sweeps follow the expiry that a change has set.
func configureSwept(e *env) {
	at := now().Add(time.Hour)
	later, earlier := e.create("later").append(1).finish(at), e.create("earlier").append(1).finish(at)
	same := e.create("same").append(1).finish(at)
	later.configure(configs()["labels"], at.Add(3*time.Hour))
	earlier.configure(configs()["labels"], at.Add(-30*time.Minute))
	same.configure(configs()["labels"], at)
	sweep := func(at time.Time, want ...*stream) { e.sweep(at, at.Add(time.Hour), 10, want...) }
	sweep(at.Add(-31 * time.Minute))
	sweep(at.Add(-time.Minute), earlier)
	sweep(at.Add(time.Minute), same)
	later.same()
	sweep(at.Add(2*time.Hour + 59*time.Minute))
	later.same()
	sweep(at.Add(3*time.Hour), later)
	e.listed(everything)
}

func configureRefused(e *env) {
	s := e.createKey(key("s"), configs()["plain"]).append(2)
	refused := func(info reprise.StreamInfo, want error, what string) {
		_, err := e.store.Create(e.ctx, info)
		e.wantError(err, want, "change the configuration %s", what)
	}
	first := s.change(configs()["all"])
	other := first
	other.Epoch = reprise.NewEpoch()
	refused(other, reprise.ErrNotFound, "in another epoch")
	other = first
	other.Revision++
	refused(other, reprise.ErrConflict, "two revisions ahead")
	absent := first
	absent.Key = key("absent")
	refused(absent, reprise.ErrNotFound, "of a stream that does not exist")
	s.same()
	s.configure(first.Config)
	for range 2 { // the answer may have been lost
		kept, err := e.store.Create(e.ctx, first)
		e.noError(err, "change the configuration once more")
		e.sameInfo(kept, s.state())
	}
	other = first
	other.Config = configs()["labels"]
	refused(other, reprise.ErrConflict, "as another caller has just done")
	s.same()
	s.configure(configs()["labels"])
	refused(first, reprise.ErrConflict, "as it was changed two changes ago")
	again := s.info
	again.Epoch, again.Revision = reprise.NewEpoch(), 0
	kept, err := e.store.Create(e.ctx, again)
	e.noError(err, "create it again with the configuration that it has now")
	e.sameInfo(kept, s.state())
	again.Config = configs()["plain"]
	refused(again, reprise.ErrConflict, "by creating it again with the first one")
	s.remove(reprise.RemoveSpec{Remember: now().Add(time.Hour)})
	refused(s.change(configs()["all"]), reprise.ErrNotFound, "of a stream that has expired")
	s.gone(reprise.ErrExpired)
}

// configureContested lets callers change one stream at the same time, through e and other.
func configureContested(e, other *env) {
	const callers, rounds = 8, 12
	s := e.create("s").append(1)
	for round := range rounds {
		var won atomic.Int64
		e.concurrently(callers, func(i int) {
			mine := s.on([]*env{e, other}[i%2])
			config := reprise.StreamConfig{Labels: map[string]string{"round": fmt.Sprint(round, " ", i)}}
			kept, err := mine.e.store.Create(e.ctx, mine.change(config))
			switch {
			case err == nil && kept.Config.Equal(config):
				won.Add(1)
			case err == nil:
				e.failf("a change was answered with the configuration of another one: %s", describe(kept))
			default:
				e.wantError(err, reprise.ErrConflict, "change the configuration")
			}
		})
		if won.Load() != 1 {
			e.failf("%d of %d changes to revision %d were made, want 1", won.Load(), callers, round+1)
		}
		info := s.read(1<<63, 0).Info
		s.info.Config, s.info.Revision = info.Config, info.Revision
		if info.Revision != uint64(round+1) {
			e.failf("the revision is %d after %d changes", info.Revision, round+1)
		}
		s.append(1).same()
	}
}

// configureWhileAppending changes a stream through e while others append through other. An append that relies on an
// earlier configuration than the last one whose change was answered must not be stored.
func configureWhileAppending(e, other *env) {
	const changes, writers = 25, 3
	s := e.create("s")
	var answered atomic.Uint64
	var stop atomic.Bool
	e.concurrently(writers+1, func(i int) {
		if i == writers {
			defer stop.Store(true)
			mine := *s
			for n := range changes {
				mine.changeSurely(map[string]string{"n": fmt.Sprint(n)})
				answered.Store(mine.info.Revision)
			}
			return
		}
		mine := s.on(other)
		for !stop.Load() {
			info := mine.read(1<<63, 0).Info
			mine.tail, mine.info.Revision = info.Tail, info.Revision
			known := answered.Load()
			errs := other.store.Append(e.ctx, []reprise.AppendRequest{mine.request(1 + i)})
			switch {
			case errs == nil && mine.info.Revision < known:
				e.failf("an append that relies on revision %d was stored after revision %d was answered",
					mine.info.Revision, known)
			case errs != nil && !errors.Is(errs[0], reprise.ErrConflict):
				e.failf("append: %v, want nil or ErrConflict", errs)
			}
		}
	})
	info := s.read(0, 1<<30).Info
	if info.Revision != changes {
		e.failf("the revision is %d after %d changes", info.Revision, changes)
	}
}

// changeSurely changes the labels of a stream to which others append.
func (s *stream) changeSurely(labels map[string]string) {
	info := s.read(1<<63, 0).Info
	info.Config.Labels, info.Revision = labels, info.Revision+1
	kept, err := s.e.store.Create(s.e.ctx, info)
	s.e.noError(err, "change the configuration while others append")
	if kept.Revision != info.Revision || !kept.Config.Equal(info.Config) || kept.Tail < info.Tail {
		s.e.failf("a change is answered with %s, want revision %d with %+v", describe(kept), info.Revision, info.Config)
	}
	s.info.Revision = kept.Revision
}

// configureCrash ends the Store while configurations change. Those that were answered must be kept, and each stream has
// one that was asked for.
func configureCrash(e *env) {
	const rounds, changers = 4, 3
	for round := range rounds {
		streams := make([]*stream, changers)
		for i := range streams {
			streams[i] = e.create(fmt.Sprint("s/", round, "/", i)).append(2)
		}
		ended := e.create(fmt.Sprint("ended/", round)).append(1).finish(now().Add(time.Hour))
		ended.configure(configs()["labels"], now().Add(5*time.Hour))
		started := make(chan struct{}, 1)
		var answered, before [changers]atomic.Uint64
		done := make(chan error, changers)
		for i, s := range streams {
			store := e.store
			go func() {
				done <- e.attempt(func() { changeUntilClosed(s, store, &answered[i], started) })
			}()
		}
		for range 1 + 3*round {
			<-started
		}
		for i := range streams {
			before[i].Store(answered[i].Load())
		}
		crashed := e.crash()
		for range streams {
			crashed = errors.Join(crashed, <-done)
		}
		e.noError(crashed, "crash in round %d", round)
		e.open()
		ended.same()
		for i, s := range streams {
			info := s.read(1<<63, 0).Info
			if info.Revision < before[i].Load() {
				e.failf("after the crash the revision is %d, and %d was answered", info.Revision, before[i].Load())
			}
			if want := revised(info.Revision); !info.Config.Equal(want) {
				e.failf("after the crash revision %d is %+v, want %+v", info.Revision, info.Config, want)
			}
			s.info.Config, s.info.Revision = info.Config, info.Revision
			s.append(1).same()
		}
	}
}

// revised is the configuration of a revision that changeUntilClosed makes.
func revised(revision uint64) reprise.StreamConfig {
	if revision == 0 {
		return reprise.StreamConfig{}
	}
	return reprise.StreamConfig{
		Retention: reprise.Retention{MaxEvents: int64(revision)},
		Labels:    map[string]string{"revision": fmt.Sprint(revision)},
	}
}

func changeUntilClosed(s *stream, store reprise.Store, answered *atomic.Uint64, started chan<- struct{}) {
	for revision := uint64(1); ; revision++ {
		info := s.info
		info.Config, info.Revision = revised(revision), revision
		if _, err := store.Create(s.e.ctx, info); err != nil {
			s.e.wantError(err, reprise.ErrClosed, "change the configuration while the Store is closed")
			return
		}
		answered.Store(revision)
		select {
		case started <- struct{}{}:
		default:
		}
	}
}
