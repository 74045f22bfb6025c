package execution

import (
	"context"
	"errors"
	"time"

	"reprise"
	"reprise/internal/execution/command"
	"reprise/internal/execution/supervisor"
)

// whoRuns returns our run of an execution, or the name of the replica that runs it, or neither if the execution has
// ended.
func (h *Host) whoRuns(ctx context.Context, tenant reprise.Tenant, id string) (r *Run, owner string, err error) {
	key := keyOf(tenant, id)
	if r := h.find(key); r != nil {
		return r, "", nil
	}
	s, err := h.Stream(ctx, tenant, id)
	if err != nil {
		return nil, "", err
	}
	if owner, err = h.elsewhere(ctx, s); err != nil || owner != "" {
		return nil, owner, err
	}
	r, err = h.findStarted(ctx, key)
	return r, "", err
}

// hop passes a Control on towards a command, or does what it asks for: a command.Job, a supervisor, a run of this
// replica, which has one of the two, or the replica that has the run.
type hop interface {
	Control(ctx context.Context, c *command.Control) (*command.Taken, error)
}

// replicaHop is the replica that runs an execution.
type replicaHop struct {
	host   *Host
	owner  string
	tenant reprise.Tenant
	id     string
}

// Control asks the replica.
func (a *replicaHop) Control(ctx context.Context, c *command.Control) (*command.Taken, error) {
	t, err := a.host.ask(ctx, a.owner, ask{Control: *c, Tenant: a.tenant, ID: a.id})
	return supervisor.Answered(c, t.Stdin, err)
}

// toward returns the next hop to the command of an execution. The error is ErrHasEnded if the execution has ended.
func (h *Host) toward(ctx context.Context, tenant reprise.Tenant, id string) (hop, error) {
	r, owner, err := h.whoRuns(ctx, tenant, id)
	switch {
	case err != nil:
		return nil, err
	case r != nil:
		return r, nil
	case owner == "":
		return nil, ErrHasEnded
	}
	return &replicaHop{h, owner, tenant, id}, nil
}

// control sends a Control to the command of an execution.
func (h *Host) control(ctx context.Context, tenant reprise.Tenant, id string, c command.Control) error {
	next, err := h.toward(ctx, tenant, id)
	if err == nil {
		_, err = next.Control(ctx, &c)
	}
	return err
}

// Control does what a Control asks of the command of a run of this replica.
func (r *Run) Control(ctx context.Context, c *command.Control) (*command.Taken, error) {
	switch {
	case c.Op == opCancel:
		r.host.cancelRun(ctx, r)
		return nil, nil
	case r.outer != nil:
		return nil, r.controlInside(ctx, c)
	case c.Stdin != nil && !r.request.StdinOpen:
		return nil, errStdinNotOpened
	}
	next, err := r.started(ctx, c)
	if errors.Is(err, errPause) {
		return &command.Taken{Stdin: Stdin{Offset: max(c.Stdin.Offset, 0), Open: true}, Again: true}, nil
	}
	if err != nil {
		return nil, err
	}
	t, err := next.Control(ctx, c)
	if err == nil && c.Size != nil {
		r.mu.Lock()
		r.shown.Resized = c.Size // before the supervisor reports it
		r.mu.Unlock()
	}
	return t, r.endedMeanwhile(supervisor.Refused(err))
}

