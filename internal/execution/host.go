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
	"reprise/internal/execution/command"
	"reprise/internal/execution/supervisor"
	"reprise/internal/isolation"
	"reprise/internal/quota"
	"reprise/internal/spawn"
	"reprise/replica"
)

// Options are the settings of a Host. The zero value of each field means its default.
type Options struct {
	// MaxRunning is the maximum number of running executions; others wait. Default: 64.
	MaxRunning int
	// MaxRunningPerSession is the maximum number of running executions of one session. Default: no limit per session.
	MaxRunningPerSession int
	// MaxQueued is the maximum number of waiting executions. Default: 1,000; negative: none.
	MaxQueued int
	// MaxArtifactBytes is the maximum total size of the kept files of one execution. Default: 64 MiB.
	MaxArtifactBytes int64
	// Drive returns the Driver of an interpreter by its name; see package interpreter. The error says why there is
	// none. Default: there are no interpreters.
	Drive func(name string, idle time.Duration) (Driver, error)
	// MaxInterpreters is the maximum number of running and waiting interpreters. Default: 32; negative: none.
	MaxInterpreters int
	// InterpreterIdle ends interpreters that were not used for so long, unless their request says less. Default: 1 h.
	InterpreterIdle time.Duration
	// MaxTimeout is the timeout of requests that state none or a longer one.
	// Default: no bound.
	MaxTimeout time.Duration
	// Caps bound what each command uses. A request may ask for less. Default: no bounds.
	Caps Caps
	// TenantCaps replace, bound by bound, Caps for the commands of single tenants.
	TenantCaps map[reprise.Tenant]Caps
	// Grace is the time between TERM and KILL of requests that state none. Default: 5 s.
	Grace time.Duration
	// DrainTimeout is how long the end of an execution waits, after its process has ended, for child processes that
	// keep the output open. Default: 10 s.
	DrainTimeout time.Duration
	// DisconnectGrace is how long a run with KillOnDisconnect continues without followers. Default: 5 s.
	DisconnectGrace time.Duration
	// Dir is the working directory of requests that name none. Default: our own.
	Dir string
	// StateDir holds the temporary files of code. It is created if missing. No other Host may use it, because the files
	// of a dead Host are removed from it. Default: os.TempDir(), where a Host removes only its own files.
	StateDir string
	// RunsDir is the directory in which supervisors keep the state of their commands. With it, every command is run by
	// a separate process, the supervisor, and continues when this process dies. The next Host with the same RunsDir and
	// a Log of the same store adopts the command. The program must call Supervise first in main. No other Host may use
	// the directory. Default: commands are children of this process, and die with it.
	RunsDir string
	// SpoolBytes is how much output of one command is kept on disk while no server takes it. Above it, the command
	// waits. Default: 256 MiB.
	SpoolBytes int64
	// MaxIdle is the maximum number of idle supervisors that are kept to start the next commands faster. For a second
	// after a burst of commands, it is four times as many. Default: 8; negative: none.
	MaxIdle int
	// PassEnv names further variables of our environment that every command gets.
	PassEnv []string
	// Secrets is the directory of the named secrets, with a folder for each tenant and a file for each secret,
	// accessible only to its owner. Add it to Isolation.Masks. Default: no secrets.
	Secrets string
	// Secret authenticates ids that are made from idempotency keys and digests of
	// requests. It must stay the same for starts to be idempotent over a
	// restart. Default: a random one.
	Secret []byte
	// Remember is how long the name of an execution that has ended is remembered, whether its output is kept or not: a
	// start with the same id or key does not run again meanwhile. Default: 30 days; negative: while the output is kept.
	Remember time.Duration
	// RememberNames is the number of names that are remembered for each tenant; the oldest are forgotten first. The
	// names are spread over parts, so that a few more may be remembered. Default: 1,000,000.
	RememberNames int64
	// Quotas limit the executions of principals and tenants. Default: no quotas.
	Quotas *quota.Book
	// DisableCgroups makes the Host find the processes of a run in /proc even if cgroups are available.
	DisableCgroups bool
	// Isolation is the configuration of the isolation of commands. Files with secrets, of the Host or of its program,
	// belong in its Masks.
	Isolation isolation.Config
	// Replica makes the Host one of several that share the executions in a store, each with
	// a Log and a Member of its own; see docs/replicas.md. It must be closed after the Host. Default: nil,
	// for a Host that is the only replica.
	Replica *replica.Member
	// Logger logs errors in the background. Default: silent.
	Logger *slog.Logger
	// Hooks are called at events in the life of executions.
	Hooks *Hooks
}

