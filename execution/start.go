package execution

import (
	"context"
	"fmt"
	"time"

	"reprise"
)

// Start starts an execution, or finds the one that the same request has started
// before under the same id or idempotency key; created says which. It returns when the
// execution is kept, which may be before its process runs: it may have to wait for
// a turn. What req refers to must not be changed afterwards.
//
// The error is a *FieldError, reprise.ErrConflict if the id was used for another
// request, reprise.ErrQuota if too many executions wait, reprise.ErrClosed after
// Stop, or that of the Log. That a program cannot be started is no error but an outcome.
func (h *Host) Start(ctx context.Context, tenant reprise.Tenant, req Request) (x Execution, created bool, err error) {
	if err := req.Validate(); err != nil {
		return Execution{}, false, err
	}
	id := h.id(tenant, &req)
	key := keyOf(tenant, id)
	unlock, err := h.lock(ctx, key)
	if err != nil {
		return Execution{}, false, err
	}
	defer unlock()
	config := h.config(&req)
	r := newRun(h, key, id, req)
	if r.owner, err = h.owner(); err != nil {
		return Execution{}, false, err
	}
	if err := h.admit(r); err != nil {
		if x, attached := h.attach(ctx, key, config); attached {
			return x, false, nil
		}
		return Execution{}, false, err
	}
	created, err = h.create(ctx, r, config)
	if err != nil || !created {
		h.queue.leave(r)
		h.active.Done()
	}
	if err != nil {
		return Execution{}, false, err
	}
	x, err = h.show(ctx, r.stream)
	return x, created, err
}

// admit finds a place for a run, which r has until it is finished.
func (h *Host) admit(r *run) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return fmt.Errorf("%w: no executions are taken any more", reprise.ErrClosed)
	}
	if err := h.queue.enter(r); err != nil {
		return err
	}
	h.active.Add(1)
	return nil
}

// attach finds the execution that was started by an equal request, while none can be started.
func (h *Host) attach(ctx context.Context, key reprise.StreamKey, config reprise.StreamConfig) (Execution, bool) {
	s, err := h.log.Stream(ctx, key)
	if err != nil {
		return Execution{}, false
	}
	info, err := s.Info(ctx)
	if err != nil || !info.Config.Equal(config) {
		return Execution{}, false
	}
	x, err := h.show(ctx, s)
	return x, err == nil
}

// create makes the stream and lets the run go. created is false if the execution was
// there.
func (h *Host) create(ctx context.Context, r *run, config reprise.StreamConfig) (created bool, err error) {
	r.stream, created, err = h.log.CreateWith(ctx, reprise.CreateOptions{Owner: r.owner}, r.key, config)
	if err != nil {
		return false, err
	}
	if !created && h.find(r.key) == nil {
		// An empty stream of ours without a run is what an earlier start has left that
		// was not told that its stream was made.
		info, err := r.stream.Info(ctx)
		if err != nil {
			return false, err
		}
		created = info.Tail == 0 && info.End == nil && info.Owner == r.owner
	}
	if created {
		h.mu.Lock()
		h.runs[r.key] = r
		h.mu.Unlock()
		h.checkOwner(r)
		go r.run()
	}
	return created, nil
}

// Cancel ends an execution: TERM to all its processes and, after a time of grace, KILL.
// It does not wait for that. Cancelling what has ended does nothing. The errors are
// those of Show.
func (h *Host) Cancel(ctx context.Context, tenant reprise.Tenant, id string) error {
	if r := h.find(keyOf(tenant, id)); r != nil {
		r.cancel()
		return nil
	}
	_, err := h.Stream(ctx, tenant, id)
	return err
}

func (r *run) cancel() { r.stop(verdict{outcome: Cancelled}) }

// grace is the time between TERM and KILL.
func (r *run) grace() time.Duration {
	if r.request.Grace > 0 {
		return time.Duration(r.request.Grace)
	}
	return r.host.opts.Grace
}

func (r *run) epoch() reprise.Epoch { return r.stream.Cursor(0).Epoch }

// Signal sends a signal, by its POSIX name with or without SIG, to the process group of the
// command. The error is a *FieldError for a name that is none, reprise.ErrConflict
// if the command has not been started, reprise.ErrEnded if it has ended, or as of Show.
func (h *Host) Signal(ctx context.Context, tenant reprise.Tenant, id, name string) error {
	s, err := parseSignal(name)
	if err != nil {
		return err
	}
	r := h.find(keyOf(tenant, id))
	if r == nil {
		if _, err := h.Stream(ctx, tenant, id); err != nil {
			return err
		}
		return fmt.Errorf("%w: the command has ended", reprise.ErrEnded)
	}
	r.mu.Lock()
	defer r.mu.Unlock() // the process is not reaped before this is let go
	switch {
	case r.exited:
		return fmt.Errorf("%w: the command has ended", reprise.ErrEnded)
	case r.child == nil:
		return fmt.Errorf("%w: the command has not been started yet", reprise.ErrConflict)
	}
	if err := r.child.signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", name, err)
	}
	return nil
}

// WriteStdin gives data to the command of a request with StdinOpen. It blocks until the
// command has taken all of it (or its pipe has), ctx is done, or the
// command ends; a command that has not been started yet is waited for. The answer
// says how much has been taken, with an error too.
//
// The error is reprise.ErrConflict for an offset beyond what was taken,
// reprise.ErrEnded when stdin is closed or the command has ended, reprise.ErrInvalid
// when Data cannot be read, or as of Show.
func (h *Host) WriteStdin(ctx context.Context, tenant reprise.Tenant, id string, w StdinWrite) (Stdin, error) {
	r := h.find(keyOf(tenant, id))
	if r == nil {
		if _, err := h.Stream(ctx, tenant, id); err != nil {
			return Stdin{}, err
		}
		return Stdin{}, fmt.Errorf("%w: the command has ended", reprise.ErrEnded)
	}
	if !r.request.StdinOpen {
		return r.stdin.state(), fmt.Errorf("%w: stdin was not opened", reprise.ErrEnded)
	}
	select {
	case r.stdin.turn <- struct{}{}:
	case <-r.done:
		return r.stdin.state(), fmt.Errorf("%w: the command has ended", reprise.ErrEnded)
	case <-ctx.Done():
		return r.stdin.state(), context.Cause(ctx)
	}
	defer func() { <-r.stdin.turn }()
	err := r.stdin.write(ctx, w)
	return r.stdin.state(), err
}

// Remove forgets an execution; one that has not ended is cancelled first, and Remove waits
// for its end until ctx is done. Removing what is not there does nothing.
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
	}
	return h.log.Remove(ctx, key)
}
