package execution

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/isolation"
)

// job is a command from its start to its end, in the process that owns it: a supervisor, or the server itself. A job
// does not depend on streams.
type job struct {
	plan  *plan // set before the command is started
	alone bool  // this process has no other job
	stdin *stdin

	stopping chan struct{} // closed when it is to end
	done     chan struct{} // closed when it is over

	output atomic.Int64 // bytes of output that were read

	mu       sync.Mutex
	verdict  *verdict // why it was ended, if that was decided before it ended
	now      bool     // without TERM and grace
	stopped  bool     // stopping is closed
	stopCall func()   // see onStop
	exited   bool     // the process has ended
	child    *child
	isolated *Isolation
	// startedAt is when the process was started, wherever that was.
	startedAt time.Time
	// resized is the latest size of the terminal, or nil if it still has the size of the request.
	resized *TTY

	graceEnds time.Time // the watcher's: when its tree is killed; zero before it is to end
}

func newJob(stdinOpen, tty bool) *job {
	return &job{
		stdin: newStdin(stdinOpen, tty), stopping: make(chan struct{}), done: make(chan struct{}),
	}
}

// plan contains everything that is needed to run a command. A server passes it to a supervisor.
type plan struct {
	ID string `json:"id"`
	// Shown is the description of the request in the started event.
	Shown meta `json:"shown"`

	Argv    []string `json:"argv"`
	Cwd     string   `json:"cwd"`
	Environ []string `json:"environ"`
	// Mark is the entry of Environ that all processes of the run have.
	Mark string `json:"mark"`
	TTY  *TTY   `json:"tty,omitempty"`
	// Masked is what stands as "***" in the output.
	Masked []string `json:"masked,omitempty"`

	// Input is the beginning of stdin. StdinOpen is true if more may follow.
	Input     []byte `json:"input,omitempty"`
	StdinOpen bool   `json:"stdin_open,omitempty"`

	// Timeout is 0 for none.
	Timeout time.Duration `json:"timeout,omitempty"`
	Grace   time.Duration `json:"grace"`
	Drain   time.Duration `json:"drain"`
	Limits  Limits        `json:"limits"`
	// Isolation is how the process is started.
	Isolation *isolation.Plan `json:"isolation"`
}

// spec returns the parameters of the process.
func (j *job) spec() *spec {
	p := j.plan
	return &spec{
		argv: p.Argv, cwd: p.Cwd, environ: p.Environ, tty: p.TTY,
		alone: j.alone, stdin: p.StdinOpen || len(p.Input) > 0, isolation: p.Isolation,
	}
}

// started records the process.
func (j *job) started(c *child) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.child, j.startedAt = c, c.started
}

// signal sends a signal, by its name, to the process group of the command.
func (j *job) signal(name string) error {
	s, err := parseSignal(name)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock() // the process is not reaped before this is let go
	switch {
	case j.exited:
		return errHasEnded
	case j.child == nil:
		return errNotStartedYet
	}
	if err := j.child.signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", name, err)
	}
	return nil
}

// resize sets the size of the terminal of the command.
func (j *job) resize(size *TTY) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.exited:
		return errHasEnded
	case j.child == nil:
		return errNotStartedYet
	case j.plan.TTY == nil:
		return errNoTerminal
	}
	if err := j.child.resize(size); err != nil {
		return fmt.Errorf("resize the terminal: %w", err)
	}
	j.resized = size
	return nil
}

// writeStdin is Host.WriteStdin for a command of this process. took is the number of bytes of Data that were written or
// skipped.
func (j *job) writeStdin(ctx context.Context, w StdinWrite) (took int64, state Stdin, err error) {
	if !j.stdin.wanted {
		return 0, j.stdin.state(w.Writer), errStdinNotOpened
	}
	select {
	case j.stdin.turn <- struct{}{}:
	case <-j.done:
		return 0, j.stdin.state(w.Writer), errHasEnded
	case <-ctx.Done():
		return 0, j.stdin.state(w.Writer), context.Cause(ctx)
	}
	defer func() { <-j.stdin.turn }()
	took, err = j.stdin.write(ctx, w)
	return took, j.stdin.state(w.Writer), err
}

var (
	errHasEnded       = fmt.Errorf("%w: the command has ended", reprise.ErrEnded)
	errNotStartedYet  = fmt.Errorf("%w: the command has not been started yet", reprise.ErrConflict)
	errNoTerminal     = fmt.Errorf("%w: the command has no terminal", reprise.ErrConflict)
	errStdinNotOpened = fmt.Errorf("%w: stdin was not opened", reprise.ErrEnded)
)
