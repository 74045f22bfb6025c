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
	"reprise/client"
	"reprise/internal/execution"
	"reprise/internal/grants"
	"reprise/internal/identity"
	"reprise/internal/otlp"
	"reprise/internal/problem"
	"reprise/internal/reads"
	"reprise/internal/tracecontext"
	"reprise/internal/web"
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

func (s *Server) startExecution(x *web.Exchange) error {
	form, err := web.Accepts(x.R, web.JSON, web.SSE)
	if err != nil {
		return err
	}
	var req execution.Request
	if err := x.DecodeBody(&req); err != nil {
		return err
	}
	req.IdempotencyKey = x.R.Header.Get(idempotencyKeyHeader)
	hold, err := x.Query.Duration("hold", maxHold)
	if err == nil && hold > 0 && form != web.SSE {
		err = web.BadRequest("hold", "only the reader of the answer can hold output back: ask for "+web.SSE)
	}
	if err != nil {
		return err
	}
	req.Hold = execution.Duration(hold)
	trace := tracecontext.Of(x.R.Header)
	req.TraceParent, req.TraceState = trace.Parent, trace.State
	if err := req.Validate(); err != nil {
		return err
	}
	if err := s.mayStart(x, identity.ScopeRun, &req); err != nil {
		return err
	}
	if form == web.SSE {
		return s.startAndFollow(x, req)
	}
	e, created, err := s.start(x.R.Context(), x, req)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return x.Answer(status, showExecution(e))
}

// mayStart refuses a sender without the scope for the session of the new execution. The session of code is the session
// of its interpreter.
func (s *Server) mayStart(x *web.Exchange, scope identity.Scope, req *execution.Request) error {
	if err := mayBe(x, req); err != nil {
		return err
	}
	if req.Interpreter != "" {
		return s.grants.MayUse(x, scope, req.Interpreter)
	}
	return x.MayMake(scope, req.Session, "session")
}

// mayBe refuses a command of another user, except to administrators.
func mayBe(x *web.Exchange, req *execution.Request) error {
	if req.User != "" {
		return x.Needs(identity.ScopeAdmin)
	}
	return nil
}

// start starts a run and names it in the header of the answer.
func (s *Server) start(ctx context.Context, x *web.Exchange, req execution.Request) (
	e execution.Execution, created bool, err error,
) {
	spans := &s.opts.Metrics.spans
	traceParent := spans.begin(otlp.SpanOf(ctx))
	if traceParent != "" {
		req.TraceParent = traceParent // the command is below the execution, which is below the request
	}
	e, created, err = s.host.StartFor(ctx, x.Who.Holder(), req)
	if traceParent != "" && !created {
		spans.take(traceParent)
	}
	if err == nil {
		x.W.Header().Set(executionIDHeader, e.ID)
		x.Record().Execution = e.ID
		path := "/v1/executions/" + url.PathEscape(e.ID)
		x.W.Header().Set("Location", path)
		if created {
			x.Made(path)
		}
	}
	return e, created, err
}