// Hooks are functions that a Host calls for metrics. Any may be nil. They must return quickly and must not call the
// Host.
type Hooks struct {
	// Started is called when a run gets its turn, with the time that it waited for it.
	Started func(tenant reprise.Tenant, waited time.Duration)
	// Ended is called when the end of a run is kept. duration is the duration of the process.
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

// Counts is the number of executions that have not ended, by status.
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
	d.Remember = cmp.Or(d.Remember, 30*24*time.Hour)
	d.RememberNames = cmp.Or(d.RememberNames, 1_000_000)
	d.SpoolBytes = cmp.Or(d.SpoolBytes, 256<<20)
	d.MaxIdle = cmp.Or(d.MaxIdle, 8)
	d.MaxInterpreters = cmp.Or(d.MaxInterpreters, 32)
	d.MaxArtifactBytes = cmp.Or(d.MaxArtifactBytes, 64<<20)
	d.InterpreterIdle = cmp.Or(d.InterpreterIdle, time.Hour)
	if d.Drive == nil {
		d.Drive = func(string, time.Duration) (Driver, error) { return nil, errors.ErrUnsupported }
	}
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
	log    *reprise.Log
	opts   Options
	queue  *queue
	names  *names
	system command.System // for commands that are run here

	supervisors *supervisor.Pool // nil where commands are run here

	// ctx is the context of all appends; it ends when the Host is closed.
	ctx    context.Context // the life of the Host
	giveUp context.CancelCauseFunc
	active sync.WaitGroup

	mu     sync.Mutex
	runs   map[reprise.StreamKey]*Run
	locked map[reprise.StreamKey]chan struct{}
	far    map[reprise.StreamKey]*farFollow // followed here, run elsewhere
	// fullTold is when it was last logged that output waits for room.
	fullTold time.Time
	draining bool // nothing new is taken
	making   int  // runs that have their place and are not in runs yet
	closing  bool
	closed   chan struct{} // closed when all is over

	left    atomic.Int64  // runs that continue without this Host
	drawing *quota.Places // for screens

	caretaker sync.WaitGroup
	gone      chan struct{} // has a token when another replica has gone
	unwatch   func()
}

// Open opens a Host for the executions in log. Close the Host before log. Executions that another process was running
// when it died are ended as lost, after their remaining processes were killed. With Options.Replica, these are the
// executions of replicas that have left, now or later. The Log must accept events of 64 KiB. opts may be nil.
func Open(ctx context.Context, log *reprise.Log, opts *Options) (*Host, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	command.HeedSignals()
	if opts != nil && opts.StateDir != "" {
		if err := clearCode(opts.StateDir); err != nil {
			return nil, fmt.Errorf("open host: %w", err)
		}
	}
	h := &Host{
		log:     log,
		opts:    o,
		queue:   newQueue(&o),
		names:   openNames(log, &o),
		system:  command.System{Spawner: spawn.New(), Logger: o.Logger},
		runs:    map[reprise.StreamKey]*Run{},
		locked:  map[reprise.StreamKey]chan struct{}{},
		far:     map[reprise.StreamKey]*farFollow{},
		closed:  make(chan struct{}),
		gone:    make(chan struct{}, 1),
		unwatch: func() {},
		drawing: quota.NewPlaces(maxDrawing),
	}
	h.ctx, h.giveUp = context.WithCancelCause(context.Background())
	if err := h.open(ctx); err != nil {
		h.giveUp(reprise.ErrClosed)
		h.active.Wait()
		h.release()
		return nil, fmt.Errorf("open host: %w", err)
	}
	return h, nil
}

// open takes up what earlier servers and dead replicas have left.
func (h *Host) open(ctx context.Context) (err error) {
	o := &h.opts
	switch {
	case o.RunsDir != "":
		h.supervisors, err = supervisor.OpenPool(o.RunsDir, h.system.Spawner, supervisor.Options{
			MaxIdle: o.MaxIdle, DisableCgroups: o.DisableCgroups,
		})
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	case !o.DisableCgroups:
		if err := h.system.UseCgroups(); err != nil {
			o.Logger.Info(command.WithoutCgroups, "reason", err)
		}
	}
	if err := h.adoptAll(ctx); err != nil {
		return err
	}
	h.attendReplicas()
	h.checkOwners()
	if err := h.recover(ctx); err != nil {
		return err
	}
	if h.supervisors != nil {
		h.supervisors.Warm()
	}
	return nil
}

