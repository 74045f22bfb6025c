package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/otlp"
	"reprise/store/sqlitestore"
)

// BenchmarkTracedPublish publishes requests of 100 events over HTTP into SQLite, with and without traces, which go to a
// collector in this process.
func BenchmarkTracedPublish(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer collector.Close()
	for _, traced := range []bool{false, true} {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("traced=%t/writers=%d", traced, writers), func(b *testing.B) {
				store, err := sqlitestore.Open(b.Context(), b.TempDir()+"/events.db", nil)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = store.Close() })
				s := setup{store: store}
				if traced {
					tracer, err := otlp.NewTracer(&otlp.TracerOptions{Target: otlp.Target{URL: collector.URL}, Ratio: 1})
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(tracer.Close)
					s.api = api.Options{Tracer: tracer}
				}
				s.log.Retention = reprise.Retention{MaxEvents: 1 << 40, MaxBytes: 1 << 40}
				w := start(b, s)
				w.do("PUT", "/v1/streams/s", `{}`).is(201)
				body := strings.Repeat(`{"data":{"text":"`+strings.Repeat("x", 180)+`"}}`+"\n", 100)
				b.SetParallelism(writers)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						r, err := http.NewRequest("POST", w.url+"/v1/streams/s/events", strings.NewReader(body))
						if err != nil {
							b.Error(err)
							return
						}
						r.Header.Set("Authorization", "Bearer "+token)
						r.Header.Set("Content-Type", "application/x-ndjson")
						res, err := http.DefaultClient.Do(r)
						if err != nil {
							b.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, res.Body)
						if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
							b.Error(res.Status)
						}
					}
				})
				b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
