package execution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/execution/command"
	"reprise/internal/execution/supervisor"
	"reprise/internal/interpreter"
	"reprise/internal/quota"
)

// This file runs code in interpreters.

// checkInside holds for a request with an Interpreter: the code is all that it can say of the command.
func (r *Request) checkInside() error {
	if r.Clear == (r.Code != "") {
		return invalid("code", "an interpreter is given either code or clear")
	}
	if err := checkID("interpreter", r.Interpreter); err != nil {
		return err
	}
	for _, field := range []struct {
		name  string
		given bool
	}{
		{"argv", len(r.Argv) > 0},
		{"command", r.Command != ""},
		{"shell", r.Shell != ""},
		{"language", r.Language != ""},
		{"key", r.Key != ""},
		{"session", r.Session != ""},
		{"cwd", r.Cwd != ""},
		{"env", len(r.Env) > 0},
		{"stdin", r.Stdin != nil},
		{"stdin_base64", r.StdinBase64 != nil},
		{"stdin_open", r.StdinOpen},
		{"tty", r.TTY != nil},
		{"artifacts", len(r.Artifacts) > 0},
		{"kill_on_disconnect", r.KillOnDisconnect},
		{"secrets", len(r.Secrets) > 0},
		{"limits", r.Limits != Limits{}},
		{"isolation", r.Isolation != ""},
		{"user", r.User != ""},
		{"access", r.Access.Network != "" || len(r.Access.Writable)+len(r.Access.Readable)+len(r.Access.Hidden) > 0},
	} {
		if field.given {
			return invalid(field.name, "is the interpreter's, and does not go with code that runs in one")
		}
	}
	if hasNUL(r.Code) {
		return invalid("code", "holds a NUL")
	}
	return nil
}

// errBusy is why code is refused.
var errBusy = fmt.Errorf("%w: the interpreter runs other code: wait for its end, or interrupt it", reprise.ErrConflict)

// startInsideFor is startInside for a principal, from whose starts the code is taken.
func (h *Host) startInsideFor(ctx context.Context, who *quota.Holder, req Request) (
	x Execution, created bool, err error,
) {
	if err := h.opts.Quotas.Spend(who, quota.Starts, 1); err != nil {
		return Execution{}, false, err
	}
	x, created, err = h.startInside(ctx, who.Account, req)
	if !created {
		h.opts.Quotas.Refund(who, quota.Starts, 1)
	}
	return x, created, err
}

// startInside is start for code that runs in an interpreter. It is kept on the account of its sender, who need not have
// opened the interpreter.
func (h *Host) startInside(ctx context.Context, who quota.Account, req Request) (
	x Execution, created bool, err error,
) {
	tenant := who.Tenant
	id := h.id(tenant, &req)
	named, config := named(keyOf(tenant, id), &req), h.config(&req)
	if named != nil {
		if x, done, err := h.recorded(ctx, named, &config); done || err != nil {
			return x, false, err
		}
	}
	inside, owner, err := h.whoRuns(ctx, tenant, req.Interpreter)
	switch {
	case err != nil:
		return Execution{}, false, fmt.Errorf("interpreter %s: %w", req.Interpreter, err)
	case owner != "":
		return h.startInsideElsewhere(ctx, owner, who, id, req)
	case inside == nil || inside.driven == nil:
		if x, attached := h.attachInside(ctx, who, id, &req); attached {
			return x, false, nil
		}
		if inside == nil {
			return Execution{}, false, fmt.Errorf("%w: interpreter %s", reprise.ErrEnded, req.Interpreter)
		}
		return Execution{}, false, invalid("interpreter", "%s is an execution and no interpreter", req.Interpreter)
	}
	key := keyOf(tenant, id)
	unlock, err := h.lock(ctx, key)
	if err != nil {
		return Execution{}, false, err
	}
	defer unlock()
	stream, created, err := h.createInside(ctx, inside, key, id, who.Principal, req)
	return h.started(ctx, stream, created, err, named, &config)
}

// attachInside finds the execution that the same request has started before, in an interpreter that has ended.
func (h *Host) attachInside(ctx context.Context, who quota.Account, id string, req *Request) (Execution, bool) {
	_, info, err := h.streamInfo(ctx, who.Tenant, req.Interpreter)
	if err != nil {
		return Execution{}, false
	}
	return h.attach(ctx, keyOf(who.Tenant, id), h.insideConfig(who.Principal, req, &info.Config))
}

