package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
)

const (
	ruleWatch            = "Watch calls moved soon after another replica may have appended to the stream, changed its configuration, trimmed, removed or swept it, until stop is called."
	ruleWatchNoBlock     = "It does not block, and moved must not either."
	ruleWatchBlind       = "Where changes may have been missed, because a connection was lost or is not up yet, moved must be called once they can be seen again."
	ruleWatchConnections = "However many streams are watched, a replica must need no more than a fixed number of connections for it."
	ruleWatchClosed      = "The error is errors.ErrUnsupported or ErrClosed."
)

var watchChecks = []check{
	{name: "changes", rule: ruleWatch, needs: watches, run: watchChanges},
	{name: "swept", rule: ruleWatch, needs: watches | sweeps, run: func(e *env) {
		other := e.share()
		s := e.create("s").append(2).finish(now())
		w := e.watch(s.key)
		w.told("has swept the stream", func() {
			other.sweep(now().Add(time.Second), now().Add(time.Hour), 10, s)
		}, func() bool { return e.readError(s.key, reprise.ErrExpired) })
	}},
	{name: "follow", rule: ruleWatchBlind, needs: watches, run: watchFollow},
	{name: "deafened", rule: ruleWatchBlind, needs: watches | deafens, run: watchDeafened},
	{name: "stop", rule: ruleWatch, needs: watches, run: watchStop},
	{name: "removed and made again", rule: ruleWatch, needs: watches, run: func(e *env) {
		other := e.share()
		w := e.watch(key("s"))
		for round := range uint64(5) {
			s := other.create("s")
			w.told(fmt.Sprintf("has appended in life %d", round), func() { s.append(1) },
				func() bool { return e.tail(s.key) == 1 })
			w.told("has removed the stream", func() { s.remove(reprise.RemoveSpec{}) }, func() bool {
				return e.readError(s.key, reprise.ErrNotFound)
			})
		}
	}},
	{name: "at once", rule: ruleWatchNoBlock, needs: watches, run: watchAtOnce},
	{name: "many", rule: ruleWatchConnections, needs: watches, run: watchMany},
	{name: "closed", rule: ruleWatchClosed, needs: watches, run: func(e *env) {
		e.watch(key("s"))
		e.noError(e.store.Close(), "close while a stream is watched")
		_, err := e.store.(reprise.Watcher).Watch(key("s"), func() {})
		e.wantError(err, reprise.ErrClosed, "watch after Close")
	}},
	{name: "goroutines", rule: ruleReleases, needs: watches, run: func(e *env) {
		other := e.share()
		for i := range 50 {
			s := e.create(fmt.Sprint("s/", i))
			w, its := e.watch(s.key), s.on(other)
			w.told("has appended", func() { its.append(1) }, func() bool { return e.tail(s.key) == 1 })
		}
		e.noError(other.store.Close(), "close the other replica")
		e.close()
		e.noGoroutines()
	}},
}

// watched is a stream that is watched.
type watched struct {
	e     *env
	key   reprise.StreamKey
	stop  func()
	calls atomic.Int64
	wake  chan struct{} // has room for one
}

func (e *env) watch(k reprise.StreamKey) *watched {
	w := &watched{e: e, key: k, wake: make(chan struct{}, 1)}
	stop, err := e.store.(reprise.Watcher).Watch(k, func() {
		w.calls.Add(1)
		select {
		case w.wake <- struct{}{}:
		default:
		}
	})
	e.noError(err, "watch %s", k)
	w.stop = stop
	return w
}

// until calls seen now, and each time the watched stream has moved, until it returns true. It does not poll.
func (w *watched) until(seen func() bool, what string) {
	deadline := time.NewTimer(w.e.opts.patience)
	defer deadline.Stop()
	for !seen() {
		select {
		case <-w.wake:
		case <-deadline.C:
			w.e.failf("%s, and in %v its watcher was not told; there were %d calls in all",
				what, w.e.opts.patience, w.calls.Load())
		}
	}
}

// told makes a change through another replica. The watcher must be notified, and must then see the change.
func (w *watched) told(what string, change func(), seen func() bool) {
	before := w.calls.Load()
	change()
	w.until(func() bool { return w.calls.Load() > before && seen() }, "another replica "+what)
}

// tail returns the tail of a stream, or 0 if the stream does not exist.
func (e *env) tail(k reprise.StreamKey) uint64 {
	page, err := e.store.Read(e.ctx, k, 1<<63, 0)
	if !errors.Is(err, reprise.ErrNotFound) {
		e.noError(err, "read %s", k)
	}
	return page.Info.Tail
}

// readError reports whether a read gets the error want; another one ends the check.
func (e *env) readError(k reprise.StreamKey, want error) bool {
	_, err := e.store.Read(e.ctx, k, 0, 1)
	if err != nil {
		e.wantError(err, want, "read %s", k)
	}
	return err != nil
}

func watchChanges(e *env) {
	other := e.share()
	s := e.create("s").append(2)
	w := e.watch(s.key)
	its := s.on(other)
	changes := []struct {
		what string
		make func()
	}{
		{"has appended several times", func() { its.append(1, 2, 3, 4, 5, 6, 7, 8) }},
		{"has appended much", func() { its.append(64 << 10) }}, // a MiB
		{"has taken the stream over", func() { its.send(its.by(owner("b", 2))) }},
		{"has trimmed the stream", func() { its.trim(20) }},
		{"has changed its configuration", func() { its.configure(configs()["all"]) }},
		{"has ended the stream", func() { its.finish(now().Add(time.Hour)) }},
	}
	seen := func() bool {
		page := s.read(0, 1<<20)
		return page.Info.Tail == its.tail && page.Info.Earliest == its.earliest &&
			page.Info.Revision == its.info.Revision && (page.Info.End != nil) == (its.end != nil)
	}
	for range 20 {
		w.told("has appended", func() { its.append(1) }, seen)
	}
	for _, c := range changes {
		w.told(c.what, c.make, seen)
	}
	for _, spec := range []reprise.RemoveSpec{{}, {Remember: now().Add(time.Hour)}} {
		gone, want := e.create("gone").append(1), reprise.ErrNotFound
		if !spec.Remember.IsZero() {
			want = reprise.ErrExpired
		}
		w := e.watch(gone.key)
		w.told("has removed the stream", func() { gone.on(other).remove(spec) },
			func() bool { return e.readError(gone.key, want) })
		w.stop()
	}
}

