package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/otlp"
	"reprise/internal/problem"
	"reprise/internal/tracecontext"
	"reprise/sse/ssehttp"
)

// The headers of a start.
const (
	executionIDHeader    = "Execution-Id"
	idempotencyKeyHeader = "Idempotency-Key"
	// holdHeader names the follower for whom output is held back, in the answer to its start and when it comes back.
	holdHeader = "Execution-Hold"
	// receiptsHeader announces in a request that the follower sends receipts. In an answer it is the number of events
	// and bytes above which a receipt is wanted.
	receiptsHeader = "Execution-Receipts"
)

// maxHold limits how long output is held back for a follower that takes nothing.
const maxHold = 5 * time.Minute

// executionBody is how an execution is shown.
type executionBody struct {
	execution.Execution
	Links executionLinks `json:"links"`
}

type executionLinks struct {
	Self string `json:"self"`
	// The others are "" for an execution whose output has expired.
	Events string `json:"events,omitempty"`
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

func showExecution(e execution.Execution) executionBody {
	self := "/v1/executions/" + url.PathEscape(e.ID)
	if e.Expired {
		return executionBody{e, executionLinks{Self: self}}
	}
	return executionBody{e, executionLinks{self, self + "/events", self + "/stdout", self + "/stderr"}}
}

func showExecutions(list []execution.Execution) []executionBody {
	shown := make([]executionBody, 0, len(list))
	for _, e := range list {
		shown = append(shown, showExecution(e))
	}
	return shown
}

func (s *Server) startExecution(x *exchange) error {
	form, err := accepts(x.r, jsonType, sseType)
	if err != nil {
		return err
	}
	var req execution.Request
	if err := s.decodeBody(x, &req); err != nil {
		return err
	}
	req.IdempotencyKey = x.r.Header.Get(idempotencyKeyHeader)
	hold, err := x.query.duration("hold", maxHold)
	if err == nil && hold > 0 && form != sseType {
		err = badRequest("hold", "only the reader of the answer can hold output back: ask for "+sseType)
	}
	if err != nil {
		return err
	}
	req.Hold = execution.Duration(hold)
	trace := tracecontext.Of(x.r.Header)
	req.TraceParent, req.TraceState = trace.Parent, trace.State
	if err := req.Validate(); err != nil {
		return err
	}
	if err := s.mayStart(x, identity.ScopeRun, &req); err != nil {
		return err
	}
	if form == sseType {
		return s.startAndFollow(x, req)
	}
	e, created, err := s.start(x.r.Context(), x, req)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return s.answer(x, status, showExecution(e))
}

// mayStart refuses a sender without the scope for the session of the new execution. The session of code is that of its
// interpreter.
func (s *Server) mayStart(x *exchange, scope identity.Scope, req *execution.Request) error {
	if err := x.mayBe(req); err != nil {
		return err
	}
	if req.Interpreter != "" {
		return s.mayUseExecution(x, scope, req.Interpreter)
	}
	return x.mayMake(scope, req.Session, "session")
}

// mayBe refuses a command of another user, except to administrators.
func (x *exchange) mayBe(req *execution.Request) error {
	if req.User != "" {
		return x.needs(identity.ScopeAdmin)
	}
	return nil
}

// start starts a run and names it in the header of the answer.
func (s *Server) start(ctx context.Context, x *exchange, req execution.Request) (
	e execution.Execution, created bool, err error,
) {
	spans := &s.opts.Metrics.spans
	traceParent := spans.begin(otlp.SpanOf(ctx))
	if traceParent != "" {
		req.TraceParent = traceParent // the command is below the execution, which is below the request
	}
	e, created, err = s.host.StartFor(ctx, x.who.Holder(), req)
	if traceParent != "" && !created {
		spans.take(traceParent)
	}
	if err == nil {
		x.w.Header().Set(executionIDHeader, e.ID)
		recordOf(x.w).Execution = e.ID
		path := "/v1/executions/" + url.PathEscape(e.ID)
		x.w.Header().Set("Location", path)
		if created {
			s.recordMade(x, path)
		}
	}
	return e, created, err
}

// startAndFollow answers a start with the events from the first one on. All checks precede the start: a client that is
// told to retry must not have started anything.
func (s *Server) startAndFollow(x *exchange, req execution.Request) error {
	if err := s.mayStart(x, identity.ScopeRead, &req); err != nil {
		return err
	}
	position, err := ssehttp.ParseRequest(x.r)
	if err == nil {
		_, err = reprise.ParsePosition(position.After)
	}
	if err != nil {
		return err
	}
	ctx := x.r.Context()
	if err := s.enter(x); err != nil {
		return err
	}
	e, _, err := s.start(ctx, x, req)
	if err == nil && e.Expired {
		err = fmt.Errorf("%w: execution %s has run, and its output has expired; a GET of it answers how it ended",
			reprise.ErrExpired, e.ID)
	}
	if err != nil {
		return err
	}
	x.atEnd(s.host.FollowIf(ctx, x.who.Tenant, e.ID, x.who.MayLeave))
	stream, err := s.host.Stream(ctx, x.who.Tenant, e.ID)
	if err != nil {
		return err
	}
	rd := &reading{stream: stream, form: sseType, Request: position}
	if rd.hold = s.host.Hold(x.who.Tenant, e.ID); req.Hold == 0 {
		rd.hold = nil
	}
	if rd.hold != nil {
		x.w.Header().Set(holdHeader, rd.hold.Token())
		x.awaitReceipts(rd.hold)
	}
	s.endWithServer(x) // not before, so that the start is not cut short
	x.endWithConnection()
	return s.send(x, rd)
}

// awaitReceipts makes the receipts of a follower count that says it sends them.
func (x *exchange) awaitReceipts(hold *execution.Hold) {
	if x.r.Header.Get(receiptsHeader) != "" {
		events, bytes := hold.AwaitReceipts()
		x.w.Header().Set(receiptsHeader, fmt.Sprintf("events=%d, bytes=%d", events, bytes))
	}
}

// takeReceipt takes a receipt of the follower for whom output is held back.
func (s *Server) takeReceipt(x *exchange) error {
	recordOf(x.w).Quiet = true
	if x.query.text("seq") == "" {
		return badRequest("seq", "the seq of the last event that was received is needed")
	}
	seq, err := x.query.number("seq", 0, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	id := x.r.PathValue("id")
	if err := s.mayReadExecution(x, id); err != nil {
		return err
	}
	hold := s.host.Held(x.who.Tenant, id, x.r.Header.Get(holdHeader))
	if hold == nil {
		return problem.New(problem.CodeNotFound, "no output is held back for the reader of this "+holdHeader)
	}
	hold.Received(uint64(seq))
	return x.done()
}

func (s *Server) listExecutions(x *exchange) error {
	limit, cursor, err := x.query.page()
	if err != nil {
		return err
	}
	q := execution.ListQuery{
		Session: x.query.text("session"), Limit: limit, After: cursor, Allowed: x.sessionFilter(),
	}
	switch q.Status = execution.Status(x.query.text("status")); q.Status {
	case "", execution.StatusQueued, execution.StatusRunning, execution.StatusEnded:
	default:
		return badRequest("status", "queued, running or ended is taken")
	}
	for _, label := range x.query["label"] {
		key, value, ok := strings.Cut(label, "=")
		if !ok || key == "" {
			return badRequest("label", "KEY=VALUE is taken")
		}
		if _, twice := q.Labels[key]; twice {
			return badRequest("label", "a label is given twice")
		}
		if q.Labels == nil {
			q.Labels = map[string]string{}
		}
		q.Labels[key] = value
	}
	page, err := s.host.List(x.r.Context(), x.who.Tenant, q)
	if err != nil {
		return x.query.listError(err)
	}
	return s.answer(x, http.StatusOK, struct {
		Executions []executionBody `json:"executions"`
		NextCursor string          `json:"next_cursor"`
	}{showExecutions(page.Executions), page.Next})
}

func (s *Server) showExecution(x *exchange) error {
	id := x.r.PathValue("id")
	if err := s.mayReadExecution(x, id); err != nil {
		return err
	}
	e, err := s.host.Show(x.r.Context(), x.who.Tenant, id)
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, showExecution(e))
}

// id returns the id of the execution or session in the path. It validates the id for methods that accept a missing
// object.
func (x *exchange) id() (string, error) {
	id := x.r.PathValue("id")
	if field, malformed := errors.AsType[*execution.FieldError](execution.CheckID(id)); malformed {
		return "", badRequest(field.Field, field.Reason)
	}
	return id, nil
}

func (s *Server) removeExecution(x *exchange) error {
	id, err := x.id()
	if err != nil {
		return err
	}
	err = s.mayUseExecution(x, identity.ScopeControl, id)
	if err == nil {
		err = s.host.Remove(x.r.Context(), x.who.Tenant, id)
	}
	if err != nil && !errors.Is(err, reprise.ErrNotFound) {
		return err
	}
	return x.done()
}

// configureExecution changes the retention and the labels of an execution.
func (s *Server) configureExecution(x *exchange) error {
	id := x.r.PathValue("id")
	if err := s.mayUseExecution(x, identity.ScopeControl, id); err != nil {
		return err
	}
	var body execution.Change
	if err := s.decodeBody(x, &body); err != nil {
		return err
	}
	if err := s.host.Configure(x.r.Context(), x.who.Tenant, id, &body); err != nil {
		return err
	}
	e, err := s.host.Show(x.r.Context(), x.who.Tenant, id)
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, showExecution(e))
}

