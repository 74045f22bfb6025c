package logstore_test

import (
	"os"
	"path/filepath"
	"testing"

	"reprise"
	"reprise/store/logstore"
	"reprise/store/storetest"
)

// opener makes places in temporary directories. A crash leaves what the files hold at that moment.
func opener(opts *logstore.Options) storetest.Opener {
	return func(tb testing.TB) storetest.Harness {
		dir := tb.TempDir()
		generation := 0
		path := func() string { return filepath.Join(dir, string(rune('a'+generation))) }
		return storetest.Harness{
			Persistent: true,
			Open:       func() (reprise.Store, error) { return logstore.Open(tb.Context(), path(), opts) },
			Crash: func(reprise.Store) error {
				from := path()
				generation++
				return os.CopyFS(path(), os.DirFS(from))
			},
		}
	}
}

func TestStoreKeepsContract(t *testing.T) {
	storetest.Run(t, opener(nil), &storetest.Options{Streams: suiteStreams, Events: suiteEvents})
}

// TestSmallSegments has the log begin segments, make snapshots and copy batches all the time.
func TestSmallSegments(t *testing.T) {
	storetest.Run(t, opener(&logstore.Options{SegmentBytes: 1}), &storetest.Options{Streams: 500, Events: 10_000})
}

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, opener(nil), nil) }
