package webhook

import (
	"time"

	"reprise/internal/metrics"
)

// NewEvents returns Events that count in r.
func NewEvents(r *metrics.Registry) Events {
	tries := r.Counters("reprise_webhook_tries_total",
		"Requests to receivers of webhooks, by what came of them.", "result")
	seconds := r.Histogram("reprise_webhook_try_seconds", "How long receivers of webhooks took to answer.",
		metrics.Exponential(1e-3, 4, 8))
	dropped := r.Counter("reprise_webhook_dropped_messages_total",
		"Messages that fell out of the queue of a webhook before they were sent.")
	disabled := r.Counter("reprise_webhooks_disabled_total", "Webhooks that were disabled.")
	return Events{
		Tried: func(_ *Hook, answer *Answer, took time.Duration) {
			result := "acknowledged"
			switch {
			case answer.Status == 0:
				result = "unanswered"
			case !answer.ok():
				result = "refused"
			}
			tries.With(result).Inc()
			seconds.Observe(took.Seconds())
		},
		Dropped:  func(_ *Hook, messages uint64) { dropped.Add(float64(messages)) },
		Disabled: func(*Hook, string) { disabled.Inc() },
	}
}
