package command

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Job is a command from its start to its end, in the process that owns it: a supervisor, or the server itself.
type Job struct {
	*Decision // whose mu guards the fields of the process too

	plan  *Plan
	stdin *stdin
	over  chan struct{} // closed by Close

	output atomic.Int64 // bytes of output that were read

	// child is nil until the process has been started.
	child    *child
	isolated *Isolation
	// resized is the latest size of the terminal, or nil if it still has the size of the plan.
	resized *Size

	graceEnds time.Time // the watcher's: when its tree is killed; zero before it is to end
}

// NewJob returns the job of a command that may be started later, or never. stdinOpen says whether WriteStdin may
// follow, and tty whether the command will have a terminal. d decides when the command is to end.
func NewJob(stdinOpen, tty bool, d *Decision) *Job {
	return &Job{Decision: d, stdin: newStdin(stdinOpen, tty), over: make(chan struct{})}
}

// Output takes the output of a command.
type Output struct {
	// Started, if not nil, is called when the process has been started, before Write.
	Started func()
	// Write is called with the next chunks in the order in which they were read, and the first one is the started
	// chunk. They are good until it returns. After an error, the rest of the output is read and dropped.
	Write func([]Chunk) error
	// Most is the number of bytes that wait for Write, above which the command waits.
	Most int
	// Stalled, if not nil, is called before Write with the time that the command has waited since the last call.
	Stalled func(time.Duration)
}

// Run runs the command of a plan until its whole tree is gone and its output was written, or could not be. The ending
// says how it ended; Judge says why. Bytes is not set.
func (j *Job) Run(s *System, p *Plan, out *Output) Ending {
	t := s.newTree(p)
	c, err := j.launch(s, p, t)
	if err != nil {
		t.close()
		return Ending{Outcome: FailedToStart, Error: err.Error()}
	}
	defer c.close()
	if out.Started != nil {
		out.Started()
	}
	spool := newSpool(out.Most)
	var writing sync.WaitGroup
	var unkept error
	writing.Go(func() { unkept = spool.drain(out) })
	e := j.attend(c, spool)
	e.ProcessesLeft = t.close()
	spool.close()
	writing.Wait()
	if unkept != nil {
		e.OutputTruncated = true
	}
	return e
}

// launch starts the process.
func (j *Job) launch(s *System, p *Plan, t tree) (*child, error) {
	isolated := isolate(t, p.Isolation, p.Limits)
	j.mu.Lock()
	j.plan, j.isolated = p, isolated
	j.mu.Unlock()
	c, err := s.startChild(p, t)
	if err == nil {
		j.mu.Lock()
		j.child = c
		j.mu.Unlock()
	}
	return c, err
}

// Close refuses everything that is asked of the command from now on, and releases writers of its stdin.
func (j *Job) Close() {
	j.stdin.end()
	close(j.over)
}

// State is the state of a job.
type State struct {
	// StartedAt is zero before the process is started.
	StartedAt time.Time `json:"started_at,omitzero"`
	// Isolation is nil before the process is about to be started.
	Isolation *Isolation `json:"isolation,omitempty"`
	// Resized is the latest size of the terminal, or nil if it still has the size of the plan.
	Resized *Size `json:"resized,omitempty"`
	// Stopping: the command is to end, or was when it ended by itself.
	Stopping bool `json:"stopping,omitempty"`
}

// State returns the state.
func (j *Job) State() State {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := State{Isolation: j.isolated, Resized: j.resized, Stopping: j.stopped}
	if j.child != nil {
		s.StartedAt = j.child.started
	}
	return s
}

// signal sends a signal, by its name, to the process group of the command.
func (j *Job) signal(name string) error {
	s, err := parseSignal(name)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock() // the process is not reaped before this is let go
	switch {
	case j.exited:
		return ErrHasEnded
	case j.child == nil:
		return ErrNotStarted
	}
	if err := j.child.signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", name, err)
	}
	return nil
}

// resize sets the size of the terminal of the command.
func (j *Job) resize(size *Size) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.exited:
		return ErrHasEnded
	case j.child == nil:
		return ErrNotStarted
	case j.plan.TTY == nil:
		return ErrNoTerminal
	}
	if err := j.child.resize(size); err != nil {
		return fmt.Errorf("resize the terminal: %w", err)
	}
	j.resized = size
	return nil
}