// watchFollow follows streams as a Log does: it watches, reads, and reads again after each notification. Others append
// before, meanwhile and after.
func watchFollow(e *env) {
	const streams, appends, rounds = 16, 12, 4
	other := e.share()
	for round := range rounds {
		e.concurrently(2*streams, func(i int) {
			s := key(fmt.Sprintf("s/%d/%d", round, i/2))
			if i%2 == 0 {
				its := other.createKey(s, reprise.StreamConfig{})
				for range appends {
					e.pause(rand.N(3 * time.Millisecond))
					its.append(1)
				}
				return
			}
			e.pause(rand.N(20 * time.Millisecond))
			w := e.watch(s)
			defer w.stop()
			w.until(func() bool { return e.tail(s) == appends },
				fmt.Sprintf("another replica has appended %d times", appends))
		})
	}
}

func watchDeafened(e *env) {
	other := e.share()
	s, quiet := e.create("s").append(1), e.create("quiet").append(1)
	its := s.on(other)
	w, quietly := e.watch(s.key), e.watch(quiet.key)
	for range 5 {
		e.noError(e.harness.Deafen(e.store), "cut the connections of the watcher")
		w.told("has appended while the connection was lost", func() { its.append(1, 1, 1) },
			func() bool { return e.tail(s.key) == its.tail })
		before := quietly.calls.Load()
		e.noError(e.harness.Deafen(e.store), "cut the connections of the watcher")
		quietly.until(func() bool { return quietly.calls.Load() > before }, "the connection was lost, so that changes may have been missed")
	}
}

func watchStop(e *env) {
	other := e.share()
	s := e.create("s")
	its := s.on(other)
	for range 20 {
		stopped, kept := e.watch(s.key), e.watch(s.key)
		always := func() bool { return true }
		kept.told("has appended", func() {
			stopped.told("has appended", func() { its.append(1) }, always)
		}, always)
		stopped.stop()
		before := stopped.calls.Load()
		for range 5 {
			kept.told("has appended, after another watcher of the stream has stopped", func() { its.append(1) }, always)
		}
		if after := stopped.calls.Load(); after > before+1 {
			e.failf("moved was called %d times after stop", after-before)
		}
		kept.stop()
	}
}

// manyWatches is the number of streams watched at a time. Their goroutines must be a fraction of it.
const (
	manyWatches    = 1000
	manyGoroutines = 100
)

func watchMany(e *env) {
	other := e.share()
	streams := make([]*stream, manyWatches)
	e.concurrently(16, func(part int) {
		for i := part; i < manyWatches; i += 16 {
			streams[i] = other.create(fmt.Sprint("s/", i))
		}
	})
	first := e.watch(key("s/first")) // starts what is started once
	before := runtime.NumGoroutine()
	watchers := make([]*watched, manyWatches)
	for i, s := range streams {
		watchers[i] = e.watch(s.key)
	}
	for round := range int64(3) {
		for part := range slices.Chunk(streams, 250) {
			reqs := make([]reprise.AppendRequest, len(part))
			for i, s := range part {
				reqs[i] = s.request(1)
			}
			if errs := other.store.Append(e.ctx, reqs); errs != nil {
				e.failf("append to %d streams: %v, want nil", len(part), errors.Join(errs...))
			}
			for i, s := range part {
				s.accepted(reqs[i])
			}
		}
		for i, w := range watchers {
			w.until(func() bool { return w.calls.Load() > round && e.tail(w.key) == streams[i].tail },
				"another replica has appended to all streams")
		}
		// Goroutines of other tests come and go; watches' goroutines stay.
		e.until(func() bool { return runtime.NumGoroutine()-before <= manyGoroutines },
			fmt.Sprintf("more than %d further goroutines for %d watched streams", manyGoroutines, manyWatches))
	}
	e.concurrently(16, func(part int) {
		for i := part; i < manyWatches; i += 16 {
			watchers[i].stop()
		}
	})
	first.stop()
}

// watchAtOnce measures how long Watch takes, also while others use the Store. It makes three attempts, because the
// machine may be busy for a while.
func watchAtOnce(e *env) {
	const most, times, tries = 5 * time.Millisecond, 100, 3
	other := e.share()
	s := e.create("s")
	its := s.on(other)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var failed error
	wg.Go(func() {
		failed = e.attempt(func() {
			for {
				select {
				case <-stop:
					return
				default:
					its.append(1)
				}
			}
		})
	})
	quickest := time.Hour
	for try := 0; try < tries && quickest > most; try++ {
		took := make([]time.Duration, 0, times)
		for i := range times {
			start := time.Now()
			w := e.watch(key(fmt.Sprintf("s/%d/%d", try, i)))
			took = append(took, time.Since(start))
			defer w.stop()
		}
		slices.Sort(took)
		quickest = min(quickest, took[len(took)/2])
	}
	close(stop)
	wg.Wait()
	e.noError(failed, "append meanwhile")
	if quickest > most {
		e.failf("Watch takes %v, at most %v are allowed where nothing is waited for", quickest, most)
	}
}
