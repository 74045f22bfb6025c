package interpreter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/execution"
	"reprise/internal/quota"
	"reprise/internal/wire"
)

// Request describes an interpreter to open.
type Request client.InterpreterRequest

// Interpreter describes an interpreter. It is the body of GET /v1/interpreters/{id}, except the links.
type Interpreter = client.Interpreter

// interpreterOf shows the execution that an interpreter is.
func interpreterOf(x *execution.Execution) Interpreter {
	i := Interpreter{
		ID: x.ID, Language: x.Driver, Session: x.Session, Status: x.Status, Outcome: x.Outcome, Error: x.Error,
		Cwd: x.Cwd, Labels: x.Labels, Created: x.Created, Ended: x.Ended, Timeout: x.Timeout, Isolation: x.Isolation,
	}
	if p := x.Driven; p != nil {
		i.Running, i.Runs, i.Used = p.Running, &p.Runs, wire.At(p.Used)
		i.IdleTimeout = execution.Duration(p.Idle)
	}
	return i
}

// Open starts an interpreter, or finds the one that the same request has started before under the same id or
// idempotency key; created reports which. It returns the same errors as Host.StartDriven.
func Open(ctx context.Context, h *execution.Host, who *quota.Holder, q Request) (
	i Interpreter, created bool, err error,
) {
	if q.IdleTimeout < 0 {
		return i, false, &execution.FieldError{Field: "idle_timeout", Reason: "is negative"}
	}
	x, created, err := h.StartDriven(ctx, who, execution.Request{
		ID: q.ID, IdempotencyKey: q.IdempotencyKey, Session: q.Session, Cwd: q.Cwd, Env: q.Env, Labels: q.Labels,
		Argv: []string{q.Language}, StdinOpen: true, Timeout: q.Timeout, Grace: q.Grace,
		Limits: q.Limits, Isolation: q.Isolation, Access: q.Access,
	}, q.Language, time.Duration(q.IdleTimeout))
	if err != nil {
		return i, false, err
	}
	x.Driver = q.Language // also where the execution is only remembered
	return interpreterOf(&x), created, nil
}

// errNotFound is reprise.ErrNotFound for an interpreter.
var errNotFound = fmt.Errorf("%w: there is no interpreter with this id", reprise.ErrNotFound)

// Show returns one interpreter. It returns the same errors as Host.Show. For an execution that is not an interpreter
// the error is reprise.ErrNotFound.
func Show(ctx context.Context, h *execution.Host, tenant reprise.Tenant, id string) (Interpreter, error) {
	_, err := h.Stream(ctx, tenant, id) // otherwise what is only remembered would be shown
	var x execution.Execution
	if err == nil {
		x, err = h.Show(ctx, tenant, id)
	}
	if errors.Is(err, reprise.ErrNotFound) || err == nil && x.Driver == "" {
		err = errNotFound
	}
	if err != nil {
		return Interpreter{}, err
	}
	return interpreterOf(&x), nil
}

// List returns the interpreters of a tenant that are kept, the newest first, as far as allowed says, for the session of
// each.
func List(ctx context.Context, h *execution.Host, tenant reprise.Tenant, allowed func(session string) bool) (
	[]Interpreter, error,
) {
	found, err := h.Select(ctx, tenant, func(x *execution.Execution) bool {
		return x.Driver != "" && (allowed == nil || allowed(x.Session))
	})
	if err != nil {
		return nil, err
	}
	list := make([]Interpreter, len(found))
	for n := range found {
		list[n] = interpreterOf(&found[n])
	}
	return list, nil
}

// Interrupt interrupts the running code of an interpreter with signals, but not the interpreter. Without running code
// it does nothing. It returns the same errors as Host.Signal and Show.
func Interrupt(ctx context.Context, h *execution.Host, tenant reprise.Tenant, id string) error {
	i, err := Show(ctx, h, tenant, id)
	switch {
	case err != nil:
		return err
	case i.Status == execution.StatusEnded:
		return execution.ErrHasEnded
	case i.Running == "":
		return nil
	}
	for n, name := range interruptsOf(i.Language) {
		if n > 0 && codeEnds(ctx, h, tenant, i) {
			return nil
		}
		if err := h.Signal(ctx, tenant, i.Running, name); errors.Is(err, reprise.ErrEnded) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// codeEnds reports whether the code that the interpreter was ends within interruptPause, wherever it runs.
func codeEnds(ctx context.Context, h *execution.Host, tenant reprise.Tenant, was Interpreter) bool {
	ctx, cancel := context.WithTimeout(ctx, interruptPause)
	defer cancel()
	look := time.NewTicker(interruptPause / 20)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-look.C:
		}
		if now, err := Show(ctx, h, tenant, was.ID); err == nil && now.Running != was.Running {
			return true
		}
	}
}
