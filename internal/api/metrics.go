package api

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/problem"
	"reprise/store/storewrap"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics counts what happens, for Prometheus. Its hooks are given to the Log and
// to the Host, and the Metrics to the Server, which shows them at /metrics.
type Metrics struct {
	registry *prometheus.Registry

	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	problems       *prometheus.CounterVec

	commits, commitFailures     prometheus.Counter
	overtaken                   prometheus.Counter
	committedEvents             prometheus.Counter
	committedBytes              prometheus.Counter
	commitSeconds               prometheus.Histogram
	fenced, takenOver           prometheus.Counter
	readers                     prometheus.Gauge
	readersOpened               prometheus.Counter
	readersRefused              *prometheus.CounterVec
	gaps, missedEvents          prometheus.Counter
	storeReads, storeReadErrors prometheus.Counter
	storeReadSeconds            prometheus.Histogram
	storeCallSeconds            *prometheus.HistogramVec
	storeCallErrors             *prometheus.CounterVec
	sweeps, sweepErrors         prometheus.Counter
	sweptStreams                prometheus.Counter

	executionsEnded  *prometheus.CounterVec
	executionSeconds prometheus.Histogram
	queueSeconds     prometheus.Histogram
	stalledSeconds   prometheus.Counter
}

// NewMetrics returns metrics on a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	fast := prometheus.ExponentialBuckets(50e-6, 2, 18) // 50 µs to 6.5 s
	slow := prometheus.ExponentialBuckets(1e-3, 4, 12)  // 1 ms to 70 minutes

	m.requests = m.counters("reprise_http_requests_total", "Requests by path, method and status.", "path", "method", "status")
	m.requestSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "reprise_http_request_seconds", Help: "How long requests took, with the time that their readers followed.", Buckets: slow,
	}, []string{"path"})
	m.registry.MustRegister(m.requestSeconds)

	m.problems = m.counters("reprise_http_problems_total", "Requests that were refused or failed, by path and code.",
		"path", "code")

	m.commits = m.counter("reprise_commits_total", "Commits to the store.")
	m.commitFailures = m.counter("reprise_commit_failures_total", "Batches that the store did not take.")
	m.overtaken = m.counter("reprise_commit_overtaken_total", "Batches that were made anew because another replica was ahead.")
	m.fenced = m.counter("reprise_executions_fenced_total", "Runs that were killed because this replica had been taken for dead.")
	m.takenOver = m.counter("reprise_executions_taken_over_total", "Runs of dead replicas that this one has ended as lost.")
	m.committedEvents = m.counter("reprise_committed_events_total", "Events in commits.")
	m.committedBytes = m.counter("reprise_committed_bytes_total", "Bytes in commits, as they are handed to the store.")
	m.commitSeconds = m.histogram("reprise_commit_seconds", "How long the store took for a commit.", fast)

	m.readers = prometheus.NewGauge(prometheus.GaugeOpts{Name: "reprise_readers", Help: "Readers that are open."})
	m.registry.MustRegister(m.readers)
	m.readersOpened = m.counter("reprise_readers_opened_total", "Readers that were opened.")
	m.readersRefused = m.counters("reprise_readers_refused_total", "Readers that were refused, by code.", "code")
	m.gaps = m.counter("reprise_gaps_total", "Readers that fell out of the window.")
	m.missedEvents = m.counter("reprise_missed_events_total", "Events that those readers could not get.")
	m.storeReads = m.counter("reprise_store_reads_total", "Pages that were read from the store.")
	m.storeReadErrors = m.counter("reprise_store_read_errors_total", "Pages that could not be read.")
	m.storeReadSeconds = m.histogram("reprise_store_read_seconds", "How long the store took for a page.", fast)
	m.storeCallSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "reprise_store_call_seconds", Help: "How long calls of the store took, with its wrappers, by operation.", Buckets: fast,
	}, []string{"op"})
	m.registry.MustRegister(m.storeCallSeconds)
	m.storeCallErrors = m.counters("reprise_store_call_errors_total", "Errors of the store by operation and code.", "op", "code")
	m.sweeps = m.counter("reprise_sweeps_total", "Sweeps for expired streams.")
	m.sweepErrors = m.counter("reprise_sweep_errors_total", "Sweeps that failed.")
	m.sweptStreams = m.counter("reprise_swept_streams_total", "Expired streams that were removed.")

	m.executionsEnded = m.counters("reprise_executions_ended_total", "Executions that have ended, by outcome.", "outcome")
	m.executionSeconds = m.histogram("reprise_execution_seconds", "How long executions ran.", slow)
	m.queueSeconds = m.histogram("reprise_execution_queue_seconds", "How long executions waited for their turn.", slow)
	m.stalledSeconds = m.counter("reprise_output_stalled_seconds_total", "Time that output waited for the store.")
	return m
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.registry.MustRegister(h)
	return h
}

