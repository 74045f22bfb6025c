package execution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"reprise"
	"reprise/internal/execution/command"
	"reprise/internal/execution/language"
	"reprise/internal/execution/supervisor"
	"reprise/internal/quota"
)

// A run may use its command as an interpreter: the run has a Driver, which gives the command code and finds in its
// output what belongs to each piece. A piece of code is an execution too, which runs inside the interpreter's: it
// has a stream, readers and an end of its own, but no command and no place in the queue. This file is what both sides
// need of the Host. The drivers are in package interpreter.

// labelDriver is the label of the stream of a run with a Driver. It holds the name that Options.Drive knows.
const labelDriver = "interpreter"

// Driver uses the command of one run as an interpreter.
type Driver interface {
	// Program returns the program of the command, and the text that it runs.
	Program() (p *language.Program, text string)
	// Begin is called before the command is started. What a later server needs belongs into dir, if that is not "".
	Begin(r *Run, dir string)
	// Resume takes up a run that an earlier server has begun.
	Resume(ctx context.Context, r *Run, created time.Time) error
	// Accept takes code, for which create makes a run. create returns nil if the code is not to run. The error is why
	// no code can be taken.
	Accept(req *Request, create func() *Run) error
	// Take is called with events of the run that are kept. The last of them is last. The error is why the Host goes.
	Take(events []reprise.Event, last uint64) error
	// End is called as the command has ended, before that is kept. The error is why the Host goes.
	End(e command.Ending) error
	// Progress does not block.
	Progress() *Driven
}

// Driven is the progress of an interpreter.
type Driven struct {
	// Runs is the number of pieces of code so far, Running the id of the one that runs, and Used the end of the last.
	Runs    int       `json:"runs"`
	Running string    `json:"running,omitempty"`
	Used    time.Time `json:"used"`
	// Idle ends it when it was not used for so long.
	Idle time.Duration `json:"idle"`
}

// inside is what a run of code has in place of a command.
type inside struct {
	outer  *Run                      // the interpreter; nil for a run with a command
	attend func(ctx context.Context) // returns once the run is over
	over   chan struct{}             // closed by SetOver
	once   sync.Once
	// signals is held while code gets a signal. It gets none once concluded is set, before its end is appended: the
	// interpreter may then run other code.
	signals   sync.Mutex
	concluded bool
}

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

