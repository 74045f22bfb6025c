package execution

import (
	"context"
	"errors"
	"time"

	"reprise"
)

// whoRuns finds the run of ours that an execution is, or the name of the replica that runs it; neither for one that has
// ended.
func (h *Host) whoRuns(ctx context.Context, tenant reprise.Tenant, id string) (r *run, owner string, err error) {
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

// Cancel ends an execution: TERM to all its processes and, after a time of grace, KILL. It does not wait for that, but
// takes what waits in the queue out of it. Cancelling what has ended does nothing. The errors are those of Show, and
// reprise.ErrUnavailable if the replica that runs it does not answer.
func (h *Host) Cancel(ctx context.Context, tenant reprise.Tenant, id string) error {
	r, owner, err := h.whoRuns(ctx, tenant, id)
	switch {
	case err != nil:
		return err
	case r != nil:
		h.cancelRun(ctx, r)
		return nil
	case owner == "":
		return nil
	}
	_, err = h.ask(ctx, owner, ask{Op: opCancel, Tenant: tenant, ID: id})
	return err
}

// endPatience bounds how long Cancel waits for the end of what it takes from the queue.
const endPatience = 2 * time.Second

// cancelRun cancels a run of ours. What it takes from the queue has its end when it returns: a server that is killed
// then does not start it later.
func (h *Host) cancelRun(ctx context.Context, r *run) {
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

// Signal sends a signal, by its POSIX name with or without SIG, to the process group of the
// command. The error is a *FieldError for a name that is none, reprise.ErrConflict
// if the command has not been started, reprise.ErrEnded if it has ended, or as of Cancel.
func (h *Host) Signal(ctx context.Context, tenant reprise.Tenant, id, name string) error {
	if _, err := parseSignal(name); err != nil {
		return err
	}
	r, owner, err := h.whoRuns(ctx, tenant, id)
	switch {
	case err != nil:
		return err
	case r != nil:
		return r.signal(name)
	case owner == "":
		return errHasEnded
	}
	_, err = h.ask(ctx, owner, ask{Op: opSignal, Tenant: tenant, ID: id, Signal: name})
	return err
}

// Resize sets the size of the terminal of an execution. Where that changes it, the foreground process group of the
// terminal gets WINCH. The error is a *FieldError for a size that is none, reprise.ErrConflict if the command has no
// terminal or has not been started, reprise.ErrEnded if it has ended, or as of Cancel.
func (h *Host) Resize(ctx context.Context, tenant reprise.Tenant, id string, size TTY) error {
	if size.Cols < 1 || size.Cols > maxSize || size.Rows < 1 || size.Rows > maxSize {
		return invalid("cols", "cols and rows are 1 to %d", maxSize)
	}
	r, owner, err := h.whoRuns(ctx, tenant, id)
	switch {
	case err != nil:
		return err
	case r != nil:
		return r.resize(&size)
	case owner == "":
		return errHasEnded
	}
	_, err = h.ask(ctx, owner, ask{Op: opResize, Tenant: tenant, ID: id, Size: &size})
	return err
}

// maxSize is the most columns and rows of a terminal.
const maxSize = 65535

// WriteStdin gives data to the command of a request with StdinOpen. It blocks until the
// command has taken all of it (or its pipe has), ctx is done, or the
// command ends; a command that has not been started yet is waited for. The answer
// says how much has been taken, with an error too.
//
// The error is reprise.ErrConflict for an offset beyond what was taken,
// reprise.ErrEnded when stdin is closed or the command has ended, reprise.ErrInvalid
// when Data cannot be read, or as of Cancel. Where another replica runs the command, Data goes there
// in pieces; a write at offset -1 in between whose second piece finds that somebody else has
// written is reprise.ErrConflict, and after reprise.ErrUnavailable the last piece may have been taken.
func (h *Host) WriteStdin(ctx context.Context, tenant reprise.Tenant, id string, w StdinWrite) (Stdin, error) {
	if w.Writer != "" {
		if w.Offset < 0 {
			return Stdin{}, invalid("offset", "a writer that is named says where its bytes begin")
		}
		if err := checkID("writer", w.Writer); err != nil {
			return Stdin{}, err
		}
	}
	r, owner, err := h.whoRuns(ctx, tenant, id)
	switch {
	case err != nil:
		return Stdin{}, err
	case r != nil:
		return r.writeStdin(ctx, w)
	case owner == "":
		return Stdin{}, errHasEnded
	}
	far := farStdin{ask: h.stdinAt(owner, tenant, id)}
	return far.write(ctx, w)
}

// Remove forgets an execution; one that has not ended is cancelled first, and Remove waits
// for its end until ctx is done. Its key is free then. Removing what is not there does nothing.
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
	if err := h.log.Remove(ctx, artifactsOf(key)); err != nil {
		return err
	}
	return h.log.Remove(ctx, key)
}

// askAgain is how long one that waits for the end of a run on another replica goes without asking for it again.
const askAgain = time.Second

// endElsewhere has an execution cancelled that another replica runs, and waits for its end. Should that replica be
// dead, the end comes from whoever takes it over.
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
		_, err = h.ask(ctx, owner, ask{Op: opCancel, Tenant: tenant, ID: id})
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

// errPause is why a wait ended that is to be looked into.
var errPause = errors.New("it takes longer")