// Registry is where more can be registered that is to be shown at /metrics.
func (m *Metrics) Registry() prometheus.Registerer { return m.registry }

// watch shows how many executions there are at the moment.
func (m *Metrics) watch(host *execution.Host) {
	for status, count := range map[execution.Status]func() int{
		execution.StatusRunning: func() int { return host.Counts().Running },
		execution.StatusQueued:  func() int { return host.Counts().Queued },
	} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "reprise_executions", Help: "Executions that have not ended, by status.",
			ConstLabels: prometheus.Labels{"status": string(status)},
		}, func() float64 { return float64(count()) }))
	}
}

// knownMethods keeps clients from making up label values.
var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions,
}

func (m *Metrics) request(path, method string, status int, took time.Duration) {
	if !slices.Contains(knownMethods, method) {
		method = "other"
	}
	m.requests.WithLabelValues(path, method, strconv.Itoa(status)).Inc()
	m.requestSeconds.WithLabelValues(path).Observe(took.Seconds())
}

// LogHooks returns the hooks to open a Log with.
func (m *Metrics) LogHooks() *reprise.Hooks {
	return &reprise.Hooks{
		Committed: func(c reprise.CommitInfo) {
			m.commits.Inc()
			m.commitFailures.Add(float64(c.Failed))
			m.overtaken.Add(float64(c.Overtaken))
			m.committedEvents.Add(float64(c.Events))
			m.committedBytes.Add(float64(c.Bytes))
			m.commitSeconds.Observe(c.Duration.Seconds())
		},
		ReaderOpened: func(_ reprise.StreamKey, err error) {
			if err != nil {
				m.readersRefused.WithLabelValues(string(problem.From(err).Code)).Inc()
				return
			}
			m.readersOpened.Inc()
			m.readers.Inc()
		},
		ReaderClosed: func(reprise.StreamKey) { m.readers.Dec() },
		Gap: func(_ reprise.StreamKey, missed uint64) {
			m.gaps.Inc()
			m.missedEvents.Add(float64(missed))
		},
		StoreRead: func(r reprise.ReadInfo) {
			m.storeReads.Inc()
			if r.Err != nil {
				m.storeReadErrors.Inc()
			}
			m.storeReadSeconds.Observe(r.Duration.Seconds())
		},
		Swept: func(result reprise.SweepResult, err error) {
			m.sweeps.Inc()
			if err != nil {
				m.sweepErrors.Inc()
			}
			m.sweptStreams.Add(float64(result.Streams))
		},
	}
}

// StoreCalled counts a call of the store, for storewrap.Observe.
func (m *Metrics) StoreCalled(c storewrap.Call) {
	m.storeCallSeconds.WithLabelValues(c.Op).Observe(c.Duration.Seconds())
	for _, err := range c.Errs {
		m.storeCallErrors.WithLabelValues(c.Op, string(problem.From(err).Code)).Inc()
	}
}

// ExecutionHooks returns the hooks to open a Host with.
func (m *Metrics) ExecutionHooks() *execution.Hooks {
	return &execution.Hooks{
		Started: func(_ reprise.Tenant, waited time.Duration) { m.queueSeconds.Observe(waited.Seconds()) },
		Ended: func(_ reprise.Tenant, outcome execution.Outcome, took time.Duration) {
			m.executionsEnded.WithLabelValues(string(outcome)).Inc()
			m.executionSeconds.Observe(took.Seconds())
		},
		Stalled:   func(_ reprise.Tenant, d time.Duration) { m.stalledSeconds.Add(d.Seconds()) },
		Fenced:    func(reprise.Tenant) { m.fenced.Inc() },
		TakenOver: func(reprise.Tenant) { m.takenOver.Inc() },
	}
}
