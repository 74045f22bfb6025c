package node

import (
	"time"

	"reprise/internal/gateway"
	"reprise/internal/metrics"
)

// gatewayMetrics count what goes to upstreams.
type gatewayMetrics struct {
	connections *metrics.Vec[metrics.Gauge]
	ended       *metrics.Vec[metrics.Counter]
	calls       *metrics.Vec[metrics.Counter]
	seconds     *metrics.Vec[metrics.Histogram]
	garbage     *metrics.Vec[metrics.Counter]
}

func newGatewayMetrics(r *metrics.Registry) *gatewayMetrics {
	return &gatewayMetrics{
		connections: r.Gauges("reprise_gateway_connections", "Connections to upstreams that are open.", "upstream"),
		ended: r.Counters("reprise_gateway_connections_ended_total",
			"Connections that have ended, by whether the gateway was running.", "lost", "upstream"),
		calls: r.Counters("reprise_gateway_calls_total", "Requests of clients, by what came of them.",
			"result", "upstream"),
		seconds: r.Histograms("reprise_gateway_call_seconds", "How long upstreams took to answer.",
			metrics.Exponential(1e-3, 4, 12), "upstream"),
		garbage: r.Counters("reprise_gateway_garbage_total", "Lines and answers of upstreams that were no messages.",
			"upstream"),
	}
}

func (m *gatewayMetrics) hooks() *gateway.Hooks {
	return &gateway.Hooks{
		Connected: func(upstream string) { m.connections.With(upstream).Inc() },
		Disconnected: func(upstream string, lost bool) {
			m.connections.With(upstream).Dec()
			how := "no"
			if lost {
				how = "yes"
			}
			m.ended.With(how, upstream).Inc()
		},
		Called: func(upstream string, result gateway.CallResult, took time.Duration) {
			m.calls.With(string(result), upstream).Inc()
			m.seconds.With(upstream).Observe(took.Seconds())
		},
		Garbage: func(upstream string) { m.garbage.With(upstream).Inc() },
	}
}
