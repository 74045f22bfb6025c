package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/tracecontext"
	"reprise/ssehttp"
)

// The headers of a start.
const (
	executionIDHeader    = "Execution-Id"
	idempotencyKeyHeader = "Idempotency-Key"
)

// executionBody is how an execution is shown.
type executionBody struct {
	execution.Execution
	Links executionLinks `json:"links"`
}

type executionLinks struct {
	Self   string `json:"self"`
	Events string `json:"events"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

func showExecution(e execution.Execution) executionBody {
	self := "/v1/executions/" + url.PathEscape(e.ID)
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
	trace := tracecontext.Of(x.r.Header)
	req.TraceParent, req.TraceState = trace.Parent, trace.State
	if err := req.Validate(); err != nil {
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

// start starts a run and names it in the header of the answer.
func (s *Server) start(ctx context.Context, x *exchange, req execution.Request) (
	e execution.Execution, created bool, err error,
) {
	e, created, err = s.host.Start(ctx, x.who.Tenant, req)
	if err == nil {
		x.w.Header().Set(executionIDHeader, e.ID)
		x.w.Header().Set("Location", "/v1/executions/"+url.PathEscape(e.ID))
	}
	return e, created, err
}

// startAndFollow answers a start with the events from the first one on. All that can be
// refused is refused before the start: a client that is told to try again must not
// have started something by then.
func (s *Server) startAndFollow(x *exchange, req execution.Request) error {
	position, err := ssehttp.ParseRequest(x.r)
	if err == nil {
		_, err = reprise.ParsePosition(position.After)
	}
	if err != nil {
		return err
	}
	ctx := x.r.Context()
	leave, err := s.enter(x)
	if err != nil {
		return err
	}
	defer leave()
	defer x.endWithConnection()()
	e, _, err := s.start(ctx, x, req)
	if err != nil {
		return err
	}
	defer s.host.Follow(x.who.Tenant, e.ID)()
	stream, err := s.host.Stream(ctx, x.who.Tenant, e.ID)
	if err != nil {
		return err
	}
	return s.send(x, &reading{stream: stream, form: sseType, Request: position})
}

func (s *Server) listExecutions(x *exchange) error {
	limit, cursor, err := x.query.page()
	if err != nil {
		return err
	}
	q := execution.ListQuery{Session: x.query.text("session"), Limit: limit, After: cursor}
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
		return err
	}
	return s.answer(x, http.StatusOK, struct {
		Executions []executionBody `json:"executions"`
		NextCursor string          `json:"next_cursor"`
	}{showExecutions(page.Executions), page.Next})
}

func (s *Server) showExecution(x *exchange) error {
	e, err := s.host.Show(x.r.Context(), x.who.Tenant, x.r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, showExecution(e))
}

// id is that of the execution or session that the path names. It is checked where one that does not exist is no error.
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
	if err := s.host.Remove(x.r.Context(), x.who.Tenant, id); err != nil {
		return err
	}
	return x.done()
}

func (s *Server) signalExecution(x *exchange) error {
	var body struct {
		Signal string `json:"signal"`
	}
	if err := s.decodeBody(x, &body); err != nil {
		return err
	}
	if body.Signal == "" {
		return unprocessable("signal", "the name of a signal is needed, for example INT")
	}
	if err := s.host.Signal(x.r.Context(), x.who.Tenant, x.r.PathValue("id"), body.Signal); err != nil {
		return err
	}
	return x.done()
}

func (s *Server) cancelExecution(x *exchange) error {
	if err := s.host.Cancel(x.r.Context(), x.who.Tenant, x.r.PathValue("id")); err != nil {
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
	body, err := s.body(x, s.opts.MaxStdin)
	if err != nil {
		return err
	}
	stdin, err := s.host.WriteStdin(x.r.Context(), x.who.Tenant, x.r.PathValue("id"),
		execution.StdinWrite{Offset: offset, Data: body, EOF: eof})
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, stdin)
}
