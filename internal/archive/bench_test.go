package archive_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"reprise"
	"reprise/internal/archive"
)

// lines is a stream of n events like the output of a compiler, ten in a batch.
func lines(tb testing.TB, n int) (reprise.StreamInfo, []reprise.Batch) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var batches []reprise.Batch
	for first := 1; first <= n; first += 10 {
		b := reprise.Batch{First: uint64(first), Count: 10}
		for range b.Count {
			var err error
			b.Bytes, err = reprise.AppendRecord(b.Bytes, &reprise.Event{Type: "stdout", Data: fmt.Appendf(nil,
				"gcc -O2 -g -Wall -c -o build/obj/%08x.o -Iinclude -Isrc/lib%d src/lib%d/file_%d.c\n", rnd.Uint32(),
				rnd.IntN(20), rnd.IntN(20), rnd.IntN(1000))})
			check(tb, err)
		}
		batches = append(batches, b)
	}
	return ended("bench", 1, batches...), batches
}

// BenchmarkWrite writes a stream of 100,000 events to nowhere.
func BenchmarkWrite(b *testing.B) {
	info, batches := lines(b, 100_000)
	var file bytes.Buffer
	check(b, archive.Write(&file, info, all(batches)))
	raw := 0
	for i := range batches {
		raw += len(batches[i].Bytes)
	}
	b.SetBytes(int64(raw))
	for b.Loop() {
		check(b, archive.Write(io.Discard, info, all(batches)))
	}
	b.ReportMetric(float64(raw)/float64(file.Len()), "times-smaller")
}

// BenchmarkRead reads one event in the middle of a stream, as one who reads page by page does.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) {
			info, batches := lines(b, n)
			store := newStore(b)
			check(b, store.Put(b.Context(), info, all(batches)))
			for b.Loop() {
				page, err := store.Read(b.Context(), info.Key, uint64(n/2), 1)
				if err != nil || len(page.Batches) != 1 {
					b.Fatal(len(page.Batches), err)
				}
			}
		})
	}
}
