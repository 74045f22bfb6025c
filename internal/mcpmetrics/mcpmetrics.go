// Package mcpmetrics counts the events that the MCP packages report, for Prometheus.
package mcpmetrics

import (
	"reprise"
	"reprise/internal/metrics"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
)

// Metrics are the counters.
type Metrics struct {
	resumes        *metrics.Vec[metrics.Counter]
	replayed       *metrics.Counter
	takeovers      *metrics.Counter
	lostCalls      *metrics.Counter
	sessionsOpened *metrics.Counter
	sessionsEnded  *metrics.Vec[metrics.Counter]
	tasksCreated   *metrics.Counter
	tasksEnded     *metrics.Vec[metrics.Counter]
	tasksLost      *metrics.Counter
}

// New registers the counters.
func New(r *metrics.Registry) *Metrics {
	return &Metrics{
		resumes: r.Counters("reprise_mcp_resumes_total", "Requests with a Last-Event-ID, by what came of them.",
			"result"),
		replayed: r.Counter("reprise_mcp_replayed_events_total",
			"Events that were there to be replayed to those who resumed."),
		takeovers: r.Counter("reprise_mcp_takeovers_total",
			"Connections that were ended in favour of a newer one."),
		lostCalls: r.Counter("reprise_mcp_lost_calls_total",
			"Calls that were ended because their server had died."),
		sessionsOpened: r.Counter("reprise_mcp_sessions_opened_total", "Sessions that were opened."),
		sessionsEnded: r.Counters("reprise_mcp_sessions_ended_total", "Sessions that have ended, by the reason.",
			"reason"),
		tasksCreated: r.Counter("reprise_mcp_tasks_created_total", "Tasks that were made."),
		tasksEnded:   r.Counters("reprise_mcp_tasks_ended_total", "Tasks that have ended, by their status.", "status"),
		tasksLost:    r.Counter("reprise_mcp_tasks_lost_total", "Tasks that were ended because their server had died."),
	}
}

// Watch shows how many sessions endpoints have in use in this process.
func (m *Metrics) Watch(r *metrics.Registry, endpoints map[string]*mcphttp.Handler) {
	measure := func(emit func(float64, ...string)) {
		for name, handler := range endpoints {
			emit(float64(handler.Open()), name)
		}
	}
	r.Func(metrics.KindGauge, "reprise_mcp_sessions", "Sessions that are in use in this process.",
		[]string{"endpoint"}, measure)
}

// HTTP are the hooks of a mcphttp.Handler.
func (m *Metrics) HTTP() *mcphttp.Hooks {
	return &mcphttp.Hooks{
		Resumed: func(_ reprise.Tenant, result mcphttp.Resumption, events uint64) {
			m.resumes.With(string(result)).Inc()
			m.replayed.Add(float64(events))
		},
		TakenOver:     func(reprise.Tenant) { m.takeovers.Inc() },
		SessionOpened: func(reprise.Tenant) { m.sessionsOpened.Inc() },
		SessionEnded: func(_ reprise.Tenant, why mcphttp.SessionEnd) {
			m.sessionsEnded.With(string(why)).Inc()
		},
		Lost: func(reprise.Tenant) { m.lostCalls.Inc() },
	}
}

// Tasks are the hooks of a mcptask.Tasks.
func (m *Metrics) Tasks() *mcptask.Hooks {
	return &mcptask.Hooks{
		Created: func(reprise.Tenant) { m.tasksCreated.Inc() },
		Ended:   func(_ reprise.Tenant, status mcptask.Status) { m.tasksEnded.With(string(status)).Inc() },
		Lost:    func(reprise.Tenant) { m.tasksLost.Inc() },
	}
}
