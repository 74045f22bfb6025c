package execution

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/execution/command"
	"reprise/internal/interpreter"
	"reprise/internal/quota"
)

// InterpreterRequest describes an interpreter to open.
type InterpreterRequest client.InterpreterRequest

// Interpreter describes an interpreter. It is the body of GET /v1/interpreters/{id}, except the links. An interpreter
// is an execution, whose output is written by its driver.
type Interpreter struct {
	ID       string            `json:"id"`
	Language string            `json:"language"`
	Session  string            `json:"session,omitempty"`
	Status   Status            `json:"status"`
	Outcome  *Outcome          `json:"outcome"`
	Error    string            `json:"error,omitempty"`
	Cwd      string            `json:"cwd"`
	Labels   map[string]string `json:"labels"`
	Created  Time              `json:"created"`
	Ended    *Time             `json:"ended"`
	// Running is the id of the running execution, or "" while the interpreter waits for code.
	Running string `json:"running,omitempty"`
	// Runs is the number of runs so far, and Used the end of the last one. Both are absent once the interpreter has
	// ended.
	Runs *int  `json:"runs,omitempty"`
	Used *Time `json:"used,omitempty"`
	// IdleTimeout and Timeout are when it ends by itself: after so long without code, and after so long in all.
	IdleTimeout Duration   `json:"idle_timeout,omitzero"`
	Timeout     Duration   `json:"timeout,omitzero"`
	Isolation   *Isolation `json:"isolation"`
}

// drivenProgress is the state that a running interpreter reports.
type drivenProgress struct {
	Runs    int           `json:"runs"`
	Running string        `json:"running,omitempty"`
	Used    time.Time     `json:"used"`
	Idle    time.Duration `json:"idle"`
}

func (d *driven) progress() *drivenProgress { return d.shown.Load() }

// report makes the state the progress. The caller holds mu.
func (d *driven) report() {
	p := &drivenProgress{Runs: d.state.Runs, Used: d.state.Used, Idle: d.state.Idle}
	if d.state.Current != nil {
		p.Running = strings.TrimPrefix(d.state.Current.Name, namespace)
	}
	d.shown.Store(p)
}

// begin sets the directory that the state is written to, and starts the time that the interpreter may be without code.
func (d *driven) begin(r *run, dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dir, d.state.Used = dir, time.Now()
	d.report()
	d.rest(r)
	_ = d.save() // it is saved again with the first code
}

// planDriver makes the plan of an interpreter run its driver, which is put into a new folder, below dir where it can.
func (r *run) planDriver(p *command.Plan, dir string) (folder string, err error) {
	l := interpreter.Lookup(r.driven.language)
	code := &language{file: l.File}
	file, err := code.writeCode(codeDir(r.isolation, dir), l.Driver)
	if err != nil {
		return "", err
	}
	folder = filepath.Dir(file)
	if err = show(r.isolation, folder); err != nil {
		return folder, err
	}
	path := command.Variable(p.Environ, "PATH")
	find := func(program string) (string, error) { return command.LookPath(r.isolation.User, program, path) }
	p.Argv, err = l.Argv(find, file)
	return folder, err
}

// request is the execution that an interpreter is.
func (q *InterpreterRequest) request() Request {
	return Request{
		ID: q.ID, IdempotencyKey: q.IdempotencyKey, Session: q.Session, Cwd: q.Cwd, Env: q.Env, Labels: q.Labels,
		Argv: []string{q.Language}, StdinOpen: true, Timeout: q.Timeout, Grace: q.Grace,
		Limits: q.Limits, Isolation: q.Isolation, Access: q.Access,
	}
}

// OpenInterpreter starts an interpreter, or finds the one that the same request has started before under the same id or
// idempotency key; created reports which.
//
// The errors are those of Start, a *FieldError of the field "language" if the machine does not have the interpreter,
// and reprise.ErrQuota if there are already Options.MaxInterpreters.
func (h *Host) OpenInterpreter(ctx context.Context, who *quota.Holder, q InterpreterRequest) (
	i Interpreter, created bool, err error,
) {
	req := q.request()
	l := interpreter.Lookup(q.Language)
	if l == nil {
		return i, false, invalid("language", "%q is not one of %s", q.Language,
			strings.Join(interpreter.Languages(), ", "))
	}
	if q.IdleTimeout < 0 {
		return i, false, invalid("idle_timeout", "is negative")
	}
	if err := req.Validate(); err != nil {
		return i, false, err
	}
	if err := h.caps(who.Tenant).check(&req); err != nil {
		return i, false, err
	}
	plan, err := h.isolate(who.Tenant, &req)
	if err != nil {
		return i, false, err
	}
	path := command.Variable(environ(userEnviron(plan.User, os.Environ()), h.opts.PassEnv, req.Env, false), "PATH")
	find := func(program string) (string, error) { return command.LookPath(plan.User, program, path) }
	if _, err := l.Argv(find, ""); err != nil {
		return i, false, invalid("language", "%v", err)
	}
	idle := h.opts.InterpreterIdle
	if q.IdleTimeout > 0 {
		idle = min(time.Duration(q.IdleTimeout), idle)
	}
	x, created, err := h.startAs(ctx, who, req, newDriven(q.Language, idle))
	if err != nil {
		return i, false, err
	}
	return interpreterOf(&x, q.Language), created, nil
}

