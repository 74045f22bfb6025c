package reprise_test

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// moody is a Store whose appends fail or panic now and then, some of them after they have kept their events. It
// remembers the bytes that it was given, as stores may.
type moody struct {
	*memstore.Store
	seed maphash.Seed

	mu    sync.Mutex
	given [][]byte
	sums  []uint64
}

func (m *moody) ConcurrentAppends() int { return 3 }

func (m *moody) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	m.mu.Lock()
	for i := range reqs {
		m.given = append(m.given, reqs[i].Bytes)
		m.sums = append(m.sums, maphash.Bytes(m.seed, reqs[i].Bytes))
	}
	m.mu.Unlock()
	switch rand.N(60) {
	case 0:
		panic(errMood)
	case 1:
		_ = m.Store.Append(ctx, reqs)
		panic(errMood)
	}
	errs := make([]error, len(reqs))
	for i := range reqs {
		mood := rand.N(40)
		if mood == 0 {
			errs[i] = fmt.Errorf("%w: before", reprise.ErrUnavailable)
			continue
		}
		if failed := m.Store.Append(ctx, reqs[i:i+1]); failed != nil {
			errs[i] = failed[0]
		} else if mood == 1 {
			errs[i] = fmt.Errorf("%w: after", reprise.ErrUnavailable)
		}
	}
	return errs
}

var errMood = errors.New("a bad mood")

// changed returns the number of batches that were written over after the store had them.
func (m *moody) changed() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, b := range m.given {
		if maphash.Bytes(m.seed, b) != m.sums[i] {
			n++
		}
	}
	return n
}

// retried repeats an append until it is acknowledged. Its caller loses patience at random, and writes over the data as
// soon as the append has returned.
func retried(t *testing.T, s *reprise.Stream, p reprise.ProducerID, data string) {
	for {
		ctx, cancel := context.WithCancel(t.Context())
		var timer *time.Timer
		if rand.N(3) == 0 {
			timer = time.AfterFunc(rand.N(100*time.Microsecond), cancel)
		}
		own := []byte(data)
		opts := reprise.AppendOptions{Producer: &p}
		if rand.N(8) == 0 {
			opts.Trace = new(reprise.AppendTrace)
		}
		var err error
		panicked := panicOf(func() { _, err = s.AppendWith(ctx, opts, reprise.Event{Data: own}) })
		clear(own)
		if opts.Trace != nil {
			opts.Trace.Events = 0
		}
		if timer != nil {
			timer.Stop()
		}
		cancel()
		switch {
		case panicked != nil && panicked != errMood:
			panic(panicked)
		case panicked != nil, errors.Is(err, context.Canceled), errors.Is(err, reprise.ErrUnavailable):
		case err != nil:
			t.Errorf("append %d of %s: %v", p.Seq, p.ID, err)
			return
		default:
			return
		}
	}
}

// runsOf reads a stream from the beginning until it ends and keeps all that it was given, as slow readers do.
func runsOf(t *testing.T, s *reprise.Stream) (runs []reprise.Events) {
	r, err := s.Reader(t.Context(), reprise.Earliest())
	if err != nil {
		t.Error(err)
		return nil
	}
	defer r.Close()
	for {
		events, err := r.Next(t.Context())
		if errors.Is(err, reprise.ErrEnded) {
			return runs
		}
		if err != nil {
			t.Error(err)
			return runs
		}
		runs = append(runs, events)
	}
}

// TestAppendsUnderStress: whatever store, callers and memory do, each event of a producer that retries is there once
// and in its order, and what readers and the store were given never changes.
func TestAppendsUnderStress(t *testing.T) {
	const writers, each, streams, readers = 12, 40, 5, 2
	store := &moody{Store: memory(t).(*memstore.Store), seed: maphash.MakeSeed()}
	log := openLog(t, store, &reprise.Options{
		SweepEvery: -1, MaxStreams: streams + 3, TailBytes: 8 << 10, TailTotalBytes: 20 << 10,
	})
	handles := make([]*reprise.Stream, streams)
	for i := range handles {
		handles[i] = create(t, log, fmt.Sprint(i), reprise.Retention{MaxEvents: 1 << 20, MaxBytes: 1 << 30})
	}
	var reading, writing sync.WaitGroup
	var runs [streams][readers][]reprise.Events
	for i, s := range handles {
		for k := range readers {
			if i > 0 { // the first stream has none, so that it is evicted now and then
				reading.Go(func() { runs[i][k] = runsOf(t, s) })
			}
		}
	}
	for w := range writers {
		writing.Go(func() {
			var seqs [streams]uint64
			for n := range each {
				i := rand.N(streams)
				size := []int{1, 1, 1, 30, 700, 9000}[rand.N(6)]
				data := fmt.Sprintf("%d %d %s", w, seqs[i], strings.Repeat(string(rune('a'+w)), size))
				retried(t, handles[i], reprise.ProducerID{ID: fmt.Sprint("p", w), Seq: seqs[i]}, data)
				if seqs[i]++; n%10 == 0 { // streams come and go
					retried(t, created(t, log, fmt.Sprintf("other-%d-%d", w, n)), reprise.ProducerID{ID: "p"}, "data")
				}
			}
		})
	}
	writing.Wait()
	total := 0
	for i, s := range handles {
		retriedEnd(t, s)
		total += checkProducers(t, i, kept(t, s)) - 1
	}
	if total != writers*each {
		t.Errorf("%d events are there, %d were acknowledged", total, writers*each)
	}
	reading.Wait()
	for i := range runs {
		for _, run := range runs[i] {
			var events []reprise.Event
			for _, r := range run {
				for e := range r.All() {
					events = append(events, e)
				}
			}
			if i > 0 {
				checkProducers(t, i, events)
			}
		}
	}
	if n := store.changed(); n > 0 {
		t.Errorf("%d of %d batches were written over", n, len(store.given))
	}
}

// created creates a stream. To make room for it, Create may take part in a commit that panics.
func created(t *testing.T, log *reprise.Log, name string) (s *reprise.Stream) {
	for s == nil {
		var err error
		panicked := panicOf(func() { s, _, err = log.Create(t.Context(), named(name), reprise.StreamConfig{}) })
		if panicked == nil && err != nil {
			t.Error(err)
		}
	}
	return s
}

// retriedEnd ends a stream.
func retriedEnd(t *testing.T, s *reprise.Stream) {
	for {
		var err error
		panicked := panicOf(func() { _, err = s.End(t.Context(), "completed", reprise.Event{}) })
		if panicked == nil && (err == nil || errors.Is(err, reprise.ErrEnded)) {
			return
		}
		if panicked == nil && !errors.Is(err, reprise.ErrUnavailable) {
			t.Fatal(err)
		}
	}
}

// checkProducers checks the events of an ended stream and returns their number.
func checkProducers(t *testing.T, stream int, events []reprise.Event) int {
	t.Helper()
	next := map[int]int{}
	for i, e := range events {
		if i == len(events)-1 && e.Type == reprise.TypeEnd && e.Seq == uint64(i+1) {
			return len(events)
		}
		var w, n int
		var rest string
		if _, err := fmt.Sscan(string(e.Data), &w, &n, &rest); err != nil || e.Seq != uint64(i+1) || n != next[w] ||
			strings.Trim(rest, string(rune('a'+w))) != "" {
			t.Fatalf("stream %d, event %d at place %d is %.40q, want number %d: %v",
				stream, e.Seq, i+1, e.Data, next[w], err)
		}
		next[w]++
	}
	t.Errorf("stream %d lacks its end after %d events", stream, len(events))
	return len(events)
}
