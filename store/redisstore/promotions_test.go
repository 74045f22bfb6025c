package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/testserver"
)

// TestPromotionsAreTold (G1, G2, G3): replicas of the program append and read while one server after the other is
// killed and its replica promoted, every second time without the newest events. Nobody sees an event twice or misses
// one without an epoch_changed that names it, and no cursor of an acknowledged event that was lost is accepted. Four
// promotions, or as many as REPRISE_PROMOTIONS says.
func TestPromotionsAreTold(t *testing.T) {
	rounds := 4
	if text := os.Getenv("REPRISE_PROMOTIONS"); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		must(t, err)
	}
	p := newPromotions(t)
	for round := range rounds {
		p.promote(t, round%2 == 0)
	}
	p.finish(t)
	t.Logf("%d promotions: %d events acknowledged, %d of them lost; readers were told of %d changes, which took back %d events; "+
		"producers were told of %d", rounds, p.acknowledged(), p.lost, p.told.Load(), p.takenBack.Load(), p.gaps.Load())
	if rounds > 1 && (p.lost == 0 || p.takenBack.Load() == 0) {
		t.Error("nothing was lost: this tests nothing")
	}
}

// promotions is two servers, of which one is the replica of the other, with clients.
type promotions struct {
	primary, replica *testserver.RedisServer
	between          *proxy // the replica's way to its primary
	front            *proxy // the clients' way
	logs             []*reprise.Log

	ctx       context.Context
	stopped   atomic.Bool
	appending sync.WaitGroup
	reading   sync.WaitGroup
	writers   []*writer
	readers   []*follower

	lost                  int
	told, takenBack, gaps atomic.Int64
}

func newPromotions(t *testing.T) *promotions {
	p := &promotions{primary: testserver.Redis(t, nil), replica: testserver.Redis(t, nil)}
	p.between, p.front = newProxy(t, p.primary.Addr()), newProxy(t, p.primary.Addr())
	follow(t, p.replica, p.between.listener.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	p.ctx = ctx
	for range 2 {
		p.logs = append(p.logs, openLog(t, p.front.url(p.primary.URL())+"?timeout=2s"))
	}
	t.Cleanup(func() {
		cancel()
		p.appending.Wait()
		p.reading.Wait()
	})
	config := reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 1 << 30, MaxBytes: 1 << 40}}
	for i := range 3 {
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprint("s/", i)}
		for n, log := range p.logs {
			s, _, err := log.Create(ctx, key, config)
			must(t, err)
			w := &writer{all: p, stream: s, producer: reprise.ProducerID{ID: fmt.Sprint("p", n)}}
			p.writers = append(p.writers, w)
			p.appending.Go(func() { w.run(t) })
			reader, err := s.Reader(ctx, reprise.Earliest())
			must(t, err)
			f := &follower{all: p, stream: s, reader: reader}
			p.readers = append(p.readers, f)
			p.reading.Go(func() { f.run(t) })
		}
	}
	return p
}

// promote lets the clients work, kills the primary, and promotes the replica. The clients have seen events then which
// the replica has not, if lossy.
func (p *promotions) promote(t *testing.T, lossy bool) {
	t.Helper()
	p.goOn(t, 20)
	p.replicated(t) // a replica without the streams would lose them as a whole
	if lossy {
		p.between.redirect("127.0.0.1:1") // where nobody is
	}
	p.goOn(t, 20)
	must(t, p.primary.Kill())
	p.between.redirect("127.0.0.1:1") // the link to the killed server is down whatever it still held
	command(t, p.replica, "REPLICAOF", "NO", "ONE")
	p.front.redirect(p.replica.Addr())
	must(t, p.primary.Start())
	p.primary, p.replica = p.replica, p.primary
	p.between.redirect(p.primary.Addr())
	follow(t, p.replica, p.between.listener.Addr().String())
}

// replicated waits until the replica has what the primary has now.
func (p *promotions) replicated(t *testing.T) {
	t.Helper()
	offset := func(s *testserver.RedisServer, field string) (n int64) {
		_, rest, _ := strings.Cut(command(t, s, "INFO", "replication"), field+":")
		_, _ = fmt.Sscan(rest, &n)
		return n
	}
	sent := offset(p.primary, "master_repl_offset")
	until(t, "the replica has what the primary had", func() bool {
		return offset(p.replica, "slave_repl_offset") >= sent
	})
}

// goOn waits until each writer has appended, and each reader has read, n more events.
func (p *promotions) goOn(t *testing.T, n int64) {
	t.Helper()
	var marks []int64
	counters := make([]*atomic.Int64, 0, len(p.writers)+len(p.readers))
	for i := range p.writers {
		counters = append(counters, &p.writers[i].count, &p.readers[i].count)
	}
	for _, c := range counters {
		marks = append(marks, c.Load())
	}
	until(t, "the clients go on", func() bool {
		for i, c := range counters {
			if c.Load() < marks[i]+n && !t.Failed() {
				return false
			}
		}
		return true
	})
}

