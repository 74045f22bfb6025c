package main

import (
	"log/slog"
	"os"

	"reprise/internal/metrics"
	"reprise/internal/otlp"
)

// tracerFlags say where traces are sent.
type tracerFlags struct {
	OTLPEndpoint string `name:"otlp-endpoint" placeholder:"URL" help:"Collector of OpenTelemetry that traces are sent to, over OTLP on HTTP, for example http://127.0.0.1:4318. Default: OTEL_EXPORTER_OTLP_ENDPOINT, or nowhere."`
}

// openTracer returns what sends traces, nil where nothing is to be sent.
func (c *tracerFlags) openTracer(r *metrics.Registry, logger *slog.Logger) (*otlp.Tracer, error) {
	sent := r.Counter("reprise_spans_sent_total", "Spans that a collector has taken.")
	dropped := r.Counter("reprise_spans_dropped_total",
		"Spans that were dropped, because the collector did not take them or did not keep up.")
	opts, err := otlp.FromEnvironment(os.Getenv, c.OTLPEndpoint)
	if err != nil {
		return nil, usage("--otlp-endpoint: %w", err)
	}
	if opts == nil {
		return nil, nil
	}
	opts.Resource = append(opts.Resource, otlp.Attribute{Name: "service.version", Value: buildVersion()})
	opts.Sent = func(spans int) { sent.Add(float64(spans)) }
	opts.Dropped = func(spans int) { dropped.Add(float64(spans)) }
	opts.Logger = logger
	tracer, err := otlp.New(opts)
	if err != nil {
		return nil, usage("--otlp-endpoint: %w", err)
	}
	return tracer, nil
}