// fitsInterpreter counts an interpreter that is about to be known, until opened is called, if one more may be there.
// With several principals, none gets all places: see queue.hasShare.
func (h *Host) fitsInterpreter(r *run) (opened func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, own := 0, 0
	count := func(other *run) {
		if other.driven != nil && !h.queue.hasLeft(other) {
			n++
			if other.holder.Account == r.holder.Account {
				own++
			}
		}
	}
	for _, other := range h.runs {
		count(other)
	}
	for other := range h.opening {
		if h.runs[other.key] != other {
			count(other)
		}
	}
	if n >= h.opts.MaxInterpreters {
		return nil, fmt.Errorf("%w: there are %d interpreters", reprise.ErrQuota, n)
	}
	if !h.queue.hasShare(own, h.opts.MaxInterpreters-n) {
		return nil, fmt.Errorf("%w: %d of %d interpreters are of the same principal", reprise.ErrQuota, own, n)
	}
	h.opening[r] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.opening, r)
	}, nil
}

// interpreterOf shows the execution that an interpreter is.
func interpreterOf(x *Execution, language string) Interpreter {
	i := Interpreter{
		ID: x.ID, Language: language, Session: x.Session, Status: x.Status, Outcome: x.Outcome, Error: x.Error,
		Cwd:    x.Cwd,
		Labels: x.Labels, Created: x.Created, Ended: x.Ended, Timeout: x.Timeout, Isolation: x.Isolation,
	}
	if p := x.driven; p != nil {
		i.Running, i.Runs, i.Used, i.IdleTimeout = p.Running, &p.Runs, ms(p.Used), Duration(p.Idle)
	}
	return i
}

// errNoInterpreter is reprise.ErrNotFound for an interpreter.
var errNoInterpreter = fmt.Errorf("%w: there is no interpreter with this id", reprise.ErrNotFound)

// Interpreter returns one interpreter. The errors are those of Show. For an execution that is not an interpreter the
// error is reprise.ErrNotFound.
func (h *Host) Interpreter(ctx context.Context, tenant reprise.Tenant, id string) (Interpreter, error) {
	s, info, err := h.streamInfo(ctx, tenant, id)
	if errors.Is(err, reprise.ErrNotFound) {
		err = errNoInterpreter
	}
	if err != nil {
		return Interpreter{}, err
	}
	language := info.Config.Labels[labelInterpreter]
	if language == "" {
		return Interpreter{}, errNoInterpreter
	}
	x, err := h.show(ctx, s)
	return interpreterOf(&x, language), err
}

// Interpreters returns the interpreters of a tenant that are kept, the newest first, as far as allowed says, for the
// session of each.
func (h *Host) Interpreters(ctx context.Context, tenant reprise.Tenant, allowed func(session string) bool) (
	[]Interpreter, error,
) {
	var found []Execution
	languages := map[string]string{}
	err := h.each(ctx, tenant, func(info *reprise.StreamInfo, x *Execution) {
		language := info.Config.Labels[labelInterpreter]
		if language != "" && (allowed == nil || allowed(x.Session)) {
			languages[x.ID] = language
			found = append(found, *x)
		}
	})
	if err != nil {
		return nil, err
	}
	list := make([]Interpreter, 0, len(found))
	for _, x := range h.withWindows(ctx, tenant, &ListQuery{}, found) {
		list = append(list, interpreterOf(&x, languages[x.ID]))
	}
	return list, nil
}

// interruptPause is the time that code has to end after one signal, before the next signal of its language is sent.
const interruptPause = 100 * time.Millisecond

// Interrupt interrupts the running code of an interpreter with signals, but not the interpreter. Without running code
// it does nothing. The errors are those of Signal and of Interpreter.
func (h *Host) Interrupt(ctx context.Context, tenant reprise.Tenant, id string) error {
	i, err := h.Interpreter(ctx, tenant, id)
	switch {
	case err != nil:
		return err
	case i.Status == StatusEnded:
		return errHasEnded
	case i.Running == "":
		return nil
	}
	for n, name := range interpreter.Interrupts(i.Language) {
		if n > 0 && h.codeEnds(ctx, tenant, i) {
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
func (h *Host) codeEnds(ctx context.Context, tenant reprise.Tenant, was Interpreter) bool {
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
		if now, err := h.Interpreter(ctx, tenant, was.ID); err == nil && now.Running != was.Running {
			return true
		}
	}
}
