package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise/internal/api"
	"reprise/internal/otlp"
)

// tracedSpan is a span as a collector gets it.
type tracedSpan struct{ TraceID, SpanID, ParentSpanID, Name string }

// A request, its append, its execution and the command are one trace, below that of the client.
func TestRequestsAreTraced(t *testing.T) {
	var mu sync.Mutex
	spans := map[string]tracedSpan{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var batch struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []tracedSpan }
			}
		}
		err := json.NewDecoder(r.Body).Decode(&batch)
		mu.Lock()
		defer mu.Unlock()
		for _, span := range batch.ResourceSpans[0].ScopeSpans[0].Spans {
			spans[span.Name] = span
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer collector.Close()
	tracer, err := otlp.NewTracer(&otlp.TracerOptions{
		Target: otlp.Target{URL: collector.URL}, Ratio: 1, Every: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close()
	w := start(t, setup{api: api.Options{Tracer: tracer}})
	const trace = "0af7651916cd43dd8448eb211c80319c"
	client := "Traceparent: 00-" + trace + "-b7ad6b7169203331-01"
	w.do("PUT", "/v1/streams/numbers", `{}`, client).is(201)
	w.do("POST", "/v1/streams/numbers/events", `{"data":1}`, client).is(200)
	id := w.do("POST", "/v1/executions", `{"command":"echo $TRACEPARENT"}`, client).is(201).text("id")
	out := strings.TrimSpace(w.do("GET", "/v1/executions/"+id+"/stdout?follow=true", "").is(200).body)
	w.do("GET", "/v1/sessions", "", "Traceparent: 00-"+trace+"-b7ad6b7169203331-00").is(200) // not sampled
	const publish, started = "POST /v1/streams/{name}/events", "POST /v1/executions"
	w.eventually("all spans have come", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return spans["append"].SpanID != "" && spans["store append"].SpanID != "" && spans["commit"].SpanID != "" &&
			spans["execution"].SpanID != "" && spans[publish].SpanID != "" &&
			spans[started].SpanID != ""
	})
	mu.Lock()
	defer mu.Unlock()
	for name, parent := range map[string]string{
		publish: "b7ad6b7169203331", started: "b7ad6b7169203331",
		"append": spans[publish].SpanID, "commit": spans["append"].SpanID, "store append": spans["commit"].SpanID,
		"execution": spans[started].SpanID,
	} {
		if s := spans[name]; s.TraceID != trace || s.ParentSpanID != parent {
			t.Errorf("%s: %+v, want it below %s", name, s, parent)
		}
	}
	if want := "00-" + trace + "-" + spans["execution"].SpanID + "-01"; out != want {
		t.Errorf("the command has %q, want %q", out, want)
	}
	if s, traced := spans["GET /v1/sessions"]; traced {
		t.Errorf("not sampled and sent: %+v", s)
	}
}
