package enginetest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

// The hot functions, over memory. Beside limits and peers they are measured in bench/; the targets
// are P1, P2, P11 and P12 there.

// eventBytes is the size of the events that are measured.
const eventBytes = 200

func payload(count int) []reprise.Event {
	events := make([]reprise.Event, count)
	for i := range events {
		events[i] = reprise.Event{Type: "stdout", Data: make([]byte, eventBytes)}
		for k := range events[i].Data {
			events[i].Data[k] = byte('a' + k%26)
		}
	}
	return events
}

// fill appends count events in batches of 1,000.
func fill(tb testing.TB, s *reprise.Stream, count int) {
	tb.Helper()
	batch := payload(1000)
	for range count / len(batch) {
		add(tb, s, batch...)
	}
}

// many keeps all events of a benchmark.
var many = reprise.Retention{MaxEvents: 1 << 40, MaxBytes: 1 << 40}

func BenchmarkAppend(b *testing.B) {
	for _, quiet := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("quiet=%d", quiet), func(b *testing.B) {
			log := openLog(b, memory(b), nil)
			for i := range quiet {
				add(b, create(b, log, "quiet/"+strconv.Itoa(i), reprise.Retention{}), text("q"))
			}
			for _, size := range []int{1, 100} {
				b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
					s, _, err := log.Create(b.Context(), named("s"), reprise.StreamConfig{})
					check(b, err)
					events, ctx := payload(size), b.Context()
					b.ReportAllocs()
					for b.Loop() {
						if _, err := s.Append(ctx, events...); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/event")
				})
			}
		})
	}
}

