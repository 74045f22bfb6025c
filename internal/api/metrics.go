package api

import (
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/metrics"
	"reprise/internal/problem"
	"reprise/internal/web"
	"reprise/sse/ssehttp"
	"reprise/store/storewrap"
)

// Metrics counts what happens, for Prometheus. Its hooks are given to the Log and
// to the Host, and the Metrics to the Server, which shows them at /metrics.
type Metrics struct {
	registry *metrics.Registry

	requests       *metrics.Vec[metrics.Counter]
	requestSeconds *metrics.Vec[metrics.Histogram]
	problems       *metrics.Vec[metrics.Counter]
	quotaRefused   *metrics.Vec[metrics.Counter]
	resumes        *metrics.Vec[metrics.Counter]
	replayEvents   *metrics.Histogram

	commits, commitFailures     *metrics.Counter
	overtaken                   *metrics.Counter
	repeatedAppends             *metrics.Counter
	committedEvents             *metrics.Counter
	committedBytes              *metrics.Counter
	commitSeconds               *metrics.Histogram
	commitWaitSeconds           *metrics.Histogram
	fenced, takenOver           *metrics.Counter
	readers                     *metrics.Gauge
	outputReaders               atomic.Int64 // of executions
	readersOpened               *metrics.Counter
	readersRefused              *metrics.Vec[metrics.Counter]
	gaps, missedEvents          *metrics.Counter
	readerLagEvents             *metrics.Histogram
	storeReads, storeReadErrors *metrics.Counter
	storeReadSeconds            *metrics.Histogram
	storeCallSeconds            *metrics.Vec[metrics.Histogram]
	storeCallErrors             *metrics.Vec[metrics.Counter]
	sweeps, sweepErrors         *metrics.Counter
	idleStreams                 *metrics.Counter
	sweptStreams                *metrics.Counter
	sweptEvents, sweptBytes     *metrics.Counter
	removedStreams              *metrics.Counter
	removedBytes                *metrics.Counter

	executionsEnded  *metrics.Vec[metrics.Counter]
	tenants          firstTenants // that have a label of their own in tenantEnded
	tenantEnded      *metrics.Vec[metrics.Counter]
	executionSeconds *metrics.Histogram
	queueSeconds     *metrics.Histogram
	stalledSeconds   *metrics.Counter

	spans executionSpans
}

// The buckets of histograms.
var (
	fastSeconds = metrics.Exponential(50e-6, 2, 18) // 50 µs to 6.5 s
	slowSeconds = metrics.Exponential(1e-3, 4, 12)  // 1 ms to 70 minutes
	eventCounts = append([]float64{0}, metrics.Exponential(1, 10, 7)...)
)

// NewMetrics returns metrics on a registry of their own.
func NewMetrics() *Metrics {
	r := metrics.NewRegistry()
	r.RegisterRuntime()
	m := &Metrics{registry: r}
	m.registerHTTP(r)
	m.registerCommits(r)
	m.registerReaders(r)
	m.registerStore(r)
	m.registerExecutions(r)
	return m
}

func (m *Metrics) registerHTTP(r *metrics.Registry) {
	m.requests = r.Counters("reprise_http_requests_total",
		"Requests by path, method and status.", "method", "path", "status")
	m.requestSeconds = r.Histograms("reprise_http_request_seconds",
		"How long requests took, with the time that their readers followed.", slowSeconds, "path")
	m.problems = r.Counters("reprise_http_problems_total",
		"Requests that were refused or failed, by path and code.", "code", "path")
	m.quotaRefused = r.Counters("reprise_quota_refused_total",
		"What was refused because a quota was used up, by quota and by whose it is; not what is kept.", "of", "quota")
	m.resumes = r.Counters("reprise_resumes_total",
		"Requests that presented a cursor, by how, by what came of it and why. Clients reconnect with last_event_id.",
		"reason", "result", "via")
	m.replayEvents = r.Histogram("reprise_resume_replay_events",
		"How many events were there to be replayed to those who resumed.", eventCounts)
}