func (s *Server) signalExecution(x *exchange) error {
	id := x.r.PathValue("id")
	if err := s.mayUseExecution(x, identity.ScopeControl, id); err != nil {
		return err
	}
	var body struct {
		Signal string `json:"signal"`
	}
	if err := s.decodeBody(x, &body); err != nil {
		return err
	}
	if body.Signal == "" {
		return unprocessable("signal", "the name of a signal is needed, for example INT")
	}
	if err := s.host.Signal(x.r.Context(), x.who.Tenant, id, body.Signal); err != nil {
		return err
	}
	return x.done()
}

// maxScreen is the maximum number of columns and of rows in a request.
const maxScreen = 65535

func (s *Server) executionScreen(x *exchange) error {
	id := x.r.PathValue("id")
	if err := s.mayReadExecution(x, id); err != nil {
		return err
	}
	cols, err := x.query.number("cols", 0, 1, maxScreen)
	if err != nil {
		return err
	}
	rows, err := x.query.number("rows", 0, 1, maxScreen)
	if err != nil {
		return err
	}
	screen, err := s.host.Screen(x.r.Context(), x.who.Tenant, id, execution.TTY{Cols: int(cols), Rows: int(rows)})
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, screen)
}

func (s *Server) resizeExecution(x *exchange) error {
	var size execution.TTY
	if err := s.decodeBody(x, &size); err != nil {
		return err
	}
	id := x.r.PathValue("id")
	if err := s.mayUseExecution(x, identity.ScopeControl, id); err != nil {
		return err
	}
	if err := s.host.Resize(x.r.Context(), x.who.Tenant, id, size); err != nil {
		return err
	}
	return x.done()
}

func (s *Server) cancelExecution(x *exchange) error {
	id := x.r.PathValue("id")
	if err := s.mayUseExecution(x, identity.ScopeControl, id); err != nil {
		return err
	}
	if err := s.host.Cancel(x.r.Context(), x.who.Tenant, id); err != nil {
		return err
	}
	return x.done()
}

func (s *Server) writeStdin(x *exchange) error {
	const maxOffset = 1<<63 - 1
	offset, err := x.query.number("offset", -1, 0, maxOffset)
	if err != nil {
		return err
	}
	eof, err := x.query.flag("eof")
	if err != nil {
		return err
	}
	id := x.r.PathValue("id")
	if err := s.mayUseExecution(x, identity.ScopeControl, id); err != nil {
		return err
	}
	body, err := s.body(x, s.opts.MaxStdin)
	if err != nil {
		return err
	}
	stdin, err := s.host.WriteStdin(x.r.Context(), x.who.Tenant, id,
		execution.StdinWrite{Offset: offset, Writer: x.query.text("writer"), Data: body, EOF: eof})
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, stdin)
}
