package execution

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/isolation"
	"reprise/internal/quota"
	"reprise/internal/spawn"
	"reprise/replica"
)

// Options are the settings of a Host. The zero value of each field means its default.
type Options struct {
	// MaxRunning is how many executions run at a time; others wait. Default: 64.
	MaxRunning int
	// MaxRunningPerSession is how many of one session. Default: no bound of its own.
	MaxRunningPerSession int
	// MaxQueued is how many wait at most. Default: 1,000; negative: none.
	MaxQueued int
	// MaxArtifactBytes is how much is kept of the files of one execution, all together. Default: 64 MiB.
	MaxArtifactBytes int64
	// MaxInterpreters is how many interpreters may run or wait at a time. Default: 32; negative: none.
	MaxInterpreters int
	// InterpreterIdle ends interpreters that were not used for so long, unless their request says less. Default: 1 h.
	InterpreterIdle time.Duration
	// MaxTimeout is the timeout of requests that state none or a longer one.
	// Default: no bound.
	MaxTimeout time.Duration
	// Grace is the time between TERM and KILL of requests that state none. Default: 5 s.
	Grace time.Duration
	// DrainTimeout is how long the end of a process waits for those that it has left
	// behind with its output still open. Default: 10 s.
	DrainTimeout time.Duration
	// DisconnectGrace is how long a run with KillOnDisconnect goes on that nobody
	// follows any more. Default: 5 s.
	DisconnectGrace time.Duration
	// Dir is the working directory of requests that name none. Default: our own.
	Dir string
	// StateDir holds the temporary files that code is run from. It is made if it is not
	// there, and no other Host may use it: what a dead one has left there is
	// removed. Default: os.TempDir(), where nothing is removed but our own.
	StateDir string
	// RunsDir is where supervisors keep what they know of their commands. With it every command is run by a process
	// of its own, the supervisor, and goes on when this process dies; the next Host with the same RunsDir and a Log of
	// the same store takes it up again. The program must call Supervise first in main. No other Host may use the
	// directory. Default: commands are children of this process, and die with it.
	RunsDir string
	// SpoolBytes is how much output of one command is kept on disk while there is no server to take it. Then the
	// command waits. Default: 256 MiB.
	SpoolBytes int64
	// MaxIdle is how many supervisors are kept that have nothing to do, so that the next commands start sooner.
	// Default: 8; negative: none.
	MaxIdle int
	// PassEnv names further variables of our environment that every command gets.
	PassEnv []string
	// Secrets is the directory of the named secrets, with a folder for each tenant and a file for each secret, which
	// its owner alone may use. It belongs into Isolation.Access.Hidden. Default: there are none.
	Secrets string
	// Secret authenticates ids that are made from idempotency keys and digests of
	// requests. It must stay the same for starts to be idempotent over a
	// restart. Default: a random one.
	Secret []byte
	// Quotas bound what principals and tenants run, and are told who does. Default: nobody is bounded.
	Quotas *quota.Book
	// DisableCgroups makes the Host find the processes of a run in /proc even where
	// it could use cgroups.
	DisableCgroups bool
	// Isolation is what the Host decides about the isolation of commands. What keeps secrets, of the Host or of its
	// program, belongs into its Access.Hidden.
	Isolation isolation.Config
	// Replica makes the Host one of several that share the executions in a store, each with
	// a Log and a Member of its own; see docs/replicas.md. It must be closed after the Host. Default: nil, the
	// Host is alone.
	Replica *replica.Member
	// Logger is told of what goes wrong in the background. Default: silent.
	Logger *slog.Logger
	// Hooks are called as things happen.
	Hooks *Hooks
}

// Hooks are functions that a Host calls as things happen, for metrics. Any may be
// nil. They must be quick and must not call the Host.
type Hooks struct {
	// Started is called when a run gets its turn, with the time that it waited for it.
	Started func(tenant reprise.Tenant, waited time.Duration)
	// Ended is called when the end of a run is kept. duration is that of the process.
	Ended func(tenant reprise.Tenant, outcome Outcome, duration time.Duration)
	// Finished is called when the end of a run that this Host has started is kept, if its request had a TraceParent.
	Finished func(traceParent string, key reprise.StreamKey, outcome Outcome)
	// Stalled is called when a command's output has waited for the store.
	Stalled func(tenant reprise.Tenant, waited time.Duration)
	// Fenced is called when a run of ours is killed because this replica was taken for dead.
	Fenced func(tenant reprise.Tenant)
	// TakenOver is called when this replica has ended a run of a dead one as lost.
	TakenOver func(tenant reprise.Tenant)
}