func (m *Metrics) registerCommits(r *metrics.Registry) {
	m.commits = r.Counter("reprise_commits_total", "Commits to the store.")
	m.commitFailures = r.Counter("reprise_commit_failures_total", "Batches that the store did not take.")
	m.overtaken = r.Counter("reprise_commit_overtaken_total",
		"Batches that were made anew because another replica was ahead.")
	m.repeatedAppends = r.Counter("reprise_repeated_appends_total",
		"Appends over HTTP that a producer had sent before; their events were stored already.")
	m.committedEvents = r.Counter("reprise_committed_events_total", "Events in commits.")
	m.committedBytes = r.Counter("reprise_committed_bytes_total", "Bytes in commits, as they are handed to the store.")
	m.commitSeconds = r.Histogram("reprise_commit_seconds", "How long the store took for a commit.", fastSeconds)
	m.commitWaitSeconds = r.Histogram("reprise_commit_wait_seconds",
		"How long the first append of a commit waited for the commits before it.", fastSeconds)
}

func (m *Metrics) registerReaders(r *metrics.Registry) {
	m.readers = r.Gauge("reprise_readers", "Readers that are open.")
	m.readersOpened = r.Counter("reprise_readers_opened_total", "Readers that were opened.")
	m.readersRefused = r.Counters("reprise_readers_refused_total", "Readers that were refused, by code.", "code")
	m.gaps = r.Counter("reprise_gaps_total", "Readers that fell out of the window.")
	m.missedEvents = r.Counter("reprise_missed_events_total", "Events that those readers could not get.")
	m.readerLagEvents = r.Histogram("reprise_reader_lag_events",
		"How many events readers were behind when they needed a page from the store.", eventCounts)
}

func (m *Metrics) registerStore(r *metrics.Registry) {
	m.storeReads = r.Counter("reprise_store_reads_total", "Pages that were read from the store.")
	m.storeReadErrors = r.Counter("reprise_store_read_errors_total", "Pages that could not be read.")
	m.storeReadSeconds = r.Histogram("reprise_store_read_seconds", "How long the store took for a page.", fastSeconds)
	m.storeCallSeconds = r.Histograms("reprise_store_call_seconds",
		"How long calls of the store took, with its wrappers, by operation.", fastSeconds, "op")
	m.storeCallErrors = r.Counters("reprise_store_call_errors_total",
		"Errors of the store by operation and code.", "code", "op")
	m.sweeps = r.Counter("reprise_sweeps_total", "Sweeps for expired streams.")
	m.sweepErrors = r.Counter("reprise_sweep_errors_total", "Sweeps that failed.")
	m.idleStreams = r.Counter("reprise_idle_streams_ended_total",
		"Open streams that were ended because they were idle.")
	m.sweptStreams = r.Counter("reprise_swept_streams_total", "Expired streams that were removed.")
	m.sweptEvents = r.Counter("reprise_swept_events_total", "Events of those streams.")
	m.sweptBytes = r.Counter("reprise_swept_bytes_total", "Bytes of those events.")
	m.removedStreams = r.Counter("reprise_removed_early_streams_total",
		"Ended streams that were removed before their time, to make room.")
	m.removedBytes = r.Counter("reprise_removed_early_bytes_total", "Bytes of their events.")
}

func (m *Metrics) registerExecutions(r *metrics.Registry) {
	m.fenced = r.Counter("reprise_executions_fenced_total",
		"Runs that were killed because this replica had been taken for dead.")
	m.takenOver = r.Counter("reprise_executions_taken_over_total",
		"Runs of dead replicas that this one has ended as lost.")
	m.executionsEnded = r.Counters("reprise_executions_ended_total",
		"Executions that have ended, by outcome.", "outcome")
	for _, outcome := range []execution.Outcome{
		execution.Exited, execution.Signaled, execution.TimedOut, execution.Cancelled, execution.LimitExceeded,
		execution.FailedToStart, execution.Lost,
	} {
		m.executionsEnded.With(string(outcome)) // from 0 on, so that the first one is an increase
	}
	m.tenantEnded = r.Counters("reprise_tenant_executions_ended_total",
		"Executions that have ended, by tenant.", "tenant")
	m.executionSeconds = r.Histogram("reprise_execution_seconds", "How long executions ran.", slowSeconds)
	m.queueSeconds = r.Histogram("reprise_execution_queue_seconds",
		"How long executions waited for their turn.", slowSeconds)
	m.stalledSeconds = r.Counter("reprise_output_stalled_seconds_total", "Time that output waited for the store.")
}