// finish ends the writers, lets the readers come to the tails, and compares.
func (p *promotions) finish(t *testing.T) {
	t.Helper()
	p.goOn(t, 5)
	p.stopped.Store(true)
	p.appending.Wait()
	for i, f := range p.readers {
		var info reprise.StreamInfo
		until(t, "the tail is known", func() (ok bool) {
			var err error
			info, err = f.stream.Info(p.ctx)
			return err == nil
		})
		until(t, "the reader is at the tail", func() bool { return f.last.Load() == info.Tail || t.Failed() })
		f.compare(t, &info)
		p.writers[i].compare(t, f.stream, &info)
	}
	for _, f := range p.readers {
		must(t, f.reader.Close())
	}
	p.reading.Wait()
}

// kept is all events of a stream, up to the tail.
func (p *promotions) kept(t *testing.T, s *reprise.Stream, tail uint64) (all []string) {
	t.Helper()
	r, err := s.Reader(p.ctx, reprise.Earliest())
	must(t, err)
	defer r.Close()
	for event, err := range r.Events(p.ctx) {
		must(t, err)
		if all = append(all, string(event.Data)); event.Seq == tail {
			break
		}
	}
	return all
}

func (p *promotions) acknowledged() (n int) {
	for _, w := range p.writers {
		n += len(w.acks)
	}
	return n
}

// writer appends to a stream as an idempotent producer.
type writer struct {
	all      *promotions
	stream   *reprise.Stream
	producer reprise.ProducerID
	acks     []ack
	count    atomic.Int64
}

// ack is an event that was acknowledged in an epoch, "" if that has changed meanwhile.
type ack struct {
	data  string
	seq   uint64
	epoch reprise.Epoch
}

func (w *writer) run(t *testing.T) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; !w.all.stopped.Load(); <-tick.C {
		data := fmt.Sprintf("%s/%d", w.producer.ID, n)
		epoch := w.stream.Cursor(0).Epoch
		a, err := w.stream.AppendWith(w.all.ctx, reprise.AppendOptions{Producer: &w.producer},
			reprise.Event{Data: []byte(data)})
		switch {
		case err == nil:
			if w.stream.Cursor(0).Epoch != epoch {
				epoch = ""
			}
			w.acks = append(w.acks, ack{data, a.First, epoch})
			w.count.Add(1)
			w.producer.Seq++
			n++
		case errors.Is(err, reprise.ErrConflict): // appends before this one were lost
			w.all.gaps.Add(1)
			w.producer.Epoch, w.producer.Seq = w.producer.Epoch+1, 0
		case !isUnavailable(err):
			t.Errorf("append %q to %s: %v", data, w.stream.Key(), err)
			return
		}
	}
}

// compare checks that each acknowledged event is there once, or that its cursor is refused.
func (w *writer) compare(t *testing.T, s *reprise.Stream, info *reprise.StreamInfo) {
	t.Helper()
	left := map[string][]uint64{}
	for i, data := range w.all.kept(t, s, info.Tail) {
		left[data] = append(left[data], uint64(i+1))
	}
	for _, a := range w.acks {
		switch at := left[a.data]; {
		case len(at) > 1:
			t.Errorf("%s: %q is there at %v", info.Key, a.data, at)
		case len(at) == 1 && at[0] == a.seq:
		default:
			w.all.lost++
			if fork, known := info.ForkOf(a.epoch); known && fork >= a.seq {
				t.Errorf("%s: %q was acknowledged at %d of %s, and is at %v; the fork is %d",
					info.Key, a.data, a.seq, a.epoch, at, fork)
			}
		}
	}
}

// follower reads a stream. What it is told to be taken back it forgets.
type follower struct {
	all    *promotions
	stream *reprise.Stream
	reader *reprise.Reader
	seen   []string // event 1, 2, ...
	last   atomic.Uint64
	count  atomic.Int64
}

func (f *follower) run(t *testing.T) {
	for {
		run, err := f.reader.Next(f.all.ctx)
		window, changed := errors.AsType[*reprise.WindowError](err)
		switch {
		case changed && window.Reason == reprise.EpochChanged && window.Asked.Seq == uint64(len(f.seen)):
			f.all.told.Add(1)
			f.all.takenBack.Add(int64(window.TakenBack()))
			if window.Fork.Seq == 0 || window.Missed() != 0 {
				t.Errorf("%s: the whole stream is to be read again: %v", f.stream.Key(), err)
			}
			f.seen = f.seen[:window.Resume().Seq]
			if err := f.reader.Seek(reprise.After(window.Resume())); err != nil {
				t.Errorf("%s: seek to the fork: %v", f.stream.Key(), err)
				return
			}
		case errors.Is(err, reprise.ErrClosed), f.all.ctx.Err() != nil:
			return
		case isUnavailable(err):
			time.Sleep(5 * time.Millisecond) // the server is away: the reader stays where it is
		case err != nil:
			t.Errorf("%s after %d: %v", f.stream.Key(), len(f.seen), err)
			return
		}
		for event := range run.All() {
			if f.seen = append(f.seen, string(event.Data)); event.Seq != uint64(len(f.seen)) {
				t.Errorf("%s: event %d where %d was due", f.stream.Key(), event.Seq, len(f.seen))
				return
			}
			f.count.Add(1)
		}
		f.last.Store(uint64(len(f.seen)))
	}
}

// compare checks that what was read is what is there.
func (f *follower) compare(t *testing.T, info *reprise.StreamInfo) {
	t.Helper()
	if !slices.Equal(f.seen, f.all.kept(t, f.stream, info.Tail)) {
		t.Errorf("%s: what was read is not what is there", info.Key)
	}
}
