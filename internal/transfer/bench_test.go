package transfer_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"reprise"
	"reprise/internal/transfer"
	"reprise/store/sqlitestore"
)

// BenchmarkCopy copies 20,000 batches of ten events of 100 bytes from memory into a file, which is
// synced at the end as "reprise store copy" does, and compares them: as one stream, and as many.
func BenchmarkCopy(b *testing.B) {
	const batches = 20_000
	for _, streams := range []int{1, 2_000} {
		b.Run(fmt.Sprintf("store=sqlite/streams=%d/batches=%d/batch=10/size=100", streams, batches),
			func(b *testing.B) {
				from := memory(b)
				record, err := reprise.AppendRecord(nil, &reprise.Event{Data: bytes.Repeat([]byte("x"), 100)})
				check(b, err)
				data := bytes.Repeat(record, 10)
				for i := range streams {
					info, err := from.Create(b.Context(),
						reprise.StreamInfo{Key: key(fmt.Sprint("s", i)), Epoch: reprise.NewEpoch()})
					check(b, err)
					for n := range batches / streams {
						req := reprise.AppendRequest{
							Key: info.Key, Epoch: info.Epoch, First: uint64(10*n + 1), Count: 10, Bytes: data,
							Earliest: 1,
							Kept:     int64((n + 1) * len(data)),
						}
						if errs := from.Append(b.Context(), []reprise.AppendRequest{req}); errs != nil {
							b.Fatal(errs)
						}
					}
				}
				for b.Loop() {
					to, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "to.db"),
						&sqlitestore.Options{Sync: sqlitestore.SyncNormal})
					check(b, err)
					_, err = transfer.Copy(b.Context(), from, to, nil)
					check(b, err)
					check(b, to.Close())
				}
				b.ReportMetric(float64(batches*10*b.N)/b.Elapsed().Seconds(), "events/s")
			})
	}
}