// Registry returns the registry of all that is shown at /metrics.
func (m *Metrics) Registry() *metrics.Registry { return m.registry }

// knownMethods keeps clients from making up label values.
var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodOptions,
}

// request counts a request that is over.
func (m *Metrics) request(o web.Observation) {
	method := o.Method
	if !slices.Contains(knownMethods, method) {
		method = "other"
	}
	m.requests.With(method, o.Path, strconv.Itoa(o.Status)).Inc()
	m.requestSeconds.With(o.Path).Observe(o.Took.Seconds())
	if o.Code != "" {
		m.problems.With(string(o.Code), o.Path).Inc()
	}
}

// OutputReaders returns the number of readers that are open and follow executions.
func (m *Metrics) OutputReaders() int { return int(m.outputReaders.Load()) }

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
			m.commitWaitSeconds.Observe(c.Waited.Seconds())
		},
		ReaderOpened: func(key reprise.StreamKey, err error) {
			if err != nil {
				m.readersRefused.With(string(problem.From(err).Code)).Inc()
				return
			}
			m.readersOpened.Inc()
			m.readers.Inc()
			if key.Namespace() == execution.Namespace {
				m.outputReaders.Add(1)
			}
		},
		ReaderClosed: func(key reprise.StreamKey) {
			m.readers.Dec()
			if key.Namespace() == execution.Namespace {
				m.outputReaders.Add(-1)
			}
		},
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
			if r.Events > 0 {
				m.readerLagEvents.Observe(float64(r.Lag))
			}
		},
		Swept: func(result reprise.SweepResult, err error) {
			m.sweeps.Inc()
			if err != nil {
				m.sweepErrors.Inc()
			}
			m.idleStreams.Add(float64(result.Idle))
			m.sweptStreams.Add(float64(result.Streams))
			m.sweptEvents.Add(float64(result.Events))
			m.sweptBytes.Add(float64(result.Bytes))
		},
		RemovedEarly: func(_ reprise.StreamKey, kept reprise.Size) {
			m.removedStreams.Inc()
			m.removedBytes.Add(float64(kept.Bytes))
		},
	}
}

// resumed counts the result of a cursor.
func (m *Metrics) resumed(r *http.Request, what ssehttp.Resumption) {
	via, result, reason := "query", "replayed", "none"
	if r.Header.Get(ssehttp.LastEventID) != "" {
		via = "last_event_id"
	}
	if what.Err != nil {
		reason = string(problem.From(what.Err).Code)
	}
	switch {
	case what.Gap:
		result = "gap"
	case what.Err != nil:
		result = "refused"
	case what.Events == 0:
		result = "nothing"
	}
	m.resumes.With(reason, result, via).Inc()
	if result != "refused" {
		m.replayEvents.Observe(float64(what.Events))
	}
}

// StoreCalled counts a call of the store, for storewrap.Observe.
func (m *Metrics) StoreCalled(c storewrap.Call) {
	m.storeCallSeconds.With(c.Op).Observe(c.Duration.Seconds())
	for _, err := range c.Errs {
		m.storeCallErrors.With(string(problem.From(err).Code), c.Op).Inc()
	}
}

// ExecutionHooks returns the hooks to open a Host with.
func (m *Metrics) ExecutionHooks() *execution.Hooks {
	return &execution.Hooks{
		Started: func(_ reprise.Tenant, waited time.Duration) { m.queueSeconds.Observe(waited.Seconds()) },
		Ended: func(tenant reprise.Tenant, outcome execution.Outcome, took time.Duration) {
			m.tenantEnded.With(m.tenants.label(tenant)).Inc()
			m.executionsEnded.With(string(outcome)).Inc()
			m.executionSeconds.Observe(took.Seconds())
		},
		Stalled:   func(_ reprise.Tenant, d time.Duration) { m.stalledSeconds.Add(d.Seconds()) },
		Finished:  m.spans.finished,
		Fenced:    func(reprise.Tenant) { m.fenced.Inc() },
		TakenOver: func(reprise.Tenant) { m.takenOver.Inc() },
	}
}

// appended counts an append over HTTP that a producer sent again.
func (m *Metrics) appended(a reprise.Appended) {
	if a.Duplicate {
		m.repeatedAppends.Inc()
	}
}