// startAndFollow answers a start with the events from the first one on. All checks precede the start: a client that is
// asked to retry must not have started anything.
func (s *Server) startAndFollow(x *web.Exchange, req execution.Request) error {
	if err := s.mayStart(x, identity.ScopeRead, &req); err != nil {
		return err
	}
	position, err := ssehttp.ParseRequest(x.R)
	if err == nil {
		_, err = reprise.ParsePosition(position.After)
	}
	if err != nil {
		return err
	}
	ctx := x.R.Context()
	if err := s.opts.Reads.Enter(x); err != nil {
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
	x.AtEnd(s.host.FollowIf(ctx, x.Who.Tenant, e.ID, x.Who.MayLeave))
	stream, err := s.host.Stream(ctx, x.Who.Tenant, e.ID)
	if err != nil {
		return err
	}
	rd := &reads.Reading{Stream: stream}
	if hold := s.host.Hold(x.Who.Tenant, e.ID); hold != nil && req.Hold > 0 {
		x.W.Header().Set(holdHeader, hold.Token())
		awaitReceipts(x, hold)
		rd.Sent = hold.Sent
	}
	return s.opts.Reads.FollowFrom(x, rd, position)
}

// awaitReceipts makes the receipts of a follower count that says it sends them.
func awaitReceipts(x *web.Exchange, hold *execution.Hold) {
	if x.R.Header.Get(receiptsHeader) != "" {
		events, bytes := hold.AwaitReceipts()
		x.W.Header().Set(receiptsHeader, fmt.Sprintf("events=%d, bytes=%d", events, bytes))
	}
}

// takeReceipt takes a receipt of the follower for whom output is held back.
func (s *Server) takeReceipt(x *web.Exchange) error {
	x.Record().Quiet = true
	if x.Query.Text("seq") == "" {
		return web.BadRequest("seq", "the seq of the last event that was received is needed")
	}
	seq, err := x.Query.Number("seq", 0, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	id := x.R.PathValue("id")
	if err := s.grants.MayRead(x, id); err != nil {
		return err
	}
	hold := s.host.Held(x.Who.Tenant, id, x.R.Header.Get(holdHeader))
	if hold == nil {
		return problem.New(problem.CodeNotFound, "no output is held back for the reader of this "+holdHeader)
	}
	hold.Received(uint64(seq))
	return x.Done()
}

func (s *Server) listExecutions(x *web.Exchange) error {
	limit, cursor, err := x.Query.Page()
	if err != nil {
		return err
	}
	q := execution.ListQuery{
		Session: x.Query.Text("session"), Limit: limit, After: cursor, Allowed: grants.Sessions(x),
	}
	switch q.Status = x.Query.Text("status"); q.Status {
	case "", execution.StatusQueued, execution.StatusRunning, execution.StatusEnded:
	default:
		return web.BadRequest("status", "queued, running or ended is taken")
	}
	for _, label := range x.Query["label"] {
		key, value, ok := strings.Cut(label, "=")
		if !ok || key == "" {
			return web.BadRequest("label", "KEY=VALUE is taken")
		}
		if _, twice := q.Labels[key]; twice {
			return web.BadRequest("label", "a label is given twice")
		}
		if q.Labels == nil {
			q.Labels = map[string]string{}
		}
		q.Labels[key] = value
	}
	page, err := s.host.List(x.R.Context(), x.Who.Tenant, q)
	if err != nil {
		return x.Query.ListError(err)
	}
	return x.Answer(http.StatusOK, struct {
		Executions []executionBody `json:"executions"`
		NextCursor string          `json:"next_cursor"`
	}{showExecutions(page.Executions), page.Next})
}

func (s *Server) showExecution(x *web.Exchange) error {
	id := x.R.PathValue("id")
	if err := s.grants.MayRead(x, id); err != nil {
		return err
	}
	e, err := s.host.Show(x.R.Context(), x.Who.Tenant, id)
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, showExecution(e))
}

// showRequest shows what is kept of the request of an execution.
func (s *Server) showRequest(x *web.Exchange) error {
	id := x.R.PathValue("id")
	if err := s.grants.MayRead(x, id); err != nil {
		return err
	}
	req, missing, err := s.host.Requested(x.R.Context(), x.Who.Tenant, id)
	if err != nil {
		return err
	}
	if missing == nil {
		missing = []string{}
	}
	return x.Answer(http.StatusOK, client.KeptRequest{Request: client.StartRequest(req), Missing: missing})
}

// id returns the id of the execution or session in the path. It validates the id for methods that accept a missing
// object.
func id(x *web.Exchange) (string, error) {
	id := x.R.PathValue("id")
	if field, malformed := errors.AsType[*execution.FieldError](execution.CheckID(id)); malformed {
		return "", web.BadRequest(field.Field, field.Reason)
	}
	return id, nil
}

func (s *Server) removeExecution(x *web.Exchange) error {
	id, err := id(x)
	if err != nil {
		return err
	}
	err = s.grants.MayUse(x, identity.ScopeControl, id)
	if err == nil {
		err = s.host.Remove(x.R.Context(), x.Who.Tenant, id)
	}
	if err != nil && !errors.Is(err, reprise.ErrNotFound) {
		return err
	}
	return x.Done()
}

// configureExecution changes the retention and the labels of an execution.
func (s *Server) configureExecution(x *web.Exchange) error {
	id := x.R.PathValue("id")
	if err := s.grants.MayUse(x, identity.ScopeControl, id); err != nil {
		return err
	}
	var body execution.Change
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	if err := s.host.Configure(x.R.Context(), x.Who.Tenant, id, &body); err != nil {
		return err
	}
	e, err := s.host.Show(x.R.Context(), x.Who.Tenant, id)
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, showExecution(e))
}

func (s *Server) signalExecution(x *web.Exchange) error {
	id := x.R.PathValue("id")
	if err := s.grants.MayUse(x, identity.ScopeControl, id); err != nil {
		return err
	}
	var body struct {
		Signal string `json:"signal"`
	}
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	if body.Signal == "" {
		return web.Unprocessable("signal", "the name of a signal is needed, for example INT")
	}
	if err := s.host.Signal(x.R.Context(), x.Who.Tenant, id, body.Signal); err != nil {
		return err
	}
	return x.Done()
}

// maxScreen is the maximum number of columns and of rows in a request.
const maxScreen = 65535

func (s *Server) executionScreen(x *web.Exchange) error {
	id := x.R.PathValue("id")
	if err := s.grants.MayRead(x, id); err != nil {
		return err
	}
	cols, err := x.Query.Number("cols", 0, 1, maxScreen)
	if err != nil {
		return err
	}
	rows, err := x.Query.Number("rows", 0, 1, maxScreen)
	if err != nil {
		return err
	}
	screen, err := s.host.Screen(x.R.Context(), x.Who.Tenant, id, execution.TTY{Cols: int(cols), Rows: int(rows)})
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, screen)
}

func (s *Server) resizeExecution(x *web.Exchange) error {
	var size execution.TTY
	if err := x.DecodeBody(&size); err != nil {
		return err
	}
	id := x.R.PathValue("id")
	if err := s.grants.MayUse(x, identity.ScopeControl, id); err != nil {
		return err
	}
	if err := s.host.Resize(x.R.Context(), x.Who.Tenant, id, size); err != nil {
		return err
	}
	return x.Done()
}

func (s *Server) cancelExecution(x *web.Exchange) error {
	id := x.R.PathValue("id")
	if err := s.grants.MayUse(x, identity.ScopeControl, id); err != nil {
		return err
	}
	if err := s.host.Cancel(x.R.Context(), x.Who.Tenant, id); err != nil {
		return err
	}
	return x.Done()
}

func (s *Server) writeStdin(x *web.Exchange) error {
	const maxOffset = 1<<63 - 1
	offset, err := x.Query.Number("offset", -1, 0, maxOffset)
	if err != nil {
		return err
	}
	eof, err := x.Query.Flag("eof")
	if err != nil {
		return err
	}
	id := x.R.PathValue("id")
	if err := s.grants.MayUse(x, identity.ScopeControl, id); err != nil {
		return err
	}
	body, err := x.Body(s.opts.MaxStdin)
	if err != nil {
		return err
	}
	stdin, err := s.host.WriteStdin(x.R.Context(), x.Who.Tenant, id,
		execution.StdinWrite{Offset: offset, Writer: x.Query.Text("writer"), Data: body, EOF: eof})
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, stdin)
}
