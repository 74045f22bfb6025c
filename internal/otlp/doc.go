// Package otlp sends traces and metrics to a collector over OTLP 1 on HTTP, in its JSON form.
//
//	tracer, err := otlp.NewTracer(&otlp.TracerOptions{Target: otlp.Target{URL: "http://127.0.0.1:4318/v1/traces"}})
//	span := tracer.Begin("GET /v1/streams", otlp.Server, otlp.ParentOf(header), began)
//	span.End(attributes...)
//
// A nil *Tracer and a nil *Span do nothing, so disabled tracing costs a comparison. A span whose parent was not sampled
// is not sampled. A span without a parent is sampled by TracerOptions.Ratio. Sampled spans are queued and sent in
// batches by one goroutine. If the collector is too slow, spans are dropped and counted, and no caller waits.
//
// A [Meter] sends the contents of a [metrics.Registry] once a minute, as sums since the start.
//
// The package does not use the SDK of OpenTelemetry, which takes longer to build than all of Reprise; see
// docs/internals/decisions/0018-spans-without-the-sdk.md.
package otlp
