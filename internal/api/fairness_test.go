package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/store/sqlitestore"
)

// BenchmarkPublishOfTenants lets 50 tenants publish over HTTP with 20 writers each, into SQLite, while the first of
// them does more. It reports the fairness index of what tenants have got (of the others alone, where the first has more
// writers), and how often each of the others could publish in a second.
func BenchmarkPublishOfTenants(b *testing.B) {
	for _, flood := range []struct {
		name           string
		writers, bytes int
		compared       int
	}{
		{"none", 20, 200, 0},
		{"large", 20, 100 << 10, 0},
		{"writers", 500, 200, 1},
	} {
		b.Run("flood="+flood.name, func(b *testing.B) {
			const tenants, writers = 50, 20
			store, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "reprise.db"), nil)
			if err != nil {
				b.Fatal(err)
			}
			w := start(b, setup{store: store, log: reprise.Options{Retention: reprise.Retention{MaxBytes: 1 << 20}}})
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}
			b.Cleanup(client.CloseIdleConnections)
			keys := make([]string, tenants)
			for i := range keys {
				tenant := reprise.Tenant(fmt.Sprint("tenant-", i))
				_, keys[i] = w.key(tenant, "publish")
				stream := reprise.StreamKey{Tenant: tenant, Name: "s"}
				_, _, err := w.log.Create(b.Context(), stream, reprise.StreamConfig{})
				w.ok(err)
			}
			b.ResetTimer()
			var got []int64
			for b.Loop() {
				got = publishForAWhile(b, w, client, keys, flood.writers, flood.bytes, writers)
			}
			var sum, squares, others float64
			for i, n := range got[flood.compared:] {
				sum += float64(n)
				squares += float64(n) * float64(n)
				if i+flood.compared > 0 {
					others += float64(n)
				}
			}
			b.ReportMetric(sum*sum/(float64(tenants-flood.compared)*squares), "jain")
			b.ReportMetric(others/(tenants-1)/publishTime.Seconds(), "publishes/s/other")
			b.ReportMetric(float64(got[0])/publishTime.Seconds(), "publishes/s/first")
		})
	}
}

const publishTime = 5 * time.Second

// publishForAWhile returns how often each tenant could publish.
func publishForAWhile(
	b *testing.B, w *fixture, client *http.Client, keys []string, floodWriters, floodBytes, writers int,
) []int64 {
	ctx, stop := context.WithTimeout(b.Context(), publishTime)
	defer stop()
	counts := make([]atomic.Int64, len(keys))
	var all sync.WaitGroup
	for i, key := range keys {
		n, size := writers, 200
		if i == 0 {
			n, size = floodWriters, floodBytes
		}
		body := bytes.Repeat([]byte("x"), size)
		for range n {
			all.Go(func() {
				for ctx.Err() == nil {
					if publishAs(ctx, client, key, w.url+"/v1/streams/s/events", body) {
						counts[i].Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	got := make([]int64, len(keys))
	for i := range counts {
		got[i] = counts[i].Load()
	}
	return got
}

func publishAs(ctx context.Context, client *http.Client, key, url string, body []byte) (kept bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err == nil && res.StatusCode == http.StatusOK
}
