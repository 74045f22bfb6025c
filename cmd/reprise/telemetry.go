package main

import (
	"log/slog"
	"os"

	"reprise/internal/metrics"
	"reprise/internal/otlp"
)

// telemetryFlags name the collectors of traces and metrics.
type telemetryFlags struct {
	OTLPEndpoint string `name:"otlp-endpoint" placeholder:"URL" help:"OpenTelemetry collector for traces and metrics, over OTLP on HTTP, for example http://127.0.0.1:4318. Default: OTEL_EXPORTER_OTLP_ENDPOINT, or none."`
}

// telemetry sends traces and metrics to a collector. A field is nil if its signal is not sent.
type telemetry struct {
	tracer *otlp.Tracer
	meter  *otlp.Meter
}

// openTelemetry starts to send the signals that the flags and the environment select.
func (c *telemetryFlags) openTelemetry(r *metrics.Registry, logger *slog.Logger) (t telemetry, err error) {
	if t.tracer, err = c.openTracer(r, logger); err == nil {
		t.meter, err = c.openMeter(r, logger)
	}
	if err != nil {
		t.tracer.Close()
		return telemetry{}, usage("--otlp-endpoint: %w", err)
	}
	return t, nil
}

func (c *telemetryFlags) openTracer(r *metrics.Registry, logger *slog.Logger) (*otlp.Tracer, error) {
	sent := r.Counter("reprise_spans_sent_total", "Spans that a collector has taken.")
	dropped := r.Counter("reprise_spans_dropped_total",
		"Spans that were dropped, because the collector did not take them or did not keep up.")
	opts, err := otlp.Environment(os.Getenv).Tracer(c.OTLPEndpoint)
	if opts == nil || err != nil {
		return nil, err
	}
	describe(&opts.Target, logger)
	opts.Sent = func(spans int) { sent.Add(float64(spans)) }
	opts.Dropped = func(spans int) { dropped.Add(float64(spans)) }
	return otlp.NewTracer(opts)
}

func (c *telemetryFlags) openMeter(r *metrics.Registry, logger *slog.Logger) (*otlp.Meter, error) {
	opts, err := otlp.Environment(os.Getenv).Meter(c.OTLPEndpoint)
	if opts == nil || err != nil {
		return nil, err
	}
	describe(&opts.Target, logger)
	opts.Registry = r
	return otlp.NewMeter(opts)
}

// describe adds attributes of this process to a target.
func describe(target *otlp.Target, logger *slog.Logger) {
	target.Logger = logger
	target.Resource = append(target.Resource, otlp.Attribute{Name: "service.version", Value: buildVersion()})
}
