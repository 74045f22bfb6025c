// Package otlp sends traces and metrics to a collector over OTLP 1 on HTTP, in its JSON form.
//
//	tracer, err := otlp.NewTracer(&otlp.TracerOptions{Target: otlp.Target{URL: "http://127.0.0.1:4318/v1/traces"}})
//	span := tracer.Begin("GET /v1/streams", otlp.Server, otlp.ParentOf(header), began)
//	span.End(attributes...)
//
// A nil *Tracer and a nil *Span do nothing, so tracing that is off costs a comparison. A span whose parent was not
// sampled is not sampled; one without a parent is sampled by TracerOptions.Ratio. What is sampled is queued, and sent
// in batches by one goroutine; where the collector does not keep up, spans are dropped and counted, and nobody waits.
//
// A [Meter] sends what a [metrics.Registry] holds once a minute, as sums since the start.
//
// It is written by hand because the SDK of OpenTelemetry takes longer to build than all of Reprise; see
// docs/decisions/0018-spans-without-the-sdk.md.
package otlp