// BenchmarkTracedAppend is what it costs an append to be told how it was committed.
func BenchmarkTracedAppend(b *testing.B) {
	for _, traced := range []bool{false, true} {
		b.Run(fmt.Sprintf("traced=%t", traced), func(b *testing.B) {
			s := create(b, openLog(b, memory(b), nil), "s", reprise.Retention{})
			events, ctx := payload(1), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				var opts reprise.AppendOptions
				if traced {
					opts.Trace = new(reprise.AppendTrace)
				}
				if _, err := s.AppendWith(ctx, opts, events...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendByManyWriters(b *testing.B) {
	log := openLog(b, memory(b), nil)
	s := create(b, log, "s", reprise.Retention{})
	events := payload(1)
	b.SetParallelism(64)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Append(b.Context(), events...); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkCursor(b *testing.B) {
	log := openLog(b, memory(b), nil)
	s := create(b, log, "s", many)
	fill(b, s, 1000)
	text := s.Cursor(1000).String()
	b.Run("mint", func(b *testing.B) {
		var buf []byte
		b.ReportAllocs()
		for b.Loop() {
			buf = s.Cursor(1000).Append(buf[:0])
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := reprise.ParseCursor(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse and verify", func(b *testing.B) {
		r := openReader(b, s, reprise.Tail())
		b.ReportAllocs()
		for b.Loop() {
			c, err := reprise.ParseCursor(text)
			if err == nil {
				err = r.Seek(reprise.After(c))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAppendJSON(b *testing.B) {
	at := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	plain := payload(1)[0].Data
	jsonLines := bytes.Repeat(
		[]byte(`{"level":"info","msg":"request served","path":"/v1/x","status":200,"ms":12.5}`+"\n"), 50,
	)
	for name, e := range map[string]reprise.Event{
		"text":    {Seq: 1234567, Time: at, Data: plain},
		"escapes": {Seq: 1234567, Time: at, Data: []byte("\x1b[31m\"quoted\"\x1b[0m\n\tnext\n")},
		"lines":   {Seq: 1234567, Time: at, Data: jsonLines},
		"log":     {Seq: 1234567, Time: at, Data: bytes.Repeat([]byte("12:00:01 INFO request served in 12 ms\n"), 100)},
		"base64":  {Seq: 1234567, Time: at, Data: append([]byte{0xff}, plain...)},
		"json":    {Seq: 1234567, Time: at, Format: reprise.FormatJSON, Data: []byte(`{"a":[1,2,3],"b":"text"}`)},
	} {
		b.Run(name, func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = e.AppendJSON(buf[:0])
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}

// BenchmarkReadNearTail takes the last 10 events, of 100 and of 1,000,000.
func BenchmarkReadNearTail(b *testing.B) {
	for _, kept := range []int{100, 1_000_000} {
		for _, tail := range []string{"hot", "cold"} {
			b.Run(fmt.Sprintf("kept=%d/%s", kept, tail), func(b *testing.B) {
				store := memory(b)
				log := openLog(b, store, nil)
				s := create(b, log, "s", many)
				if kept < 1000 {
					add(b, s, payload(kept)...)
				}
				fill(b, s, kept)
				if tail == "cold" {
					check(b, log.Close())
					log = openLog(b, store, nil)
					var err error
					s, err = log.Stream(b.Context(), named("s"))
					check(b, err)
				}
				at := reprise.After(s.Cursor(uint64(kept - 10)))
				r := openReader(b, s, reprise.Tail())
				b.ReportAllocs()
				for b.Loop() {
					check(b, r.Seek(at))
					run, err := r.Poll(b.Context())
					if err != nil || run.Len() != 10 {
						b.Fatalf("%d events, %v", run.Len(), err)
					}
				}
			})
		}
	}
}

// BenchmarkReplay reads 100,000 events from the store, and what it costs to put them on the wire.
func BenchmarkReplay(b *testing.B) {
	const count = 100_000
	log := openLog(b, memory(b), &reprise.Options{TailBytes: 1})
	s := create(b, log, "s", many)
	fill(b, s, count)
	for name, form := range map[string]reprise.Encoder{"read": nil, "encode": jsonLines{}} {
		b.Run(name, func(b *testing.B) {
			r := openReader(b, s, reprise.Tail())
			b.ReportAllocs()
			for b.Loop() {
				check(b, r.Seek(reprise.Earliest()))
				for left := count; left > 0; {
					run, err := r.Poll(b.Context())
					check(b, err)
					left -= run.Len()
					if form != nil {
						_ = run.Encoded(form)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/event")
		})
	}
}

// BenchmarkKeptLines reports what a job takes that prints short lines, one an append, in memory and on disk: with the
// bound of 10,000 events that was the default once, and with the default.
func BenchmarkKeptLines(b *testing.B) {
	for _, lines := range []int{12_000, 100_000, 1_000_000} {
		for _, most := range []int64{10_000, reprise.DefaultRetention.MaxEvents} {
			b.Run(fmt.Sprintf("lines=%d/events=%d/store=memory", lines, most), func(b *testing.B) {
				keepLines(b, memstore.New(nil), "", lines, most)
			})
			b.Run(fmt.Sprintf("lines=%d/events=%d/store=sqlite", lines, most), func(b *testing.B) {
				dir := b.TempDir()
				store, err := sqlitestore.Open(b.Context(), filepath.Join(dir, "reprise.db"), nil)
				check(b, err)
				keepLines(b, store, dir, lines, most)
			})
		}
	}
}

// keepLines appends the lines once, whatever the number of iterations is: see -benchtime 1x.
func keepLines(b *testing.B, store reprise.Store, dir string, lines int, most int64) {
	before := heapInUse()
	log, err := reprise.Open(b.Context(), store, nil)
	check(b, err)
	s := create(b, log, "s", reprise.Retention{MaxEvents: most})
	var all sync.WaitGroup
	for from := range 8 { // appends at the same time share a commit
		all.Go(func() {
			for i := from; i < lines; i += 8 {
				line := reprise.Event{Type: "stdout", Data: fmt.Appendf(nil, "line %d of a job\n", i)}
				_, err := s.Append(b.Context(), line)
				check(b, err)
			}
		})
	}
	all.Wait()
	state := info(b, s)
	b.ReportMetric(float64(state.Kept()), "kept")
	b.ReportMetric(float64(heapInUse()-before)/(1<<20), "heap-MiB")
	check(b, log.Close())
	check(b, store.Close())
	var size int64
	files, _ := filepath.Glob(filepath.Join(dir, "reprise.db*"))
	for _, file := range files {
		if stat, err := os.Stat(file); err == nil {
			size += stat.Size()
		}
	}
	b.ReportMetric(float64(size)/(1<<20), "file-MiB")
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// jsonLines encodes events as lines of JSON.
type jsonLines struct{}

func (jsonLines) AppendEvent(dst []byte, e *reprise.Event, _ string) []byte {
	return append(e.AppendJSON(dst), '\n')
}
