package execution

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"reprise"
	"reprise/internal/artifact"
	"reprise/internal/execution/command"
	"reprise/internal/execution/supervisor"
	"reprise/internal/isolation"
	"reprise/internal/quota"
)

// run is an execution that has not ended, from its start to its end event. Its command runs here, as its job, or in a
// supervisor. In the second case the decision to end it is forwarded to the supervisor, and only the supervisor knows
// the process and its pipes.
type run struct {
	*command.Decision
	job  *command.Job  // nil if the command runs elsewhere
	done chan struct{} // closed when it is over

	host    *Host
	key     reprise.StreamKey
	id      string
	session string
	request Request
	// dir is the directory in which the command works, "" if another server has accepted the request.
	dir string
	// isolation is how the command is isolated. It is nil for a run that was found again, until its turn comes.
	isolation *isolation.Plan
	config    reprise.StreamConfig
	stream    *reprise.Stream
	owner     reprise.Owner // our identity towards the store; zero without replicas
	holder    quota.Holder  // for whom it is counted
	created   time.Time
	named     *recall // what is known of its name; nil for a name of our own
	hold      *Hold   // nil where no output is held back

	turn chan struct{} // closed when it may begin
	// Fields of the queue: the number of r among the runs that have waited, whether it had its turn, whether it has
	// left, and whether it has left and is not over.
	arrived             uint64
	begun, left, ending bool

	plan *command.Plan // of the command, until it has been handed over

	// waitsIn is the name of its file without the suffix, or ""; see waiting.
	waitsIn string

	folder string // of the code of another user's command, or ""

	remote *supervisor.Remote // the supervisor; nil if there is none, or none yet
	ready  chan struct{}      // closed when remote is set
	worker *supervisor.Worker // its process, if it is a child of ours
	link   *supervisor.Link   // to the worker, until it is used

	mu sync.Mutex // guards what follows
	// shown is the state of a command that runs elsewhere, as its supervisor has reported it last.
	shown command.State
	// fenced is set when another replica has taken it over, or may.
	fenced bool
	// bytes and tail describe the appended output, in one consistent view.
	bytes  Bytes
	tail   uint64
	coming *counted // including the append under way
	// bytesFrom is that of ending, if the store has lost output.
	bytesFrom uint64
	// fullSince is when output began to wait until there is room for it in the store, zero if none does, and spoolFull
	// the same of the disk of the supervisor.
	fullSince, spoolFull time.Time
	// The followers; see follow.go.
	followers int
	replicas  map[string]bool // other replicas with followers, each of which counts as one follower
	alone     *time.Timer

	// driven is set for an interpreter, and inside for code that runs in one.
	driven *driven
	// artifacts are the kept files; nil for none.
	artifacts *artifact.Collection
	inside    *run
	codeOver  func()
	// signals is held while code gets a signal. It gets none once codeEnded is set, before its end is appended: the
	// interpreter may then run other code.
	signals   sync.Mutex
	codeEnded bool

	// The writer's: what appends to the stream, and whether output was lost that the store had acknowledged or that
	// was in the spool.
	appender *reprise.Appender
	cut      bool
	// dropped is set once output was dropped because there was no room; then all further output is.
	dropped bool
	// hasty is set while events do not wait for room.
	hasty bool
	// judgedOutside, if set, reports whether a supervisor has been told or has decided to end the command.
	judgedOutside func() bool
	// lostEvents, if set, is called after the store has lost events and before others are appended.
	lostEvents func() error
	// last are events that are appended together with the end.
	last []reprise.Event
}

func newRun(h *Host, key reprise.StreamKey, id string, req Request, plan *isolation.Plan) *run {
	r := &run{
		Decision: command.NewDecision(), done: make(chan struct{}), host: h, key: key, holder: quota.Holder{
			Account: quota.Account{Tenant: key.Tenant},
		}, id: id, session: req.Session, request: req, isolation: plan,
		created: time.Now(), turn: make(chan struct{}), ready: make(chan struct{}),
	}
	if plan != nil {
		r.dir = plan.Access.Dir
	}
	return r
}