// Counts says how many executions have not ended.
type Counts struct{ Running, Queued int }

func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	d.MaxRunning = cmp.Or(d.MaxRunning, 64)
	d.MaxQueued = cmp.Or(d.MaxQueued, 1000)
	d.Grace = cmp.Or(d.Grace, 5*time.Second)
	d.DrainTimeout = cmp.Or(d.DrainTimeout, 10*time.Second)
	d.DisconnectGrace = cmp.Or(d.DisconnectGrace, 5*time.Second)
	d.StateDir = cmp.Or(d.StateDir, os.TempDir())
	d.SpoolBytes = cmp.Or(d.SpoolBytes, 256<<20)
	d.MaxIdle = cmp.Or(d.MaxIdle, 8)
	d.MaxInterpreters = cmp.Or(d.MaxInterpreters, 32)
	d.MaxArtifactBytes = cmp.Or(d.MaxArtifactBytes, 64<<20)
	d.InterpreterIdle = cmp.Or(d.InterpreterIdle, time.Hour)
	if d.Secret == nil {
		d.Secret = []byte(rand.Text())
	}
	if d.Quotas == nil {
		d.Quotas = quota.New(nil)
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Hooks == nil {
		d.Hooks = &Hooks{}
	}
	if d.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return d, fmt.Errorf("working directory: %w", err)
		}
		d.Dir = dir
	}
	return d, nil
}

// Host runs executions and keeps them as streams of a Log. It is safe for concurrent use.
// One Host at a time may use the executions in a store, unless each has an Options.Replica.
type Host struct {
	log     *reprise.Log
	opts    Options
	queue   *queue
	spawner *spawn.Spawner
	cgroups *cgroups // nil where there are none, or where supervisors have them

	supervisors *supervisors // nil where commands are run here

	// ctx is that of all appends; it ends when the Host gives up.
	ctx    context.Context // the life of the Host
	giveUp context.CancelCauseFunc
	active sync.WaitGroup

	mu      sync.Mutex
	runs    map[reprise.StreamKey]*run
	locked  map[reprise.StreamKey]chan struct{}
	far     map[reprise.StreamKey]*farFollow // followed here, run elsewhere
	closing bool
	closed  chan struct{} // closed when all is over

	left    atomic.Int64  // runs that go on without us
	drawing chan struct{} // holds a token for each screen that is being drawn

	caretaker sync.WaitGroup
	gone      chan struct{} // has a token when another replica has gone
	unwatch   func()
}

// Open makes a Host of the executions in log, which must be closed after it. Those
// that another process was running when it died are ended as lost, after what
// is left of their processes was killed. With Options.Replica these are the ones of replicas that
// have gone, and of those that go later. The Log must take events of 64 KiB. opts may be nil.
func Open(ctx context.Context, log *reprise.Log, opts *Options) (*Host, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	heedSignals()
	if opts != nil && opts.StateDir != "" {
		if err := clearCode(opts.StateDir); err != nil {
			return nil, fmt.Errorf("open host: %w", err)
		}
	}
	h := &Host{
		log:     log,
		opts:    o,
		queue:   newQueue(&o),
		spawner: spawn.New(),
		runs:    map[reprise.StreamKey]*run{},
		locked:  map[reprise.StreamKey]chan struct{}{},
		far:     map[reprise.StreamKey]*farFollow{},
		closed:  make(chan struct{}),
		gone:    make(chan struct{}, 1),
		unwatch: func() {},
		drawing: make(chan struct{}, maxDrawing),
	}
	h.ctx, h.giveUp = context.WithCancelCause(context.Background())
	switch {
	case o.RunsDir != "":
		if h.supervisors, err = openSupervisors(&o, h.spawner); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			h.release()
			return nil, fmt.Errorf("open host: %w", err)
		}
	case !o.DisableCgroups:
		if h.cgroups, err = openCgroups(h.spawner); err != nil {
			o.Logger.Info(withoutCgroups, "reason", err)
		}
	}
	if err := h.adoptAll(ctx); err != nil {
		h.giveUp(reprise.ErrClosed)
		h.active.Wait()
		h.release()
		return nil, fmt.Errorf("open host: %w", err)
	}
	h.attendReplicas()
	h.checkOwners()
	if err := h.recover(ctx); err != nil {
		h.giveUp(reprise.ErrClosed)
		h.active.Wait()
		h.release()
		return nil, fmt.Errorf("open host: %w", err)
	}
	if h.supervisors != nil {
		h.supervisors.warm()
	}
	return h, nil
}

