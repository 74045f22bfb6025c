package sqlitestore_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"reprise"
	"reprise/store/storetest"
)

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, open, nil) }

// BenchmarkCommit is one commit of n streams with an event each, and of one stream with a
// large batch.
func BenchmarkCommit(b *testing.B) {
	for _, streams := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("size=200/streams=%d", streams), func(b *testing.B) { benchmarkCommit(b, streams, 216) })
	}
	b.Run("size=1MiB/streams=1", func(b *testing.B) { benchmarkCommit(b, 1, 1<<20) })
}

func benchmarkCommit(b *testing.B, streams, size int) {
	s := mustOpen(b, filepath.Join(b.TempDir(), "events.db"), nil)
	infos := make([]reprise.StreamInfo, streams)
	for i := range infos {
		infos[i] = create(b, s, fmt.Sprint("s", i))
	}
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7)
	}
	reqs := make([]reprise.AppendRequest, streams)
	b.SetBytes(int64(streams * size))
	b.ReportAllocs()
	for b.Loop() {
		for i := range reqs {
			reqs[i] = one(&infos[i], data)
		}
		if errs := s.Append(b.Context(), reqs); errs != nil {
			b.Fatal(errs)
		}
	}
}
