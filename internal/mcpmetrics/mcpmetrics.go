// Package mcpmetrics counts what the MCP packages tell of themselves, for Prometheus.
package mcpmetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
)

// Metrics are the counters.
type Metrics struct {
	resumes        *prometheus.CounterVec
	replayed       prometheus.Counter
	takeovers      prometheus.Counter
	lostCalls      prometheus.Counter
	sessionsOpened prometheus.Counter
	sessionsEnded  *prometheus.CounterVec
	tasksCreated   prometheus.Counter
	tasksEnded     *prometheus.CounterVec
	tasksLost      prometheus.Counter
}

// New registers the counters.
func New(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		registry.MustRegister(v)
		return v
	}
	return &Metrics{
		resumes: vector("reprise_mcp_resumes_total", "Requests with a Last-Event-ID, by what came of them.",
			"result"),
		replayed: counter("reprise_mcp_replayed_events_total",
			"Events that were there to be replayed to those who resumed."),
		takeovers:      counter("reprise_mcp_takeovers_total", "Connections that were ended in favour of a newer one."),
		lostCalls:      counter("reprise_mcp_lost_calls_total", "Calls that were ended because their server had died."),
		sessionsOpened: counter("reprise_mcp_sessions_opened_total", "Sessions that were opened."),
		sessionsEnded: vector("reprise_mcp_sessions_ended_total", "Sessions that have ended, by the reason.",
			"reason"),
		tasksCreated: counter("reprise_mcp_tasks_created_total", "Tasks that were made."),
		tasksEnded:   vector("reprise_mcp_tasks_ended_total", "Tasks that have ended, by their status.", "status"),
		tasksLost:    counter("reprise_mcp_tasks_lost_total", "Tasks that were ended because their server had died."),
	}
}

// Watch counts the sessions that endpoints have in use in this process.
func (m *Metrics) Watch(registry prometheus.Registerer, endpoints map[string]*mcphttp.Handler) {
	for name, handler := range endpoints {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "reprise_mcp_sessions", Help: "Sessions that are in use in this process.",
			ConstLabels: prometheus.Labels{"endpoint": name},
		}, func() float64 { return float64(handler.Open()) }))
	}
}

// HTTP are the hooks of a mcphttp.Handler.
func (m *Metrics) HTTP() *mcphttp.Hooks {
	return &mcphttp.Hooks{
		Resumed: func(_ reprise.Tenant, result mcphttp.Resumption, events uint64) {
			m.resumes.WithLabelValues(string(result)).Inc()
			m.replayed.Add(float64(events))
		},
		TakenOver:     func(reprise.Tenant) { m.takeovers.Inc() },
		SessionOpened: func(reprise.Tenant) { m.sessionsOpened.Inc() },
		SessionEnded: func(_ reprise.Tenant, why mcphttp.SessionEnd) {
			m.sessionsEnded.WithLabelValues(string(why)).Inc()
		},
		Lost: func(reprise.Tenant) { m.lostCalls.Inc() },
	}
}

// Tasks are the hooks of a mcptask.Tasks.
func (m *Metrics) Tasks() *mcptask.Hooks {
	return &mcptask.Hooks{
		Created: func(reprise.Tenant) { m.tasksCreated.Inc() },
		Ended:   func(_ reprise.Tenant, status mcptask.Status) { m.tasksEnded.WithLabelValues(string(status)).Inc() },
		Lost:    func(reprise.Tenant) { m.tasksLost.Inc() },
	}
}
