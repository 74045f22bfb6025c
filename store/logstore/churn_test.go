package logstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"reprise"
)

// TestTwoDaysOfChurn lives through 48 hours by a clock of its own: a commit each second, a sweep every five minutes,
// and every half hour the store is closed, killed, or loses its power, and opened again. Streams of runs come, are
// appended to, end, and are swept an hour later, but for some that are abandoned and stay; others go on with a window.
// The store always holds what a model of it says, and takes no more space than docs/internals/storage-log.md allows.
func TestTwoDaysOfChurn(t *testing.T) {
	hours := 48
	if raceEnabled {
		hours = 2
	}
	c := newChurn(t)
	for second := range hours * 3600 {
		c.now = c.now.Add(time.Second)
		c.second()
		if second%10 == 0 {
			c.tidy()
		}
		if second%300 == 299 {
			c.sweep()
		}
		if second%1800 == 1799 {
			c.reopen(second / 1800)
		}
		if t.Failed() {
			t.Fatalf("after %v", time.Duration(second)*time.Second)
		}
	}
	c.check(c.store.Close())
	t.Logf("%d commits of %d bytes, %d runs, %d streams and marks at the end, %.2f of the bound on space at most",
		c.commits, c.written, c.runs, len(c.model.streams), c.worst)
	if c.worst < 0.3 || c.swept < c.runs/4 {
		t.Errorf("%d of %d runs were swept: this says nothing", c.swept, c.runs)
	}
}

// churn is a store, the model that it is compared with, and what happens to both.
type churn struct {
	t       *testing.T
	rnd     *rand.Rand
	now     time.Time
	disk    *simDisk
	store   *Store
	options Options
	model   model
	// running are runs that have not ended; lasting are streams that never end.
	running, lasting []string

	commits, runs, swept int
	written              int64
	worst                float64
}

func newChurn(t *testing.T) *churn {
	c := &churn{
		t: t, rnd: rand.New(rand.NewPCG(48, 1)), now: day(1), disk: newSimDisk(), options: exploreOptions(),
		model: model{streams: map[string]*modelStream{}},
	}
	c.options.SegmentBytes = 64 << 10
	var err error
	if c.store, err = open(c.disk, c.options); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		c.lasting = append(c.lasting, fmt.Sprint("lasting", i))
		c.create(c.lasting[i])
	}
	return c
}

func (c *churn) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *churn) create(name string) {
	c.model.epochs++
	info := reprise.StreamInfo{
		Key: testKey(name), Epoch: reprise.Epoch(fmt.Sprint("epoch", c.model.epochs)), Created: c.now, Earliest: 1,
	}
	_, err := c.store.Create(bg, info)
	c.check(err)
	c.model.streams[name] = &modelStream{info: info}
}

// request is an append to a stream with a window of so many batches.
func (c *churn) request(name string, window int) *reprise.AppendRequest {
	s := c.model.streams[name]
	b := make([]byte, 1+c.rnd.IntN(600))
	fill(b, c.rnd)
	req := &reprise.AppendRequest{
		Key: s.info.Key, Epoch: s.info.Epoch, First: s.info.Tail + 1, Count: 1 + c.rnd.IntN(3), Bytes: b,
		Earliest: s.info.Earliest,
	}
	if n := len(s.batches) - window; n >= 0 {
		req.Earliest = s.batches[n].First
		s.batches = s.batches[n:]
	}
	for _, b := range s.batches {
		req.Kept += int64(len(b.Bytes))
	}
	req.Kept += int64(len(b))
	return req
}

func (c *churn) append(reqs ...*reprise.AppendRequest) {
	var all []reprise.AppendRequest
	for _, req := range reqs {
		c.model.streams[req.Key.Name].append(req)
		c.written += int64(len(req.Bytes))
		all = append(all, *req)
	}
	for _, err := range c.store.Append(bg, all) {
		c.check(err)
	}
	c.commits++
}

// second is what happens in a second: a commit, and now and then a run that starts, ends or is removed.
func (c *churn) second() {
	if c.rnd.IntN(20) == 0 {
		name := fmt.Sprint("run", c.runs)
		c.runs++
		c.create(name)
		c.running = append(c.running, name)
	}
	reqs := []*reprise.AppendRequest{c.request(c.lasting[c.rnd.IntN(len(c.lasting))], 100)}
	for i, name := range c.running {
		if c.rnd.IntN(8) > 0 {
			continue
		}
		req := c.request(name, 1000)
		if c.rnd.IntN(12) == 0 {
			if c.rnd.IntN(20) > 0 {
				req.End = &reprise.End{Outcome: "exited", Time: c.now, Expires: c.now.Add(time.Hour)}
			}
			c.running = append(c.running[:i:i], c.running[i+1:]...)
			reqs = append(reqs, req)
			break
		}
		reqs = append(reqs, req)
	}
	c.append(reqs...)
	if len(c.running) > 0 && c.rnd.IntN(2000) == 0 {
		name := c.running[0]
		c.running = c.running[1:]
		delete(c.model.streams, name)
		c.check(c.store.Remove(bg, testKey(name), reprise.RemoveSpec{}))
	}
}

// sweep removes what has expired from the store and from the model.
func (c *churn) sweep() {
	remember := c.now.Add(30 * time.Minute)
	for name, s := range c.model.streams {
		switch {
		case !s.until.IsZero() && !s.until.After(c.now):
			delete(c.model.streams, name)
		case s.until.IsZero() && s.info.End != nil && !s.info.End.Expires.After(c.now):
			c.model.streams[name] = &modelStream{info: reprise.StreamInfo{Key: s.info.Key}, until: remember}
			c.swept++
		}
	}
	for range 10 {
		_, err := c.store.Sweep(bg, c.now, remember, 100)
		c.check(err)
	}
}

// tidy gives space back, and looks at how much there is.
func (c *churn) tidy() {
	c.check(c.store.tidy())
	stats, err := c.store.Stats(bg)
	c.check(err)
	bound := 2*stats.LiveBytes + 4*c.options.SegmentBytes + 2*stats.SnapshotBytes
	if stats.LogBytes > bound {
		c.t.Fatalf("the log has %d bytes, %d of them live; %d are the bound", stats.LogBytes, stats.LiveBytes, bound)
	}
	c.worst = max(c.worst, float64(stats.LogBytes)/float64(bound))
}

// reopen opens the store again, after one of three ends, and compares it with the model.
func (c *churn) reopen(n int) {
	switch n % 3 {
	case 0:
		c.check(c.store.Close())
	case 1: // killed
	case 2:
		c.disk = c.disk.image().crash(func(int) tear { return tear(c.rnd.IntN(4)) })
	}
	var err error
	c.store, err = open(c.disk, c.options)
	c.check(err)
	got, err := printStore(c.store)
	c.check(err)
	if want := c.model.print(); got != want {
		c.t.Error(difference(got, []string{want}))
	}
}