// Counts returns the number of running and waiting executions.
func (h *Host) Counts() Counts { return h.queue.counts() }

// CountsByTenant returns the number of running and waiting executions of each tenant that has any.
func (h *Host) CountsByTenant() map[reprise.Tenant]Counts { return h.queue.byTenant() }

// QueuedByPrincipal counts the executions that wait, for each principal that has any.
func (h *Host) QueuedByPrincipal() map[quota.Account]int { return h.queue.waitingBy() }

// CountsOf returns the number of running and waiting executions of an account.
func (h *Host) CountsOf(a quota.Account) Counts { return h.queue.countsOf(a) }

// Supervisors returns how many supervisor processes of this Host run a command, and how many are idle. Both are 0
// without Options.RunsDir.
func (h *Host) Supervisors() (busy, idle int) {
	if h.supervisors == nil {
		return 0, 0
	}
	return h.supervisors.Counts()
}

// find returns the run of an execution that has not ended, or nil.
func (h *Host) find(key reprise.StreamKey) *Run {
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

// stopPatience limits how long Stop waits, in addition to the grace period, until the ends of the cancelled runs are
// kept.
const stopPatience = 15 * time.Second

// stopped is why a run was cancelled that the Host has ended.
const stopped = "the server was stopped"

// Stop accepts no new executions (Start returns reprise.ErrClosed), cancels the waiting ones, and waits for the running
// ones until ctx is done. Then it cancels these too. It returns when all have ended and their processes are gone, which
// may take their grace period after ctx is done. If the store fails, executions whose end could not be kept end as lost
// when a Host is opened again; the error is then reprise.ErrUnavailable.
func (h *Host) Stop(ctx context.Context) error {
	if h.closesElsewhere() {
		return nil
	}
	defer close(h.closed)
	defer h.release()
	h.cancelAll(func(r *Run) bool { return h.queue.status(r) == StatusQueued })
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
	grace := h.cancelAll(func(*Run) bool { return true })
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

// Drain accepts no new executions from now on: Start returns reprise.ErrClosed. It returns when none of those that were
// accepted before runs or waits any more, except for interpreters, which wait for code. If ctx is done before, the
// error is its cause.
func (h *Host) Drain(ctx context.Context) error {
	h.mu.Lock()
	h.draining = true
	h.mu.Unlock()
	for {
		over, ok := h.oneOf()
		if !ok {
			return nil
		}
		select {
		case <-over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// oneOf returns what is closed when one of the runs that Drain waits for is over, or known. ok is false if there is
// none.
func (h *Host) oneOf() (over <-chan struct{}, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		if r.driver == nil {
			return r.done, true
		}
	}
	if h.making == 0 {
		return nil, false
	}
	soon := make(chan struct{})
	time.AfterFunc(drainStep, func() { close(soon) })
	return soon, true
}

// drainStep is the time after which Drain looks again for runs that are being made.
const drainStep = 10 * time.Millisecond

// IsDraining reports whether no new executions are accepted.
func (h *Host) IsDraining() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.draining || h.closing
}

// closesElsewhere begins to close the Host. If another call has begun, it waits for that and returns true.
func (h *Host) closesElsewhere() bool {
	h.mu.Lock()
	first := !h.closing
	h.closing = true
	h.mu.Unlock()
	if !first {
		<-h.closed
	}
	return !first
}

// Leave accepts no new executions and returns once this Host appends nothing more. Commands of supervisors continue,
// and the next Host adopts them and the waiting executions; left is their number. Without supervisors, Leave is Close.
func (h *Host) Leave() (left int, err error) {
	if h.supervisors == nil {
		return 0, h.Close()
	}
	if h.closesElsewhere() {
		return int(h.left.Load()), nil
	}
	defer close(h.closed)
	h.giveUp(reprise.ErrClosed)
	h.active.Wait()
	h.release()
	return int(h.left.Load()), nil
}

// cancelAll cancels the selected runs and returns their longest grace period.
func (h *Host) cancelAll(which func(*Run) bool) (grace time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		if which(r) {
			grace = max(grace, r.Grace())
			r.Stop(command.Verdict{Outcome: Cancelled, Reason: stopped})
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

// release frees the resources of the Host once nothing runs.
func (h *Host) release() {
	h.giveUp(reprise.ErrClosed)
	h.leaveReplicas()
	if h.supervisors != nil {
		h.supervisors.Close()
	}
	h.system.Close()
	h.system.Spawner.Close()
}