// run executes the run from its start to its end. It is called in its own goroutine.
func (r *run) run() {
	defer r.host.finished(r)
	if r.job != nil {
		defer r.job.Close()
	}
	select {
	case <-r.turn:
	case <-r.Stopping():
	case <-r.host.ctx.Done():
	}
	switch {
	case r.IsStopping(): // in the queue, or just as its turn came
		r.end(ending{})
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

// runHere runs the command as a child of the server, with which it ends.
func (r *run) runHere() {
	folder, err := r.makePlan(r.host.opts.StateDir)
	defer removeFolder(folder)
	if err != nil {
		r.end(ending{Ending: command.Ending{Outcome: FailedToStart, Error: err.Error()}})
		return
	}
	var unkept error
	e := r.job.Run(&r.host.system, r.plan, &command.Output{
		Started: func() {
			if r.driven != nil {
				r.driven.begin(r, "")
			}
		},
		Write: func(chunks []command.Chunk) error {
			unkept = r.write(chunks)
			return unkept
		},
		Most:    outputBytes,
		Stalled: r.stalled,
	})
	if unkept != nil && !r.dropped {
		e.Error = notKept
	}
	r.end(ending{Ending: e})
}

// outputBytes is the output of a command that waits for the store, above which the command waits. As much again is
// being appended.
const outputBytes = 2 << 20

// state returns the state of the command.
func (r *run) state() command.State {
	if r.job != nil {
		return r.job.State()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown
}

// makePlan makes the plan of the command of the request. Code is written to a new folder, below dir unless another user
// runs it. folder is "" if there is none, and may be there although makePlan fails.
func (r *run) makePlan(dir string) (folder string, err error) {
	req := &r.request
	if r.isolation == nil { // another server has accepted it
		if r.isolation, err = r.host.isolate(r.key.Tenant, req); err != nil {
			return "", err
		}
	}
	limits := r.host.caps(r.key.Tenant).limits(&req.Limits)
	r.isolation.Temporary = limits.MemoryBytes
	p := &command.Plan{
		ID: r.id, Shown: shownOf(req), Argv: req.Argv, Cwd: r.host.cwd(r.key.Tenant, req),
		TTY:  (*command.Size)(req.TTY),
		Mark: markOf(r.epoch()), Input: req.input(), StdinOpen: req.StdinOpen,
		Timeout: r.timeout(), Grace: r.grace(), Drain: r.host.opts.DrainTimeout,
		Limits: limits, Isolation: r.isolation,
	}
	variables, masked, err := r.withSecrets(withTrace(req))
	if err != nil {
		return "", err
	}
	p.Masked = masked
	if folder, err = makePrivate(r.isolation); err != nil {
		return folder, err
	}
	ours := privateEnviron(r.isolation, userEnviron(r.isolation.User, os.Environ()))
	p.Environ = environ(ours, r.host.opts.PassEnv, variables, req.TTY != nil,
		envID+"="+r.id, p.Mark)
	r.artifacts = r.collection()
	r.plan = p
	code, err := r.planProgram(p, dir)
	if folder == "" {
		folder = code
	}
	return folder, err
}

// planProgram sets the arguments of the command. Code is written to a new folder below dir, or where codeDir says.
func (r *run) planProgram(p *command.Plan, dir string) (folder string, err error) {
	req := &r.request
	switch {
	case r.driven != nil:
		return r.planDriver(p, dir)
	case req.Command != "":
		p.Argv = []string{cmp.Or(req.Shell, "sh"), "-c", req.Command}
	case req.Language != "":
		l := languages[req.Language]
		var file string
		if file, err = l.writeCode(codeDir(r.isolation, dir), req.Code); err != nil {
			return "", err
		}
		folder = filepath.Dir(file)
		if err = show(r.isolation, folder); err != nil {
			return folder, err
		}
		p.Argv, err = l.argv(r.isolation.User, command.Variable(p.Environ, "PATH"), file)
	}
	return folder, err
}

// removeFolder removes a folder of makePlan, if there is one.
func removeFolder(folder string) {
	if folder == "" || os.RemoveAll(folder) == nil {
		return
	}
	// A command may have made directories of its own user that nobody can enter.
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(folder)
}

func (r *run) timeout() time.Duration {
	d, most := time.Duration(r.request.Timeout), r.host.opts.MaxTimeout
	if d == 0 || most > 0 && d > most {
		return most
	}
	return d
}

// markOf is the entry in the environment of all processes of a run.
func markOf(epoch reprise.Epoch) string { return envEpoch + "=" + string(epoch) }
