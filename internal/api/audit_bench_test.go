package api_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise/store/sqlitestore"
)

// BenchmarkAudit sends requests over HTTP into SQLite, in turns to a server without the audit log and to one with it,
// and reports the median time of each, and how much longer the second takes.
func BenchmarkAudit(b *testing.B) {
	for _, of := range []struct {
		name               string
		method, path, body string
		atOnce             int
	}{
		{"read", "GET", "/v1/streams/s", "", 1},
		{"publish", "POST", "/v1/streams/s/events", "an event", 1},
		{"publish", "POST", "/v1/streams/s/events", "an event", 16},
		{"start", "POST", "/v1/executions", `{"argv":["true"]}`, 1},
	} {
		b.Run("request="+of.name+"/at_once="+[]string{"1", "16"}[min(of.atOnce-1, 1)], func(b *testing.B) {
			servers := [2]*fixture{auditedBy(b, false), auditedBy(b, true)}
			var took [2][]time.Duration
			for b.Loop() {
				for i, w := range servers {
					took[i] = append(took[i], timeRequests(b, w, of.method, of.path, of.body, of.atOnce)...)
				}
			}
			var medians [2]float64
			for i := range took {
				slices.Sort(took[i])
				medians[i] = float64(took[i][len(took[i])/2].Microseconds())
			}
			b.ReportMetric(medians[0], "µs/off")
			b.ReportMetric(medians[1], "µs/on")
			b.ReportMetric(medians[1]-medians[0], "µs/more")
		})
	}
}

// auditedBy returns a server over SQLite with a stream.
func auditedBy(b *testing.B, audit bool) *fixture {
	store, err := sqlitestore.Open(b.Context(), b.TempDir()+"/events.db", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	w := start(b, setup{store: store, audit: audit})
	w.do("PUT", "/v1/streams/s", `{}`).is(201)
	return w
}

// timeRequests sends the same request several times at once, and returns how long each took.
func timeRequests(b *testing.B, w *fixture, method, path, body string, atOnce int) []time.Duration {
	took := make([]time.Duration, atOnce)
	var all sync.WaitGroup
	for i := range took {
		all.Go(func() {
			begun := time.Now()
			r, err := http.NewRequestWithContext(b.Context(), method, w.url+path, strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+token)
			if strings.HasPrefix(body, "{") {
				r.Header.Set("Content-Type", "application/json")
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			if err := res.Body.Close(); err != nil || res.StatusCode >= 300 {
				b.Error(res.Status, err)
			}
			took[i] = time.Since(begun)
		})
	}
	all.Wait()
	return took
}
