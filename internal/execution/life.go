package execution

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"reprise"
	"reprise/internal/artifact"
	"reprise/internal/execution/command"
	"reprise/internal/isolation"
	"reprise/internal/quota"
)

// A run has one life, whoever brings it about:
//
//	accepted ─┬─▶ queued ─┬─▶ running ──▶ ending ──▶ ended
//	          │           └─▶ withdrawn
//	          └─────────────▶ running, at once: there is room, or a supervisor has the command, or it is code
//
// There are five births: a start, code for an interpreter, and what an earlier server has left of these, which is a run
// in its queue, a run of a supervisor, and code in an interpreter. Each makes a run by newRun or Host.takeUp and says
// what is special about it. Then Host.reserve gives the run its place, and Host.admit makes it known and lets it live,
// until Host.finished. The queue alone changes the stage of a run: enter and leave are called for all runs.

// stage is where a run stands.
type stage int

const (
	// stageAccepted: it is being made. No other goroutine has it.
	stageAccepted stage = iota
	// stageQueued: it waits for its turn.
	stageQueued
	// stageRunning: it has had its turn. command.State says whether its process was started.
	stageRunning
	// stageEnding: it has freed its place, and its end is about to be kept.
	stageEnding
	// stageWithdrawn: it was ended before its turn came.
	stageWithdrawn
	// stageEnded: it is over.
	stageEnded
)

// Run is an execution that has not ended, from its start to its end event. Its command runs here, as its job, or in a
// supervisor. In the second case the decision to end it is forwarded to the supervisor, and only the supervisor knows
// the process and its pipes.
type Run struct {
	*command.Decision
	job  *command.Job  // nil if the command runs elsewhere
	done chan struct{} // closed when it is over

	host    *Host
	key     reprise.StreamKey
	id      string
	session string
	request Request
	// again: an earlier server has accepted it.
	again bool
	// dir is the directory in which the command works, "" if another server has accepted the request.
	dir string
	// isolation is how the command is isolated. It is nil for a run that was found again, until its turn comes.
	isolation *isolation.Plan
	config    reprise.StreamConfig
	stream    *reprise.Stream
	owner     reprise.Owner // our identity towards the store; zero without replicas
	holder    quota.Holder  // for whom it is counted
	created   time.Time
	named     *recall              // what is known of its name; nil for a name of our own
	hold      *Hold                // nil where no output is held back
	artifacts *artifact.Collection // the kept files; nil for none
	driver    Driver               // set for an interpreter
	plan      *command.Plan        // of the command, until it has been handed over
	waitsIn   string               // the name of its file without the suffix, or ""; see waiting

	place
	writing
	supervised
	inside

	mu sync.Mutex // guards what follows
	// shown is the state of a command that runs elsewhere, as its supervisor has reported it last.
	shown command.State
	// fenced is set when another replica has taken it over, or may.
	fenced bool
	kept
	following
}

func newRun(h *Host, key reprise.StreamKey, req Request, plan *isolation.Plan) *Run {
	r := &Run{
		Decision: command.NewDecision(), done: make(chan struct{}), host: h, key: key,
		id: strings.TrimPrefix(key.Name, Namespace), session: req.Session, request: req, isolation: plan,
		holder: quota.Holder{Account: quota.Account{Tenant: key.Tenant}}, created: time.Now(),
	}
	r.turn, r.ready = make(chan struct{}), make(chan struct{})
	if plan != nil {
		r.dir = plan.Access.Dir
	}
	return r
}

// takeUp returns the run of an execution that an earlier server has left, as the owner of its stream. The error is
// reprise.ErrNotFound if the id was used again since.
func (h *Host) takeUp(ctx context.Context, info *reprise.StreamInfo, req Request) (*Run, error) {
	s, err := h.log.Stream(ctx, info.Key)
	if err != nil {
		return nil, err
	}
	if s.Cursor(0).Epoch != info.Epoch {
		return nil, reprise.ErrNotFound
	}
	r := newRun(h, info.Key, req, nil)
	r.again, r.session = true, info.Config.Labels[labelSession]
	r.config, r.created, r.tail = info.Config, info.Created, info.Tail
	if r.owner, err = h.nextOwner(info); err != nil {
		return nil, err
	}
	r.writeAs(s, producerID+"-"+rand.Text())
	return r, nil
}

