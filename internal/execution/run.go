package execution

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/isolation"
)

// run is an execution that has not ended, from its start to its end event.
type run struct {
	host      *Host
	key       reprise.StreamKey
	id        string
	session   string
	request   Request
	isolation *isolation.Plan
	config    reprise.StreamConfig
	stream    *reprise.Stream
	owner     reprise.Owner // who we are to the store; zero where we are alone
	stdin     *stdin
	created   time.Time

	turn     chan struct{} // closed when it may begin
	stopping chan struct{} // closed when it is to end
	done     chan struct{} // closed when it is over

	output atomic.Int64 // bytes of output that were read

	mu       sync.Mutex
	verdict  *verdict // why it was ended, if that was decided before it ended
	now      bool     // without TERM and grace
	stopped  bool     // stopping is closed
	fenced   bool     // another replica has taken it over, or may
	exited   bool     // the process has ended
	child    *child
	isolated *Isolation
	// bytes and tail are of what was appended, in one consistent view.
	bytes Bytes
	tail  uint64
	// bytesFrom is as in ending, where the store has lost output.
	bytesFrom uint64
	// who follows; see follow.go.
	followers int
	replicas  map[string]bool // others on which somebody follows, each of them one follower
	alone     *time.Timer

	// The writer's: what appends to the stream, and whether the store has lost output that it had acknowledged.
	appender *reprise.Appender
	cut      bool

	graceEnds time.Time // the watcher's: when its tree is killed; zero before it is to end
}

func newRun(h *Host, key reprise.StreamKey, id string, req Request, plan *isolation.Plan) *run {
	return &run{
		host: h, key: key, id: id, session: req.Session, request: req, isolation: plan, created: time.Now(),
		stdin: newStdin(req.StdinOpen, req.TTY != nil),
		turn:  make(chan struct{}), stopping: make(chan struct{}), done: make(chan struct{}),
	}
}

// run does it all, in a goroutine of its own.
func (r *run) run() {
	defer r.host.finished(r)
	defer r.stdin.end()
	select {
	case <-r.turn:
	case <-r.stopping:
	}
	if r.isStopping() { // in the queue, or just as its turn came
		r.end(ending{})
		return
	}
	if hook := r.host.opts.Hooks.Started; hook != nil {
		hook(r.key.Tenant, time.Since(r.created))
	}
	t := r.host.newTree(r)
	defer t.close()
	c, remove, err := r.launch(t)
	defer remove()
	if err != nil {
		r.end(ending{Outcome: FailedToStart, Error: err.Error()})
		return
	}
	defer c.close()
	r.attend(c)
}

// launch starts the process.
func (r *run) launch(t tree) (c *child, remove func(), err error) {
	r.isolated = isolate(t, r.isolation, r.request.Limits)
	sp, remove, err := r.spec()
	if err != nil {
		return nil, remove, err
	}
	c, err = startChild(r.host.spawner, sp, t)
	if err != nil {
		return nil, remove, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.child = c
	return c, remove, nil
}

// spec says how the command of the request is started.
func (r *run) spec() (sp *spec, remove func(), err error) {
	req := &r.request
	remove = func() {}
	sp = &spec{
		argv: req.Argv, cwd: req.cwd(r.host.opts.Dir), tty: req.TTY,
		stdin: req.StdinOpen || len(req.input()) > 0, isolation: r.isolation,
		environ: environ(userEnviron(r.isolation.User, os.Environ()), r.host.opts.PassEnv, req.Env, req.TTY != nil,
			envID+"="+r.id, markOf(r.epoch())),
	}
	switch {
	case req.Command != "":
		sp.argv = []string{"sh", "-c", req.Command}
	case req.Language != "":
		l := languages[req.Language]
		var file string
		if file, remove, err = l.writeCode(codeDir(r.isolation, r.host.opts.StateDir), req.Code); err != nil {
			return nil, func() {}, err
		}
		if err = show(r.isolation, filepath.Dir(file)); err != nil {
			return nil, remove, err
		}
		sp.argv, err = l.argv(variable(sp.environ, "PATH"), file)
	}
	return sp, remove, err
}

// markOf is the entry in the environment of all processes of a run.
func markOf(epoch reprise.Epoch) string { return envEpoch + "=" + string(epoch) }
