package otlp_test

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise/internal/metrics"
	"reprise/internal/otlp"
)

// bodies is a collector of metrics. What it gets while a body waits to be looked at is not kept.
func bodies(t *testing.T, answer int) (url string, got <-chan string) {
	waiting := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		select {
		case waiting <- string(text):
		default:
		}
		w.WriteHeader(answer)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1/metrics", waiting
}

// TestMetricsAreSent holds the whole message with one metric of each kind against the text of the protocol (OTLP 1,
// opentelemetry/proto/metrics/v1, in JSON).
func TestMetricsAreSent(t *testing.T) {
	url, got := bodies(t, http.StatusOK)
	r := metrics.NewRegistry()
	r.Counters("a_bytes_total", "A counter.", "path").With("/\xff").Add(2.5)
	r.Gauge("b", "A gauge.").Set(-3)
	r.Gauge("c", "Not a number.").Set(math.NaN())
	h := r.Histogram("d_seconds", "A histogram.", []float64{0.5, 1})
	for _, value := range []float64{0.1, 0.5, 0.7, 99} {
		h.Observe(value)
	}
	r.Counters("never_total", "No label value was used yet.", "why")
	meter, err := otlp.NewMeter(&otlp.MeterOptions{
		Target:   otlp.Target{URL: url, Resource: []otlp.Attribute{{Name: "service.name", Value: "reprise"}}},
		Registry: r,
	})
	if err != nil {
		t.Fatal(err)
	}
	meter.Close()
	meter.Close()
	text := regexp.MustCompile(`\d{19}`).ReplaceAllString(<-got, "0")
	want := `{"resourceMetrics":[{"resource":` +
		`{"attributes":[{"key":"service.name","value":{"stringValue":"reprise"}}]},` +
		`"scopeMetrics":[{"scope":{"name":"reprise"},"metrics":[` +
		`{"name":"a_bytes_total","description":"A counter.","unit":"By","sum":{"dataPoints":[{"attributes":` +
		`[{"key":"path","value":{"stringValue":"/�"}}],"startTimeUnixNano":"0","timeUnixNano":"0","asDouble":2.5}],` +
		`"aggregationTemporality":2,"isMonotonic":true}},` +
		`{"name":"b","description":"A gauge.","gauge":{"dataPoints":[{"timeUnixNano":"0","asDouble":-3}]}},` +
		`{"name":"d_seconds","description":"A histogram.","unit":"s","histogram":{"dataPoints":[` +
		`{"startTimeUnixNano":"0","timeUnixNano":"0",` +
		`"sum":100.3,"count":"4","bucketCounts":["2","1","1"],"explicitBounds":[0.5,1]}],"aggregationTemporality":2}}]}]}]}`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
	var off *otlp.Meter
	off.Close()
}

// What a collector has refused is in the sums of the next message, and a Meter goes on to send.
func TestMetricsAreSentAgainAndAgain(t *testing.T) {
	url, got := bodies(t, http.StatusBadRequest)
	r := metrics.NewRegistry()
	counter := r.Counter("a_total", "A counter.")
	meter, err := otlp.NewMeter(&otlp.MeterOptions{Target: otlp.Target{URL: url}, Registry: r, Every: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	counter.Add(41)
	for want := regexp.MustCompile(`"asDouble":41\b`); !want.MatchString(<-got); {
	}
	counter.Inc()
	for want := regexp.MustCompile(`"asDouble":42\b`); !want.MatchString(<-got); {
	}
}