// reserve gives a run its place, which it has until dismiss or finished.
func (h *Host) reserve(r *Run) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing || h.draining && !r.again {
		return fmt.Errorf("%w: no executions are taken any more", reprise.ErrClosed)
	}
	if err := h.queue.enter(r); err != nil {
		return err
	}
	h.active.Add(1)
	h.making++
	return nil
}

// dismiss takes back the place of a run that has not come about.
func (h *Host) dismiss(r *Run) {
	h.queue.withdraw(r)
	h.mu.Lock()
	h.making--
	h.mu.Unlock()
	h.active.Done()
}

// adoptedGrace is the minimum time that a run with KillOnDisconnect continues after a restart, until its followers are
// back.
const adoptedGrace = 30 * time.Second

// admit makes a run known that has its place and its stream, and lets it live.
func (h *Host) admit(r *Run) {
	if r.again && r.request.KillOnDisconnect {
		r.alone = time.AfterFunc(max(h.opts.DisconnectGrace, adoptedGrace), r.deserted)
	}
	h.mu.Lock()
	h.runs[r.key] = r
	h.making--
	h.mu.Unlock()
	h.checkOwner(r)
	go func() {
		defer h.finished(r)
		r.live()
	}()
}

// live executes the run to its end.
func (r *Run) live() {
	switch {
	case r.outer != nil:
		r.attend(r.host.ctx)
		return
	case r.remote != nil: // its supervisor has the command
		r.followRemote()
		return
	case r.job != nil:
		defer r.job.Close()
	}
	select {
	case <-r.turn:
	case <-r.Stopping():
	case <-r.host.ctx.Done():
	}
	switch {
	case r.IsStopping(): // in the queue, or just as its turn came
		r.end(command.Ending{})
		r.forgetKept()
		return
	case r.isKept() && r.host.ctx.Err() != nil: // the next server starts it
		r.host.left.Add(1)
		return
	}
	if hook := r.host.opts.Hooks.Started; hook != nil {
		hook(r.key.Tenant, time.Since(r.created))
	}
	if r.host.supervisors != nil {
		r.runSupervised()
	} else {
		r.runHere()
	}
}

// finished forgets a run that is over.
func (h *Host) finished(r *Run) {
	h.queue.forgo(r)
	if r.artifacts != nil {
		r.artifacts.Close()
	}
	h.mu.Lock()
	if h.runs[r.key] == r { // another replica may have removed it, and the id be used again
		delete(h.runs, r.key)
	}
	h.mu.Unlock()
	r.mu.Lock()
	if r.alone != nil {
		r.alone.Stop()
	}
	r.mu.Unlock()
	close(r.done)
	h.active.Done()
}

func (r *Run) cancel() { r.Stop(command.Verdict{Outcome: Cancelled}) }

// state returns the state of the command.
func (r *Run) state() command.State {
	if r.job != nil {
		return r.job.State()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown
}

// Name is the name of the stream, in its Epoch.
func (r *Run) Name() string { return r.key.Name }

// Epoch is the epoch of the stream.
func (r *Run) Epoch() reprise.Epoch { return r.stream.Cursor(0).Epoch }

// Done returns a channel that is closed when the run is over.
func (r *Run) Done() <-chan struct{} { return r.done }

// Outer is the interpreter of code.
func (r *Run) Outer() *Run { return r.outer }

// Over returns a channel that is closed once the end of code is kept or cannot be.
func (r *Run) Over() <-chan struct{} { return r.over }

// Dir is the directory in which a supervisor keeps the state of the run.
func (r *Run) Dir() string { return r.remote.Dir }

// Cut marks the output of the run as incomplete.
func (r *Run) Cut() { r.cut = true }

// Logger logs what concerns the run.
func (r *Run) Logger() *slog.Logger {
	return r.host.opts.Logger.With("execution", r.id, "tenant", r.key.Tenant)
}