// insideConfig is the configuration of the stream of code of a principal, which is in the session of its interpreter.
func (h *Host) insideConfig(principal string, req *Request, of *reprise.StreamConfig) reprise.StreamConfig {
	config := h.config(req)
	config.Labels[labelSession] = of.Labels[labelSession]
	if config.Labels[labelSession] == "" {
		delete(config.Labels, labelSession)
	}
	if principal != "" {
		config.Labels[reprise.AccountLabel] = principal
	}
	return config
}

// createInside makes the stream of the code and lets it run, unless the same was done before.
func (h *Host) createInside(ctx context.Context, inside *run, key reprise.StreamKey, id, principal string,
	req Request,
) (s *reprise.Stream, created bool, err error) {
	d := inside.driven
	config := h.insideConfig(principal, &req, &inside.config)
	if d.progress().Running != "" { // mu may be held for long
		return h.attachOr(ctx, key, config, errBusy)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over:
		return h.attachOr(ctx, key, config, fmt.Errorf("%w: interpreter %s", reprise.ErrEnded, req.Interpreter))
	case d.state.Current != nil:
		return h.attachOr(ctx, key, config, errBusy)
	}
	code := newRun(h, key, req, nil)
	code.inside, code.session, code.config, code.named = inside, inside.session, config, named(key, &req)
	code.hold = newHold(time.Duration(req.Hold), h.log.Retention(config))
	if code.owner, err = h.owner(); err != nil {
		return nil, false, err
	}
	if err := h.reserve(code); err != nil {
		return nil, false, err
	}
	s, created, err = h.createStream(ctx, code)
	if err != nil || !created {
		h.dismiss(code)
		return s, false, err
	}
	what := interpreter.Code{Number: d.state.Runs + 1, Text: req.Code, Clear: req.Clear}
	input, marks := what.Request()
	d.state.Runs++
	d.state.Slice.Begin(marks)
	d.state.Current = &codeState{
		Name: key.Name, Epoch: s.Cursor(0).Epoch, Input: input, Started: time.Now(),
		Timeout: code.timeout(), Grace: code.grace(), Tail: 1,
	}
	d.report()
	code.writeAs(s, producerID)
	d.current = code
	if err := d.save(); err != nil {
		h.opts.Logger.Error("the state of an interpreter cannot be kept", "execution", inside.id, "error", err)
	}
	code.announceInside()
	code.goInside(*d.state.Current)
	return s, true, nil
}

// attachOr finds the code that the same request has started before. Otherwise the error is refused.
func (h *Host) attachOr(ctx context.Context, key reprise.StreamKey, config reprise.StreamConfig, refused error) (
	s *reprise.Stream, created bool, err error,
) {
	if _, attached := h.attach(ctx, key, config); !attached {
		return nil, false, refused
	}
	s, err = h.log.Stream(ctx, key)
	return s, false, err
}

// announceInside appends the started event, before all output. Where it cannot, the output cannot be kept either. It
// does not wait for room, since the run cannot be cancelled yet.
func (r *run) announceInside() {
	r.hasty = true
	defer func() { r.hasty = false }()
	data := mustMarshal(struct {
		ID          string `json:"id"`
		Interpreter string `json:"interpreter"`
	}{r.id, r.request.Interpreter})
	if err := r.append([]reprise.Event{{Type: eventStarted, Format: reprise.FormatMembers, Data: data}}); err != nil {
		if isFull(err) {
			r.dropRest()
			return
		}
		r.host.opts.Logger.Error("the start of code cannot be kept", "execution", r.id, "error", err)
	}
}

// coding is what the run of code in an interpreter has in place of a command.
type coding struct {
	inside *run // the interpreter; nil for a run with a command
	code   codeState
	over   chan struct{} // closed by codeOver
	// codeOver ends the run, whose end event is kept or cannot be.
	codeOver func()
	// signals is held while code gets a signal. It gets none once codeEnded is set, before its end is appended: the
	// interpreter may then run other code.
	signals   sync.Mutex
	codeEnded bool
}

// goInside makes the run known and sends its code. The caller holds the mu of the interpreter.
func (r *run) goInside(at codeState) {
	r.code, r.over = at, make(chan struct{})
	r.codeOver = sync.OnceFunc(func() { close(r.over) })
	isolated := r.inside.state().Isolation
	r.mu.Lock()
	r.shown = command.State{StartedAt: at.Started, Isolation: isolated}
	r.mu.Unlock()
	r.host.admit(r)
}