// startInside is start for code that runs in an interpreter. It is kept on the account of its sender, who need not have
// opened the interpreter.
func (h *Host) startInside(ctx context.Context, who quota.Account, req Request) (
	x Execution, created bool, err error,
) {
	id := h.id(who.Tenant, &req)
	key, config := keyOf(who.Tenant, id), h.config(&req)
	named := named(key, &req)
	if named != nil {
		if x, done, err := h.recorded(ctx, named, &config); done || err != nil {
			return x, false, err
		}
	}
	outer, owner, err := h.whoRuns(ctx, who.Tenant, req.Interpreter)
	switch {
	case err != nil:
		return Execution{}, false, fmt.Errorf("interpreter %s: %w", req.Interpreter, err)
	case owner != "":
		return h.startInsideElsewhere(ctx, owner, who, id, req)
	case outer != nil && outer.driver != nil:
		return h.createInside(ctx, outer, key, who.Principal, req, named)
	case outer == nil:
		err = fmt.Errorf("%w: interpreter %s", reprise.ErrEnded, req.Interpreter)
	default:
		err = invalid("interpreter", "%s is an execution and no interpreter", req.Interpreter)
	}
	_, info, unknown := h.streamInfo(ctx, who.Tenant, req.Interpreter)
	if unknown != nil {
		return Execution{}, false, err
	}
	return h.attachOrFail(ctx, key, h.insideConfig(who.Principal, &req, &info.Config), err)
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
func (h *Host) createInside(ctx context.Context, outer *Run, key reprise.StreamKey, principal string, req Request,
	named *recall,
) (x Execution, created bool, err error) {
	unlock, err := h.lock(ctx, key)
	if err != nil {
		return Execution{}, false, err
	}
	defer unlock()
	config := h.insideConfig(principal, &req, &outer.config)
	var s *reprise.Stream
	refused := outer.driver.Accept(&req, func() *Run {
		code := newRun(h, key, req, nil)
		code.outer, code.session, code.config, code.named = outer, outer.session, config, named
		code.hold = newHold(time.Duration(req.Hold), h.log.Retention(config))
		if code.owner, err = h.owner(); err == nil {
			err = h.reserve(code)
		}
		if err != nil {
			return nil
		}
		if s, created, err = h.createStream(ctx, code); err != nil || !created {
			h.dismiss(code)
			return nil
		}
		code.writeAs(s, producerID)
		return code
	})
	if refused != nil {
		return h.attachOrFail(ctx, key, config, refused)
	}
	return h.started(ctx, s, created, err, named, &config)
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

// ResumeInside returns the run of code that an earlier server has left in an interpreter, by the name and the epoch of
// its stream. It is nil without an error if the stream was removed or has ended.
func (r *Run) ResumeInside(ctx context.Context, name string, epoch reprise.Epoch, grace time.Duration) (*Run, error) {
	h := r.host
	s, info, err := lookUp(ctx, h.log, reprise.StreamKey{Tenant: r.key.Tenant, Name: name})
	if err != nil || s == nil || info.Epoch != epoch || info.End != nil {
		return nil, err
	}
	code, err := h.takeUp(ctx, &info, Request{Interpreter: r.id, Grace: Duration(grace)})
	if err != nil {
		return nil, err
	}
	code.outer, code.session = r, r.session
	_, _ = code.countKept(ctx, info.Tail) // otherwise its end counts the rest alone
	return code, h.reserve(code)
}

// Enter makes a run of code known, which has begun at a time, and calls attend, which returns once it is over.
func (r *Run) Enter(began time.Time, attend func(ctx context.Context)) {
	if r.tail == 0 {
		r.announceInside()
	}
	r.attend, r.over = attend, make(chan struct{})
	isolated := r.outer.state().Isolation
	r.mu.Lock()
	r.shown = command.State{StartedAt: began, Isolation: isolated}
	r.mu.Unlock()
	r.host.admit(r)
}

// announceInside appends the started event, before all output. Where it cannot, the output cannot be kept either. It
// does not wait for room, since the run cannot be cancelled yet.
func (r *Run) announceInside() {
	r.hasty = true
	defer func() { r.hasty = false }()
	data := mustMarshal(struct {
		ID          string `json:"id"`
		Interpreter string `json:"interpreter"`
	}{r.id, r.request.Interpreter})
	err := r.append([]reprise.Event{{Type: eventStarted, Format: reprise.FormatMembers, Data: data}})
	if isFull(err) {
		r.dropRest()
	} else if err != nil {
		r.Logger().Error("the start of code cannot be kept", "error", err)
	}
}

// controlInside does what a Control asks of code: its interpreter has the process.
func (r *Run) controlInside(ctx context.Context, c *command.Control) error {
	switch {
	case c.Op == command.OpSignal:
		return r.Signal(ctx, c.Signal)
	case c.Stdin != nil:
		return errStdinNotOpened
	case c.Op == command.OpResize:
		return errNoTerminal
	}
	return supervisor.Refused(c.Unknown())
}

// Signal sends a signal to the interpreter of code that it runs.
func (r *Run) Signal(ctx context.Context, name string) error {
	r.signals.Lock()
	defer r.signals.Unlock()
	if r.concluded {
		return ErrHasEnded
	}
	_, err := r.outer.Control(ctx, &command.Control{Op: command.OpSignal, Signal: name})
	return err
}

// Send gives the interpreter of code its request, once, however often it is tried.
func (r *Run) Send(ctx context.Context, request []byte) {
	_ = retries.Repeat(ctx, func() bool { // an interpreter that stops reading ends, and its code with it
		w := stdinWriter{to: r.outer}
		err := w.write(ctx, StdinWrite{Writer: inName([]byte(r.Epoch())), Data: bytes.NewReader(request)})
		return !errors.Is(err, reprise.ErrUnavailable)
	})
}

// Deliver appends output of code, except for what an earlier server has appended: tail is the tail of its stream
// without the events. over reports that the stream takes nothing more. The error is why the Host goes.
func (r *Run) Deliver(events []reprise.Event, tail uint64) (over bool, err error) {
	if r.tail > tail {
		events = events[min(uint64(len(events)), r.tail-tail):]
	}
	if len(events) == 0 {
		return false, nil
	}
	err = r.append(events)
	switch {
	case err == nil:
	case r.host.ctx.Err() != nil:
		return false, err
	case isFull(err):
		r.dropRest()
	default:
		over = isOver(err)
		if !over {
			r.Logger().Error("the output of code cannot be kept", "error", err)
		}
		r.cut = true
		return over || errors.Is(err, reprise.ErrFenced), nil
	}
	return false, nil
}

// Conclude gives code its end. The error is why the Host goes.
func (r *Run) Conclude(e command.Ending) error {
	if e.Isolation == nil {
		e.Isolation = r.outer.state().Isolation
	}
	r.ProcessEnded()
	r.signals.Lock()
	r.concluded = true
	r.signals.Unlock()
	if !r.end(e) && r.host.ctx.Err() != nil {
		return context.Cause(r.host.ctx)
	}
	r.SetOver()
	return nil
}

// SetOver lets a run of code be over, whose end is kept or cannot be.
func (r *Run) SetOver() { r.once.Do(func() { close(r.over) }) }

// Replay calls f with the kept events of r after a seq, and with the last of their seqs. lost is called if some have
// expired.
func (r *Run) Replay(ctx context.Context, after uint64, lost func(), f func([]reprise.Event, uint64) error) error {
	if after >= r.tail {
		return nil
	}
	_, err := eachBatch(ctx, r.stream, reprise.After(r.stream.Cursor(after)), lost,
		func(batch reprise.Events) (bool, error) {
			if batch.Len() == 0 {
				return true, nil
			}
			events := make([]reprise.Event, 0, batch.Len())
			for e := range batch.All() {
				events = append(events, e)
			}
			return batch.Last() >= r.tail, f(events, batch.Last())
		})
	return err
}
