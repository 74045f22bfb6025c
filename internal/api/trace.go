package api

import (
	"sync"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/otlp"
	"reprise/internal/problem"
	"reprise/internal/web"
)

// traceAppend begins the span of an append, which lasts until it is kept. trace is for the append, nil if it is not
// traced. ended must be called.
func traceAppend(x *web.Exchange, stream *reprise.Stream, events int) (trace *reprise.AppendTrace, ended func(error)) {
	span := otlp.SpanOf(x.R.Context()).Child("append", otlp.Internal, time.Now())
	if span == nil {
		return nil, func(error) {}
	}
	trace = new(reprise.AppendTrace)
	return trace, func(err error) {
		code := ""
		if err != nil {
			code = string(problem.From(err).Code)
			span.Fail(code)
		}
		traceCommit(span, trace, code)
		span.End(time.Now(), otlp.Attribute{Name: "reprise.stream", Value: stream.Key().Name},
			otlp.Attribute{Name: "reprise.events", Value: int64(events)})
	}
}

// traceCommit sends the spans of the commit that contained an append, including the wait for its turn and the time in
// the store. An append without a commit has no such spans. code is the code of the append's failure, or "".
func traceCommit(span *otlp.Span, trace *reprise.AppendTrace, code string) {
	if trace.Began.IsZero() {
		return
	}
	commit := span.Child("commit", otlp.Internal, trace.Asked)
	store := commit.Child("store append", otlp.Client, trace.Began)
	if code != "" {
		commit.Fail(code)
		store.Fail(code)
	}
	store.End(trace.Stored, otlp.Attribute{Name: "reprise.commit.bytes", Value: int64(trace.Bytes)})
	commit.End(trace.Stored,
		otlp.Attribute{Name: "reprise.commit.streams", Value: int64(trace.Streams)},
		otlp.Attribute{Name: "reprise.commit.events", Value: int64(trace.Events)},
		otlp.Attribute{Name: "reprise.commit.tries", Value: int64(trace.Tries)},
	)
}

// maxExecutionSpans limits the number of spans of executions that have not ended.
const maxExecutionSpans = 10_000

// executionSpans are the spans of executions that were started here and have not ended, by the traceparent of their
// commands.
type executionSpans struct {
	mu    sync.Mutex
	spans map[string]*otlp.Span
}

// begin begins the span of an execution that is about to be started, and returns its traceparent, "" if it is not
// traced.
func (e *executionSpans) begin(parent *otlp.Span) string {
	span := parent.Child("execution", otlp.Internal, time.Now())
	if span == nil {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.spans) < maxExecutionSpans {
		if e.spans == nil {
			e.spans = map[string]*otlp.Span{}
		}
		e.spans[span.TraceParent()] = span
	}
	return span.TraceParent()
}

// take removes and returns the span of a traceparent, or returns nil if there is none.
func (e *executionSpans) take(traceParent string) *otlp.Span {
	e.mu.Lock()
	defer e.mu.Unlock()
	span := e.spans[traceParent]
	delete(e.spans, traceParent)
	return span
}

// finished ends the span of an execution that has ended.
func (e *executionSpans) finished(traceParent string, key reprise.StreamKey, outcome execution.Outcome) {
	span := e.take(traceParent)
	if span == nil {
		return
	}
	if outcome != execution.Exited {
		span.Fail(string(outcome))
	}
	span.End(time.Now(),
		otlp.Attribute{Name: "reprise.execution", Value: key.Name[len(execution.Namespace):]},
		otlp.Attribute{Name: "reprise.tenant", Value: string(key.Tenant)},
		otlp.Attribute{Name: "reprise.outcome", Value: string(outcome)},
	)
}
