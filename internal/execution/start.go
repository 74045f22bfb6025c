package execution

import (
	"context"
	"errors"
	"os"
	"time"

	"reprise"
	"reprise/internal/execution/command"
	"reprise/internal/isolation"
	"reprise/internal/quota"
)

// Start starts an execution, or finds the one that the same request has started before under the same id or idempotency
// key; created reports which. It returns when the execution is kept. Its process may start later, because the execution
// may have to wait for its turn. The caller must not change the data that req refers to afterwards.
//
// The error is a *FieldError (of the field "isolation" if the machine does not support the request, "secrets" if there
// is no such secret), reprise.ErrConflict if the id was used for another request, reprise.ErrQuota if too many
// executions wait, or too many of one principal, reprise.ErrClosed after Stop, or an error of the Log. A program that
// cannot be started is not an error but an outcome.
//
// A request with a Key finds the current execution of the key while that has not ended, and after it has exited with
// code 0. Otherwise another execution is started. Of any number of concurrent calls, on any replicas, that follow an
// end, one starts the next execution and the others find it, however it ends.
func (h *Host) Start(ctx context.Context, tenant reprise.Tenant, req Request) (x Execution, created bool, err error) {
	return h.StartFor(ctx, &quota.Holder{Account: quota.Account{Tenant: tenant}}, req)
}

// StartFor is Start for a principal: the execution counts in the accounts of the principal and its tenant. The error is
// a *quota.Error if one of them has no room. If both have room but no turn is free, the execution waits.
func (h *Host) StartFor(ctx context.Context, who *quota.Holder, req Request) (x Execution, created bool, err error) {
	switch err := h.check(who, &req); {
	case err != nil:
		return Execution{}, false, err
	case req.Interpreter != "": // from the starts of its sender, wherever it runs
		if err := h.opts.Quotas.Spend(who, quota.Starts, 1); err != nil {
			return Execution{}, false, err
		}
		if x, created, err = h.startInside(ctx, who.Account, req); !created {
			h.opts.Quotas.Refund(who, quota.Starts, 1)
		}
		return x, created, err
	case req.Key != "":
		return h.startKeyed(ctx, who, req)
	}
	return h.start(ctx, who, req, "", nil)
}

// check refuses a request that cannot be started at all.
func (h *Host) check(who *quota.Holder, req *Request) error {
	if err := req.Validate(); err != nil {
		return err
	}
	return h.caps(who.Tenant).check(req)
}

// StartDriven is StartFor for an interpreter of a name, which ends when it was not used for an idle time. 0 and more
// than Options.InterpreterIdle stand for that. The error is a *FieldError of the field "language" if the machine does
// not have its program, and reprise.ErrQuota if there are already Options.MaxInterpreters.
func (h *Host) StartDriven(ctx context.Context, who *quota.Holder, req Request, name string, idle time.Duration) (
	x Execution, created bool, err error,
) {
	if idle == 0 || idle > h.opts.InterpreterIdle {
		idle = h.opts.InterpreterIdle
	}
	d, err := h.opts.Drive(name, idle)
	if err != nil {
		return Execution{}, false, invalid("language", "%v", err)
	}
	if err := h.check(who, &req); err != nil {
		return Execution{}, false, err
	}
	return h.start(ctx, who, req, name, d)
}

// findProgram refuses an interpreter whose program the command would not find.
func (h *Host) findProgram(d Driver, req *Request, plan *isolation.Plan) error {
	program, _ := d.Program()
	environ := environ(userEnviron(plan.User, os.Environ()), h.opts.PassEnv, req.Env, false)
	if _, err := program.Argv(finder(plan, environ), ""); err != nil {
		return invalid("language", "%v", err)
	}
	return nil
}

