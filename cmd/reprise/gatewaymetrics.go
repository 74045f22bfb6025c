package main

import (
	"time"

	"reprise/internal/gateway"

	"github.com/prometheus/client_golang/prometheus"
)

// gatewayMetrics count what goes to upstreams.
type gatewayMetrics struct {
	connections *prometheus.GaugeVec
	ended       *prometheus.CounterVec
	calls       *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	garbage     *prometheus.CounterVec
}

func newGatewayMetrics(registry prometheus.Registerer) *gatewayMetrics {
	m := &gatewayMetrics{
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "reprise_gateway_connections", Help: "Connections to upstreams that are open.",
		}, []string{"upstream"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "reprise_gateway_connections_ended_total",
			Help: "Connections that have ended, by whether the gateway was running.",
		}, []string{"upstream", "lost"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "reprise_gateway_calls_total", Help: "Requests of clients, by what came of them.",
		}, []string{"upstream", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "reprise_gateway_call_seconds", Help: "How long upstreams took to answer.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 4, 12),
		}, []string{"upstream"}),
		garbage: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "reprise_gateway_garbage_total", Help: "Lines and answers of upstreams that were no messages.",
		}, []string{"upstream"}),
	}
	registry.MustRegister(m.connections, m.ended, m.calls, m.seconds, m.garbage)
	return m
}

func (m *gatewayMetrics) hooks() *gateway.Hooks {
	return &gateway.Hooks{
		Connected: func(upstream string) { m.connections.WithLabelValues(upstream).Inc() },
		Disconnected: func(upstream string, lost bool) {
			m.connections.WithLabelValues(upstream).Dec()
			how := "no"
			if lost {
				how = "yes"
			}
			m.ended.WithLabelValues(upstream, how).Inc()
		},
		Called: func(upstream string, result gateway.CallResult, took time.Duration) {
			m.calls.WithLabelValues(upstream, string(result)).Inc()
			m.seconds.WithLabelValues(upstream).Observe(took.Seconds())
		},
		Garbage: func(upstream string) { m.garbage.WithLabelValues(upstream).Inc() },
	}
}
