package otlp_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/otlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// span is a span as the collector reads it.
type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	StartTimeUnixNano, EndTimeUnixNano  string
	Status                              struct {
		Code    int
		Message string
	}
	Attributes []struct {
		Key   string
		Value map[string]any
	}
}

// collector is a real server that keeps what comes.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []span
	bodies int
	header http.Header
	answer func(n int) int
}

func newCollector(t *testing.T, answer func(n int) int) *collector {
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var batch struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bodies++
		status := http.StatusOK
		if c.answer != nil {
			status = c.answer(c.bodies)
		}
		if json.Unmarshal(text, &batch) != nil || r.URL.Path != "/v1/traces" {
			status = http.StatusBadRequest
		}
		w.WriteHeader(status)
		if status != http.StatusOK {
			return
		}
		c.header = r.Header
		c.spans = append(c.spans, batch.ResourceSpans[0].ScopeSpans[0].Spans...)
	}))
	t.Cleanup(c.Close)
	return c
}

// A closed Tracer has sent all that ended before, below its parent, and a collector that is busy for a moment loses
// nothing.
func TestSpansAreSent(t *testing.T) {
	c := newCollector(t, func(n int) int {
		if n == 1 {
			return 503
		}
		return 200
	})
	sent := 0
	tracer, err := otlp.NewTracer(&otlp.TracerOptions{
		Target: otlp.Target{
			URL: c.URL + "/v1/traces", Headers: map[string]string{"Api-Key": "k"},
			Resource: []otlp.Attribute{{Name: "service.name", Value: "reprise"}},
		},
		Ratio: 1, Sent: func(n int) { sent += n },
	})
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	root := tracer.Begin("root", otlp.Server, otlp.ParentOf(header), time.Unix(1, 5))
	child := root.Child("child", otlp.Internal, time.Unix(2, 0))
	child.Fail("not_found")
	child.End(time.Unix(3, 0))
	parent := root.TraceParent()
	root.Rename("GET /")
	root.End(time.Unix(4, 0), otlp.Attribute{Name: "n", Value: int64(7)},
		otlp.Attribute{Name: "s", Value: "x"}, otlp.Attribute{Name: "b", Value: true})
	tracer.Close()
	tracer.Close()
	if len(c.spans) != 2 || sent != 2 || c.header.Get("Api-Key") != "k" ||
		c.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d sent: %+v %v", sent, c.spans, c.header)
	}
	below, top := c.spans[0], c.spans[1]
	if top.TraceID != "0af7651916cd43dd8448eb211c80319c" ||
		top.ParentSpanID != "b7ad6b7169203331" || top.Name != "GET /" ||
		top.Kind != 2 || top.StartTimeUnixNano != "1000000005" || top.EndTimeUnixNano != "4000000000" ||
		top.Status.Code != 0 || len(top.Attributes) != 3 || top.Attributes[0].Value["intValue"] != "7" {
		t.Errorf("top: %+v", top)
	}
	if below.TraceID != top.TraceID || below.ParentSpanID != top.SpanID || below.Status.Code != 2 ||
		below.Status.Message != "not_found" || parent != "00-"+top.TraceID+"-"+top.SpanID+"-01" {
		t.Errorf("below: %+v, %s", below, parent)
	}
}

// Nothing is sampled below a parent that was not, or beyond the ratio; and what is off does nothing.
func TestSpansThatAreNotSampled(t *testing.T) {
	c := newCollector(t, nil)
	tracer, err := otlp.NewTracer(&otlp.TracerOptions{Target: otlp.Target{URL: c.URL + "/v1/traces"}})
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close()
	unsampled := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}}
	var off *otlp.Tracer
	for _, s := range []*otlp.Span{
		tracer.Begin("x", otlp.Server, otlp.ParentOf(unsampled), time.Now()),
		tracer.Begin("x", otlp.Server, otlp.Parent{}, time.Now()), // the ratio is 0
		off.Begin("x", otlp.Server, otlp.Parent{}, time.Now()),
	} {
		if s != nil || s.TraceParent() != "" || s.Child("y", otlp.Internal, time.Now()) != nil {
			t.Errorf("sampled: %+v", s)
		}
		s.Fail("x")
		s.End(time.Now())
	}
	off.Close()
}

// A collector that refuses costs the spans, which are counted, and nobody's time.
func TestSpansAreDropped(t *testing.T) {
	c := newCollector(t, func(int) int { return 400 })
	dropped := 0
	tracer, err := otlp.NewTracer(&otlp.TracerOptions{
		Target: otlp.Target{URL: c.URL + "/v1/traces"}, Ratio: 1, Dropped: func(n int) { dropped += n },
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		tracer.Begin("x", otlp.Server, otlp.Parent{}, time.Now()).End(time.Now())
	}
	tracer.Close()
	if dropped != 3 {
		t.Errorf("%d dropped", dropped)
	}
	_, err = otlp.NewTracer(&otlp.TracerOptions{Target: otlp.Target{URL: "collector:4318"}})
	if !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("no URL: %v", err)
	}
}

func TestVariablesOfOpenTelemetry(t *testing.T) {
	read := func(env map[string]string, endpoint string) (*otlp.TracerOptions, error) {
		return otlp.Environment(func(name string) string { return env[name] }).Tracer(endpoint)
	}
	if o, err := read(nil, ""); o != nil || err != nil {
		t.Errorf("nothing set: %+v, %v", o, err)
	}
	env := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/", "OTEL_EXPORTER_OTLP_HEADERS": "a=b%20c, d=e",
		"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25",
		"OTEL_SERVICE_NAME": "ci", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other",
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m/own", "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "f=g",
		"OTEL_METRIC_EXPORT_INTERVAL": "1500",
	}
	o, err := read(env, "")
	if err != nil || o.URL != "http://c:4318/v1/traces" || o.Headers["a"] != "b c" || o.Headers["d"] != "e" ||
		o.Ratio != 0.25 || !slices.Equal(o.Resource, []otlp.Attribute{{Name: "service.name", Value: "ci"}}) {
		t.Errorf("%+v, %v", o, err)
	}
	m, err := otlp.Environment(func(name string) string { return env[name] }).Meter("")
	if err != nil || m.URL != "http://m/own" || m.Headers["f"] != "g" || m.Every != 1500*time.Millisecond {
		t.Errorf("metrics: %+v, %v", m, err)
	}
	for _, env := range []map[string]string{{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}} {
		if o, err := read(env, "http://c"); o != nil || err != nil {
			t.Errorf("%v: %+v, %v", env, o, err)
		}
	}
	for _, env := range []map[string]string{
		{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
		{"OTEL_EXPORTER_OTLP_HEADERS": "nothing"},
		{"OTEL_TRACES_SAMPLER": "mine"},
		{"OTEL_TRACES_SAMPLER_ARG": "2", "OTEL_TRACES_SAMPLER": "traceidratio"},
		{"OTEL_RESOURCE_ATTRIBUTES": "=x"},
	} {
		if _, err := read(env, "http://c"); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%v: %v", env, err)
		}
	}
	env["OTEL_METRIC_EXPORT_INTERVAL"] = "0"
	_, err = otlp.Environment(func(name string) string { return env[name] }).Meter("")
	if !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("an interval of nothing: %v", err)
	}
}
