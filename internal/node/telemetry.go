package node

import (
	"context"
	"os"

	"reprise/internal/otlp"
)

// openTracer starts to send traces, if the flags and the environment select them.
func openTracer(_ context.Context, n *Node) error {
	r := n.metrics.Registry()
	sent := r.Counter("reprise_spans_sent_total", "Spans that a collector has taken.")
	dropped := r.Counter("reprise_spans_dropped_total",
		"Spans that were dropped, because the collector did not take them or did not keep up.")
	opts, err := otlp.Environment(os.Getenv).Tracer(n.OTLPEndpoint)
	if err == nil && opts != nil {
		n.describe(&opts.Target)
		opts.Sent = func(spans int) { sent.Add(float64(spans)) }
		opts.Dropped = func(spans int) { dropped.Add(float64(spans)) }
		n.tracer, err = otlp.NewTracer(opts)
	}
	if err != nil {
		return usage("--otlp-endpoint: %w", err)
	}
	n.onClose(func() error { n.tracer.Close(); return nil })
	return nil
}

// openMeter starts to send metrics. It is the last part, for it is closed while the others still have metrics.
func openMeter(_ context.Context, n *Node) error {
	opts, err := otlp.Environment(os.Getenv).Meter(n.OTLPEndpoint)
	if opts == nil && err == nil {
		return nil
	}
	var meter *otlp.Meter
	if err == nil {
		n.describe(&opts.Target)
		opts.Registry = n.metrics.Registry()
		meter, err = otlp.NewMeter(opts)
	}
	if err != nil {
		return usage("--otlp-endpoint: %w", err)
	}
	n.onClose(func() error { meter.Close(); return nil })
	return nil
}

// describe adds attributes of this process to a target.
func (n *Node) describe(target *otlp.Target) {
	target.Logger = n.Logger
	target.Resource = append(target.Resource, otlp.Attribute{Name: "service.version", Value: n.Version})
}
