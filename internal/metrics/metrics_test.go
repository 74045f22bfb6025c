package metrics_test

import (
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise/internal/metrics"

	"github.com/google/go-cmp/cmp"
)

// TestPageHasTheTextFormat holds the whole page of one metric of each kind against the format's text
// (Prometheus, "Exposition formats", text-based format).
func TestPageHasTheTextFormat(t *testing.T) {
	r := metrics.NewRegistry()
	r.Counter("b_total", "A counter, with a \\ and\na line.").Add(2.5)
	v := r.Counters("c_total", "By two labels.", "path", "code")
	v.With("/z", "200").Inc()
	v.With("/a\"\\\n\xff", "404").Inc()
	v.With("/z", "200").Inc()
	g := r.Gauge("d", "A gauge.")
	g.Set(7)
	g.Inc()
	g.Add(-10)
	g.Dec()
	h := r.Histograms("a_seconds", "A histogram.", metrics.Exponential(0.5, 2, 2), "op")
	for _, value := range []float64{0.1, 0.5, 0.7, 1, 99} {
		h.With("read").Observe(value)
	}
	r.Counters("never_total", "No label value was used yet.", "why")
	r.Func(metrics.KindGauge, "e", "Measured.", []string{"of"}, func(emit func(float64, ...string)) {
		emit(1e21, "one")
		emit(0, "two")
	})

	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if got := w.Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("Content-Type: %s", got)
	}
	want := `# HELP a_seconds A histogram.
# TYPE a_seconds histogram
a_seconds_bucket{op="read",le="0.5"} 2
a_seconds_bucket{op="read",le="1"} 4
a_seconds_bucket{op="read",le="+Inf"} 5
a_seconds_sum{op="read"} 101.3
a_seconds_count{op="read"} 5
# HELP b_total A counter, with a \\ and\na line.
# TYPE b_total counter
b_total 2.5
# HELP c_total By two labels.
# TYPE c_total counter
c_total{path="/a\"\\\n` + "\uFFFD" + `",code="404"} 1
c_total{path="/z",code="200"} 2
# HELP d A gauge.
# TYPE d gauge
d -3
# HELP e Measured.
# TYPE e gauge
e{of="one"} 1e+21
e{of="two"} 0
# HELP never_total No label value was used yet.
# TYPE never_total counter
`
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Error(diff)
	}
}

func TestCountsOfManyGoroutinesAddUp(t *testing.T) {
	r := metrics.NewRegistry()
	counters, h := r.Counters("a_total", "A.", "x"), r.Histogram("b", "B.", []float64{1})
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 1000 {
				counters.With("y").Inc()
				h.Observe(0.5)
				_ = r.AppendText(nil)
			}
		})
	}
	running.Wait()
	page := string(r.AppendText(nil))
	for _, line := range []string{`a_total{x="y"} 8000`, `b_bucket{le="1"} 8000`, `b_sum 4000`, `b_count 8000`} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("%s is missing in\n%s", line, page)
		}
	}
}

func TestInvalidRegistrationPanics(t *testing.T) {
	for name, mistake := range map[string]func(*metrics.Registry){
		"invalid name":         func(r *metrics.Registry) { r.Counter("a b", "") },
		"invalid label":        func(r *metrics.Registry) { r.Counters("a", "", "b-c") },
		"five labels":          func(r *metrics.Registry) { r.Counters("a", "", "b", "c", "d", "e", "f") },
		"one value too few":    func(r *metrics.Registry) { r.Counters("a", "", "b").With() },
		"two kinds":            func(r *metrics.Registry) { r.Counter("a", "A."); r.Gauge("a", "A.") },
		"descending buckets":   func(r *metrics.Registry) { r.Histogram("a", "A.", []float64{2, 1}) },
		"a counter going down": func(r *metrics.Registry) { r.Counter("a", "A.").Add(-1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("did not panic")
				}
			}()
			mistake(metrics.NewRegistry())
		})
	}
}

// TestRuntimeIsShown: each value is there and plausible.
func TestRuntimeIsShown(t *testing.T) {
	r := metrics.NewRegistry()
	r.RegisterRuntime()
	spin := time.Now()
	for time.Since(spin) < 20*time.Millisecond { // so that there is processor time to be told
	}
	page := string(r.AppendText(nil))
	patterns := []string{
		`go_info\{version="go1\.[^"]+"\} 1`, `go_goroutines [1-9]\d*`, `go_threads [1-9]\d*`,
		`go_memstats_heap_alloc_bytes [1-9]\S*`, `go_memstats_sys_bytes [1-9]\S*`,
	}
	if runtime.GOOS != "windows" {
		patterns = append(patterns, `process_cpu_seconds_total 0\.\d*[1-9]\S*`, `process_max_fds [1-9]\S*`,
			`process_open_fds [1-9]\d*`)
	}
	if runtime.GOOS == "linux" {
		patterns = append(patterns, `process_resident_memory_bytes [1-9]\S*`, `process_virtual_memory_bytes [1-9]\S*`,
			`process_start_time_seconds 1\.\d+e\+09`)
	}
	for _, pattern := range patterns {
		if !regexp.MustCompile(`(?m)^` + pattern + `$`).MatchString(page) {
			t.Errorf("%s does not match a line of\n%s", pattern, page)
		}
	}
}

// TestOpenDescriptorsAreCounted: one more file is one more.
func TestOpenDescriptorsAreCounted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("not measured on Windows")
	}
	r := metrics.NewRegistry()
	r.RegisterRuntime()
	open := func() string {
		return regexp.MustCompile(`(?m)^process_open_fds (\d+)$`).FindStringSubmatch(string(r.AppendText(nil)))[1]
	}
	before := open()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if after := open(); after == before {
		t.Errorf("%s open descriptors before and after another one was opened", before)
	}
}

func BenchmarkCounterOfThreeLabels(b *testing.B) {
	v := metrics.NewRegistry().Counters("a_total", "A.", "path", "method", "status")
	b.ReportAllocs()
	for b.Loop() {
		v.With("/v1/streams/{name}/events", "GET", "200").Inc()
	}
}
