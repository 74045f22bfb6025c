package storewrap_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/store/sqlitestore"
)

// BenchmarkAppend is 100 callers that append events of 200 bytes of compiler output, one at a time, through a Log to
// SQLite: to one stream, and to one each. Bare and wrapped Stores take turns, so that a machine that is slow for a
// while is so for all of them; "of-bare" is the median of the rates of a turn in relation to that of the bare Store.
func BenchmarkAppend(b *testing.B) {
	out := compilerOutput(b)
	for _, streams := range []int{1, 100} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			wraps := map[string]wrapping{
				"compress": compress, "encrypt": encrypt,
				"both": func(tb testing.TB, s reprise.Store) reprise.Store { return compress(tb, encrypt(tb, s)) },
			}
			bare := newAppenders(b, func(_ testing.TB, s reprise.Store) reprise.Store { return s }, out, streams)
			wrapped := map[string]*appenders{}
			for name, put := range wraps {
				wrapped[name] = newAppenders(b, put, out, streams)
			}
			ratios := map[string][]float64{}
			var rates []float64
			for b.Loop() {
				rate := bare.lap(b)
				rates = append(rates, rate)
				for name, a := range wrapped {
					ratios[name] = append(ratios[name], a.lap(b)/rate)
				}
			}
			b.ReportMetric(median(rates), "bare-events/s")
			for name, all := range ratios {
				b.ReportMetric(median(all), name+"-of-bare")
			}
		})
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// appenders append to a Log.
type appenders struct {
	streams []*reprise.Stream
	out     []byte
	next    atomic.Int64
}

func newAppenders(b *testing.B, put wrapping, out []byte, streams int) *appenders {
	inner, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "reprise.db"), nil)
	check(b, err)
	log, err := reprise.Open(b.Context(), put(b, inner), nil)
	check(b, err)
	b.Cleanup(func() { check(b, log.Close()); check(b, inner.Close()) })
	a := &appenders{out: out}
	for i := range streams {
		s, _, err := log.Create(b.Context(), key(fmt.Sprint(i)), reprise.StreamConfig{})
		check(b, err)
		a.streams = append(a.streams, s)
	}
	return a
}

// lap appends some thousand events and returns how many there are a second.
func (a *appenders) lap(b *testing.B) float64 {
	const callers, size, events = 100, 200, 5000
	until := a.next.Load() + events
	start := time.Now()
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for n := a.next.Add(1); n <= until; n = a.next.Add(1) {
				from := int(n*size) % (len(a.out) - size)
				e := reprise.Event{Type: "stdout", Data: a.out[from : from+size]}
				if _, err := a.streams[caller%len(a.streams)].Append(b.Context(), e); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return events / time.Since(start).Seconds()
}

// BenchmarkCompress is a batch of some size, in and out.
func BenchmarkCompress(b *testing.B) {
	out := compilerOutput(b)
	for _, size := range []int{200, 2 << 10, 20 << 10, 200 << 10} {
		for _, w := range []struct {
			name string
			put  wrapping
		}{{"compress", compress}, {"encrypt", encrypt}} {
			b.Run(fmt.Sprintf("wrap=%s/size=%d", w.name, size), func(b *testing.B) {
				taken := &taking{}
				s := w.put(b, taken)
				req := request(key("s"), 1, "")
				b.SetBytes(int64(size))
				b.ReportAllocs()
				from := 0
				for b.Loop() {
					from = (from + size + 7) % (len(out) - size)
					req.Bytes = out[from : from+size]
					_ = s.Append(b.Context(), []reprise.AppendRequest{req})
				}
				b.ReportMetric(float64(taken.bytes)/float64(taken.count*int64(size)), "stored/byte")
			})
		}
	}
}

// taking is a Store that takes everything and keeps nothing.
type taking struct {
	reprise.Store
	bytes, count int64
}

func (s *taking) Append(_ context.Context, reqs []reprise.AppendRequest) []error {
	for i := range reqs {
		s.bytes += int64(len(reqs[i].Bytes))
		s.count++
	}
	return nil
}