// attendInside sends the code, and ends it when that is decided: by the signals of its language, and after the time of
// grace with its interpreter.
func (r *run) attendInside() {
	inside, at := r.inside, &r.code
	ctx, cancel := context.WithCancel(r.host.ctx)
	defer cancel()
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		r.send(ctx)
	}()
	defer func() {
		cancel()
		<-sending
	}()
	var timeout, patience, again <-chan time.Time
	interrupts := interpreter.Interrupts(inside.driven.language)
	interrupt := func() (again <-chan time.Time) {
		_ = r.signalCode(ctx, interrupts[0])
		if interrupts = interrupts[1:]; len(interrupts) == 0 {
			return nil
		}
		return time.After(interruptPause)
	}
	if at.Timeout > 0 {
		timer := time.NewTimer(time.Until(at.Started.Add(at.Timeout)))
		defer timer.Stop()
		timeout = timer.C
	}
	stopping := r.Stopping()
	for {
		select {
		case <-r.over:
			return
		case <-inside.done:
			return
		case <-r.host.ctx.Done():
			return
		case <-timeout:
			r.Stop(command.Verdict{Outcome: TimedOut})
		case <-stopping:
			stopping = nil
			grace := at.Grace
			if r.IsNow() {
				grace = 0
			}
			timer := time.NewTimer(grace)
			defer timer.Stop()
			patience, again = timer.C, interrupt()
		case <-again:
			again = interrupt()
		case <-patience:
			patience = nil
			inside.Stop(command.Verdict{
				Outcome: Cancelled, Reason: "its code did not end when it was interrupted", Now: true,
			})
		}
	}
}

// controlCode does what a Control asks of code: its interpreter has the process.
func (r *run) controlCode(ctx context.Context, c *command.Control) error {
	switch {
	case c.Op == command.OpSignal:
		return r.signalCode(ctx, c.Signal)
	case c.Stdin != nil:
		return errStdinNotOpened
	case c.Op == command.OpResize:
		return errNoTerminal
	}
	return supervisor.Refused(c.Unknown())
}

// signalCode sends a signal to the interpreter of code that it runs.
func (r *run) signalCode(ctx context.Context, name string) error {
	r.signals.Lock()
	defer r.signals.Unlock()
	if r.codeEnded {
		return errHasEnded
	}
	_, err := r.inside.Control(ctx, &command.Control{Op: command.OpSignal, Signal: name})
	return err
}

// send gives the driver the request, once, however often it is tried.
func (r *run) send(ctx context.Context) {
	pause := backoff.Backoff{First: firstRetry, Most: lastRetry}
	for {
		w := stdinWriter{to: r.inside}
		err := w.write(ctx, StdinWrite{Writer: inName([]byte(r.code.Epoch)), Data: bytes.NewReader(r.code.Input)})
		if err == nil || !errors.Is(err, reprise.ErrUnavailable) || pause.Wait(ctx) != nil {
			return // an interpreter that stops reading ends, and its code with it
		}
	}
}

// resumeCode takes up the run of code of an interpreter of an earlier server.
func (h *Host) resumeCode(ctx context.Context, inside *run) error {
	d := inside.driven
	at := *d.state.Current
	key := reprise.StreamKey{Tenant: inside.key.Tenant, Name: at.Name}
	s, info, err := lookUp(ctx, h.log, key)
	if err != nil || s == nil || info.Epoch != at.Epoch || info.End != nil {
		return err // without an error, it was removed: nobody reads the rest
	}
	code, err := h.takeUp(ctx, &info, Request{Interpreter: inside.id, Grace: Duration(at.Grace)})
	if err != nil {
		return err
	}
	code.inside, code.session = inside, inside.session
	_, _ = code.countKept(ctx, info.Tail) // otherwise its end counts the rest alone
	if err := h.reserve(code); err != nil {
		return err
	}
	d.current = code
	if code.tail == 0 {
		code.announceInside()
	}
	code.goInside(at)
	return nil
}

// startInsideElsewhere has another replica start code, in an interpreter that it runs.
func (h *Host) startInsideElsewhere(ctx context.Context, owner string, who quota.Account, id string, req Request) (
	Execution, bool, error,
) {
	req.ID = id
	t, err := h.ask(ctx, owner, ask{
		Control: command.Control{Op: opInside}, Tenant: who.Tenant, ID: req.Interpreter,
		Start: &askStart{req, req.IdempotencyKey, who.Principal},
	})
	if err != nil {
		return Execution{}, false, err
	}
	x, err := h.Show(ctx, who.Tenant, id)
	return x, t.Created, err
}