// start is Start for a request that is valid, and whose key, if it has one, has become an ID. d is the driver of an
// interpreter of a name, or nil.
func (h *Host) start(ctx context.Context, who *quota.Holder, req Request, name string, d Driver) (
	x Execution, created bool, err error,
) {
	key := keyOf(who.Tenant, h.id(who.Tenant, &req))
	config := h.config(&req)
	if who.Principal != "" {
		config.Labels[reprise.AccountLabel] = who.Principal
	}
	if d != nil {
		config.Labels[labelDriver] = name
	}
	named := named(key, &req)
	if named != nil {
		if x, done, err := h.recorded(ctx, named, &config); done || err != nil {
			return x, false, err
		}
	}
	plan, err := h.isolate(who.Tenant, &req)
	if err == nil {
		_, err = h.secrets(who.Tenant, &req)
	}
	if err == nil && d != nil {
		err = h.findProgram(d, &req, plan)
	}
	if err != nil {
		return h.attachOrFail(ctx, key, config, err)
	}
	unlock, err := h.lock(ctx, key)
	if err != nil {
		return Execution{}, false, err
	}
	defer unlock()
	r := newRun(h, key, req, plan)
	if h.supervisors == nil {
		r.job = command.NewJob(req.StdinOpen, req.TTY != nil, r.Decision)
	}
	r.holder, r.driver, r.named = *who, d, named
	if r.owner, err = h.owner(); err != nil {
		return Execution{}, false, err
	}
	if err = h.reserve(r); err != nil {
		return h.attachOrFail(ctx, key, config, err)
	}
	r.config, r.hold = config, newHold(time.Duration(req.Hold), h.log.Retention(config))
	stream, created, err := h.create(ctx, r)
	if err != nil || !created {
		h.dismiss(r)
	}
	return h.started(ctx, stream, created, err, named, &config)
}

// attachOrFail finds the execution that was started by an equal request, while none can be started. Otherwise the error
// is why.
func (h *Host) attachOrFail(ctx context.Context, key reprise.StreamKey, config reprise.StreamConfig, why error) (
	x Execution, created bool, err error,
) {
	s, info, err := lookUp(ctx, h.log, key)
	if err == nil && s != nil && isStartedBy(&info, &config) {
		if x, err = h.show(ctx, s); err == nil {
			return x, false, nil
		}
	}
	return Execution{}, false, why
}

// createStream makes the stream of r. An empty stream of this replica without a run is taken as made: it was left by an
// earlier start that did not learn that it was created. The error is a *recordedError if the name is remembered.
func (h *Host) createStream(ctx context.Context, r *Run) (s *reprise.Stream, created bool, err error) {
	s, created, err = h.log.CreateWith(ctx, reprise.CreateOptions{Owner: r.owner}, r.key, r.config)
	if errors.Is(err, reprise.ErrConflict) {
		changed, info, unknown := lookUp(ctx, h.log, r.key)
		if unknown == nil && changed != nil && isStartedBy(&info, &r.config) {
			s, err = changed, nil
		}
	}
	if err == nil && created && r.named != nil {
		err = h.checkCreated(ctx, s, r.named, &r.config)
	}
	if err != nil || created || h.find(r.key) != nil {
		return s, created, err
	}
	info, err := s.Info(ctx)
	return s, err == nil && info.Tail == 0 && info.End == nil && info.Owner == r.owner, err
}

// create makes the stream and lets the run go. created is false if the execution was
// there.
func (h *Host) create(ctx context.Context, r *Run) (s *reprise.Stream, created bool, err error) {
	s, created, err = h.createStream(ctx, r)
	if err != nil {
		return nil, false, err
	}
	if created {
		r.writeAs(s, producerID)
		if err := r.keepWaiting(); err != nil {
			r.Logger().Error("an execution that has to wait cannot be written down", "error", err)
			r.Stop(command.Verdict{
				Outcome: FailedToStart, Reason: "it has to wait, and that cannot be kept: " + err.Error(),
			})
		}
		h.admit(r)
	}
	return s, created, nil
}

// Grace is the time between TERM and KILL.
func (r *Run) Grace() time.Duration {
	grace := r.host.opts.Grace
	if r.request.Grace > 0 {
		grace = time.Duration(r.request.Grace)
	}
	return atMost(grace, r.host.caps(r.key.Tenant).Grace)
}
