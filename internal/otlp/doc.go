// Package otlp sends traces to a collector over OTLP 1 on HTTP, in its JSON form.
//
//	tracer, err := otlp.New(&otlp.Options{Endpoint: "http://127.0.0.1:4318"})
//	span := tracer.Begin("GET /v1/streams", otlp.Server, otlp.ParentOf(header), began)
//	span.End(attributes...)
//
// A nil *Tracer and a nil *Span do nothing, so tracing that is off costs a comparison. A span whose parent was not
// sampled is not sampled; one without a parent is sampled by Options.Ratio. What is sampled is queued, and sent in
// batches by one goroutine; where the collector does not keep up, spans are dropped and counted, and nobody waits.
//
// It is written by hand because the SDK of OpenTelemetry takes longer to build than all of Reprise; see
// docs/decisions/0018-spans-without-the-sdk.md.
package otlp