// newTree is the tree of a run that is about to be started.
func (h *Host) newTree(r *run) tree {
	if h.cgroups != nil {
		t, err := h.cgroups.newTree(string(r.epoch()))
		if err == nil {
			return t
		}
		h.opts.Logger.Warn("no cgroup for an execution", "execution", r.id, "error", err)
	}
	return newPlainTree(markOf(r.epoch()))
}

// Counts returns how many executions run and wait.
func (h *Host) Counts() Counts { return h.queue.counts() }

// CountsByTenant returns how many executions of each tenant run and wait, without tenants that have none.
func (h *Host) CountsByTenant() map[reprise.Tenant]Counts { return h.queue.byTenant() }

// CountsOf returns how many executions of an account run and wait.
func (h *Host) CountsOf(a quota.Account) Counts { return h.queue.countsOf(a) }

// Supervisors returns how many of the supervisor processes that this Host has started have a command, and how many wait
// for one. Both are 0 without Options.RunsDir.
func (h *Host) Supervisors() (busy, idle int) {
	if h.supervisors == nil {
		return 0, 0
	}
	return h.supervisors.counts()
}

// find returns the run of an execution that has not ended, or nil.
func (h *Host) find(key reprise.StreamKey) *run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[key]
}

// lock keeps others from starting or removing the same execution.
func (h *Host) lock(ctx context.Context, key reprise.StreamKey) (unlock func(), err error) {
	mine := make(chan struct{})
	for {
		h.mu.Lock()
		others := h.locked[key]
		if others == nil {
			h.locked[key] = mine
		}
		h.mu.Unlock()
		if others == nil {
			break
		}
		select {
		case <-others:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.locked, key)
		close(mine)
	}, nil
}

// finished forgets a run that is over.
func (h *Host) finished(r *run) {
	h.queue.forgo(r)
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

// stopPatience is how long Stop waits for the ends of runs to be kept after it has
// ended them, besides their time of grace.
const stopPatience = 15 * time.Second

// stopped is why a run was cancelled that the Host has ended.
const stopped = "the server was stopped"

// Stop takes no new executions (Start returns reprise.ErrClosed), cancels those that wait, and
// waits for those that run until ctx is done, whereupon it cancels them too. It
// returns when all have ended and nothing of them is left, which may take
// their time of grace after ctx is done. What could not be
// kept by then, because the store fails, ends as lost when a Host is opened again;
// the error is then reprise.ErrUnavailable.
func (h *Host) Stop(ctx context.Context) error {
	h.mu.Lock()
	first := !h.closing
	h.closing = true
	h.mu.Unlock()
	if !first {
		<-h.closed
		return nil
	}
	defer close(h.closed)
	defer h.release()
	h.cancelAll(func(r *run) bool { return h.queue.status(r) == StatusQueued })
	over := make(chan struct{})
	go func() {
		h.active.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
	}
	grace := h.cancelAll(func(*run) bool { return true })
	patience := time.NewTimer(grace + stopPatience)
	defer patience.Stop()
	select {
	case <-over:
		return nil
	case <-patience.C:
		h.giveUp(reprise.ErrClosed)
		<-over
		return fmt.Errorf("%w: the ends of executions could not be kept", reprise.ErrUnavailable)
	}
}

// Leave takes no new executions and returns once nothing more is appended here. Commands that supervisors have go on,
// and the next Host takes them up, as it does with those that wait; left is how many. Without supervisors it is Close.
func (h *Host) Leave() (left int, err error) {
	if h.supervisors == nil {
		return 0, h.Close()
	}
	h.mu.Lock()
	first := !h.closing
	h.closing = true
	h.mu.Unlock()
	if !first {
		<-h.closed
		return int(h.left.Load()), nil
	}
	defer close(h.closed)
	h.giveUp(reprise.ErrClosed)
	h.active.Wait()
	h.release()
	return int(h.left.Load()), nil
}

// cancelAll cancels the runs that which selects and returns their longest grace.
func (h *Host) cancelAll(which func(*run) bool) (grace time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		if which(r) {
			grace = max(grace, r.grace())
			r.stop(verdict{Outcome: Cancelled, Reason: stopped})
		}
	}
	return grace
}

// Close ends all executions and then the Host; see Stop. Closing again does nothing.
func (h *Host) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return h.Stop(ctx)
}

// release frees what the Host holds once nothing runs any more.
func (h *Host) release() {
	h.giveUp(reprise.ErrClosed)
	h.leaveReplicas()
	if h.supervisors != nil {
		h.supervisors.close()
	}
	if h.cgroups != nil {
		h.cgroups.close()
	}
	h.spawner.Close()
}