// started returns what has the command of the run. A piece of stdin waits for a supervisor, for a while.
func (r *Run) started(ctx context.Context, c *command.Control) (hop, error) {
	if r.job != nil {
		return r.job, nil
	}
	select {
	case <-r.ready:
		return r.remote, nil
	default:
	}
	if c.Stdin == nil {
		return nil, errNotStartedYet
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*command.PiecePatience, errPause)
	defer cancel()
	select {
	case <-r.ready:
		return r.remote, nil
	case <-r.done:
		return nil, ErrHasEnded
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// endedMeanwhile returns the error of a call to a supervisor that has ended. A supervisor ends once its end event is in
// the stream, which is before the run is done.
func (r *Run) endedMeanwhile(err error) error {
	if !errors.Is(err, reprise.ErrUnavailable) {
		return err
	}
	select {
	case <-r.done:
		return ErrHasEnded
	default:
	}
	if s, info, unknown := lookUp(r.host.ctx, r.host.log, r.key); unknown == nil && s != nil && info.End != nil {
		return ErrHasEnded
	}
	return err
}

// Cancel ends an execution: it sends TERM to all its processes and, after a grace period, KILL. Cancel does not wait
// for their end, but removes a waiting execution from the queue. Cancelling an ended execution does nothing. It returns
// the same errors as Show, and reprise.ErrUnavailable if the replica that runs the execution does not answer.
func (h *Host) Cancel(ctx context.Context, tenant reprise.Tenant, id string) error {
	err := h.control(ctx, tenant, id, command.Control{Op: opCancel})
	if errors.Is(err, ErrHasEnded) {
		return nil
	}
	return err
}

// endPatience limits how long Cancel waits for the end of an execution that it removes from the queue.
const endPatience = 2 * time.Second

// cancelRun cancels a run of this replica. A queued run has its end event when cancelRun returns, so that no later
// server starts it.
func (h *Host) cancelRun(ctx context.Context, r *Run) {
	queued := h.queue.status(r) == StatusQueued
	r.cancel()
	if !queued {
		return
	}
	patience := time.NewTimer(endPatience)
	defer patience.Stop()
	select {
	case <-r.done:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// Signal sends a signal, by its POSIX name with or without SIG, to the process group of the command. The error is a
// *FieldError for an unknown name, reprise.ErrConflict if the command has not been started, reprise.ErrEnded if it has
// ended, or an error of Cancel.
func (h *Host) Signal(ctx context.Context, tenant reprise.Tenant, id, name string) error {
	if err := command.CheckSignal(name); err != nil {
		return invalid("signal", "%v", err)
	}
	return h.control(ctx, tenant, id, command.Control{Op: command.OpSignal, Signal: name})
}

// Resize sets the size of the terminal of an execution. If the size changes, the foreground process group of the
// terminal gets WINCH. The error is a *FieldError for an invalid size, reprise.ErrConflict if the command has no
// terminal or has not been started, reprise.ErrEnded if it has ended, or an error of Cancel.
func (h *Host) Resize(ctx context.Context, tenant reprise.Tenant, id string, size TTY) error {
	if size.Cols < 1 || size.Cols > maxSize || size.Rows < 1 || size.Rows > maxSize {
		return invalid("cols", "cols and rows are 1 to %d", maxSize)
	}
	return h.control(ctx, tenant, id, command.Control{Op: command.OpResize, Size: (*command.Size)(&size)})
}

// maxSize is the most columns and rows of a terminal.
const maxSize = 65535

// WriteStdin writes data to the stdin of a command whose request has StdinOpen. It blocks until the command has read
// all of it or the pipe holds the rest, ctx is done, or the command ends. If the command has not been started,
// WriteStdin waits for the start. The result contains the number of accepted bytes, also with an error.
//
// The error is reprise.ErrConflict for an offset beyond the accepted bytes, reprise.ErrEnded if stdin is closed or the
// command has ended, reprise.ErrInvalid if Data cannot be read, or an error of Cancel. Data is passed on in pieces. A
// write at offset -1 fails with reprise.ErrConflict if another writer has written between two of its pieces. After
// reprise.ErrUnavailable the last piece may have been accepted.
func (h *Host) WriteStdin(ctx context.Context, tenant reprise.Tenant, id string, w StdinWrite) (Stdin, error) {
	if w.Writer != "" {
		if w.Offset < 0 {
			return Stdin{}, invalid("offset", "a writer that is named says where its bytes begin")
		}
		if err := checkID("writer", w.Writer); err != nil {
			return Stdin{}, err
		}
	}
	next, err := h.toward(ctx, tenant, id)
	if err != nil {
		return Stdin{}, err
	}
	f := stdinWriter{to: next}
	err = f.write(ctx, w)
	return f.state, err
}

// Remove removes an execution and frees its name and its key: a start may run them again. It cancels an execution that
// has not ended, and waits for its end until ctx is done. Removing an execution that does not exist does nothing.
func (h *Host) Remove(ctx context.Context, tenant reprise.Tenant, id string) error {
	if checkID("id", id) != nil {
		return nil
	}
	key := keyOf(tenant, id)
	unlock, err := h.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	if r := h.find(key); r != nil {
		r.cancel()
		select {
		case <-r.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	} else if err := h.endElsewhere(ctx, tenant, id); err != nil {
		return err
	}
	if err := h.freeKey(ctx, key); err != nil {
		return err
	}
	if err := h.forgetName(ctx, key); err != nil {
		return err
	}
	if err := h.log.Remove(ctx, artifactsOf(key)); err != nil {
		return err
	}
	return h.log.Remove(ctx, key)
}

// askAgain is the interval at which a caller that waits for the end of a run on another replica repeats its request.
const askAgain = time.Second

// endElsewhere cancels an execution that another replica runs, and waits for its end. If that replica is dead, the
// replica that takes the execution over ends it.
func (h *Host) endElsewhere(ctx context.Context, tenant reprise.Tenant, id string) error {
	s, err := h.Stream(ctx, tenant, id)
	if isOver(err) {
		return nil
	}
	for err == nil {
		var owner string
		if owner, err = h.elsewhere(ctx, s); err != nil || owner == "" {
			break
		}
		_, err = (&replicaHop{h, owner, tenant, id}).Control(ctx, &command.Control{Op: opCancel})
		if err != nil && !errors.Is(err, reprise.ErrUnavailable) {
			break
		}
		err = waitForEnd(ctx, s, askAgain)
	}
	if isOver(err) {
		return nil // it was removed meanwhile
	}
	return err
}

// waitForEnd returns when a stream has ended, or after a while without an end.
func waitForEnd(ctx context.Context, s *reprise.Stream, most time.Duration) error {
	pause, cancel := context.WithTimeoutCause(ctx, most, errPause)
	defer cancel()
	reader, err := s.Reader(pause, reprise.Tail())
	for err == nil {
		_, err = reader.Next(pause)
		if _, ok := errors.AsType[*reprise.WindowError](err); ok {
			err = reader.Seek(reprise.Tail())
		}
	}
	if reader != nil {
		_ = reader.Close()
	}
	switch {
	case errors.Is(err, reprise.ErrEnded):
		return nil
	case errors.Is(err, errPause), errors.Is(err, reprise.ErrUnavailable), errors.Is(err, reprise.ErrTooManyReaders):
		<-pause.Done()
		return context.Cause(ctx)
	}
	return err
}

// errPause is the cause of a wait that is interrupted to check the state.
var errPause = errors.New("it takes longer")
