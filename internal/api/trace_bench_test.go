package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/otlp"
	"reprise/store/sqlitestore"
)

// BenchmarkTracedPublish publishes requests of 100 events over HTTP into SQLite, in turns to a server without traces
// and to one that sends all of them to a collector in this process, and reports what the traces cost: the median of
// the ratios of all turns, so that a machine that is busy for a while does not decide.
func BenchmarkTracedPublish(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer collector.Close()
	tracer, err := otlp.NewTracer(&otlp.TracerOptions{Target: otlp.Target{URL: collector.URL}, Ratio: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer tracer.Close()
	plain, traced := publishedTo(b, nil), publishedTo(b, tracer)
	body := strings.Repeat(`{"data":{"text":"`+strings.Repeat("x", 180)+`"}}`+"\n", 100)
	servers := [2]*fixture{plain, traced}
	var total time.Duration
	var ratios []float64
	for b.Loop() {
		var took [2]time.Duration
		for turn := range 2 * len(servers) { // plain, traced, traced, plain: who comes first has no advantage
			i := (turn + turn/2) % 2
			begun := time.Now()
			for range 5 {
				publishBody(b, servers[i], body)
			}
			took[i] += time.Since(begun)
		}
		total += took[0]
		ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
	}
	slices.Sort(ratios)
	b.ReportMetric(float64(1000*b.N)/total.Seconds(), "events/s")
	b.ReportMetric(100*(ratios[len(ratios)/2]-1), "%more")
}

// publishedTo returns a server over SQLite with a stream.
func publishedTo(b *testing.B, tracer *otlp.Tracer) *fixture {
	store, err := sqlitestore.Open(b.Context(), b.TempDir()+"/events.db", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	s := setup{store: store, api: api.Options{Tracer: tracer}}
	s.log.Retention = reprise.Retention{MaxEvents: 1 << 40, MaxBytes: 1 << 40}
	w := start(b, s)
	w.do("PUT", "/v1/streams/s", `{}`).is(201)
	return w
}

// publishBody sends lines of JSON to the stream.
func publishBody(b *testing.B, w *fixture, body string) {
	to := w.url + "/v1/streams/s/events"
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/x-ndjson")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		b.Fatal(res.Status, err)
	}
}
