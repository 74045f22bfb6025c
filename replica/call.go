package replica

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/problem"
)

// pending is an outgoing call without an answer.
type pending struct {
	to       string
	answered chan message // with capacity 1
}

// errGone means that a call gets no answer because its callee has gone.
var errGone = fmt.Errorf("%w: the replica is not there", reprise.ErrUnavailable)

// Call calls a service of the replica named to and returns its answer. It blocks until the
// answer arrives, ctx is done or Options.CallTimeout has passed. Body and answer have at
// most MaxBody bytes; body must not be changed until Call returns. A Member can call itself.
//
// An error that the service returned is a problem.Problem, in which errors.Is finds
// the error of package reprise. The error wraps reprise.ErrUnavailable at once if there
// is no such replica or when it is declared dead, and after Options.CallTimeout. Unless
// there was no such replica to begin with, the call may then have been carried out. It
// is not carried out later, unless the store failed meanwhile. Other errors are reprise.ErrInvalid for
// a body that is too long, reprise.ErrClosed, and the cause if ctx is cancelled.
func (m *Member) Call(ctx context.Context, to, service string, body []byte) ([]byte, error) {
	lf := m.current()
	if lf == nil {
		if m.ctx.Err() != nil {
			return nil, context.Cause(m.ctx)
		}
		return nil, errDead
	}
	late := fmt.Errorf("%w: replica %s has not answered within %s", reprise.ErrUnavailable, to, m.opts.CallTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, m.opts.CallTimeout, late)
	defer cancel()
	if err := m.reach(ctx, to); err != nil {
		return nil, err
	}
	id := rand.Text()
	events, err := encode(typeCall, header{ID: id, From: lf.name, Service: service, WithinMS: within(ctx)}, body)
	if err != nil {
		return nil, err
	}
	wait, forget := lf.expect(id, to)
	defer forget()
	// It may go while no call expects anything from it.
	if !m.Alive(to) {
		return nil, fmt.Errorf("%w: %s", errGone, to)
	}
	if err := m.send(ctx, to, events); err != nil {
		return nil, err
	}
	select {
	case answer, ok := <-wait:
		if !ok {
			return nil, fmt.Errorf("%w any more: %s", errGone, to)
		}
		return answer.body, answer.err()
	case <-lf.ctx.Done():
		return nil, context.Cause(lf.ctx)
	case <-ctx.Done():
		m.background(func() { m.cancel(lf, to, id) })
		return nil, context.Cause(ctx)
	}
}

// within returns the milliseconds until the deadline, at least 1.
func within(ctx context.Context) int64 {
	deadline, _ := ctx.Deadline()
	return max(1, time.Until(deadline).Milliseconds())
}

// reach returns an error unless the replica is alive. An unknown one may have just joined.
func (m *Member) reach(ctx context.Context, to string) error {
	m.mu.Lock()
	p := m.peers[to]
	known := p != nil || m.life != nil && m.life.name == to
	fresh := time.Since(m.lastLook) < m.opts.Beat/8 // so that calls to an unknown name do not each cause a look
	m.mu.Unlock()
	if !known && !fresh {
		if err := m.Look(ctx); err != nil {
			return err
		}
	}
	if !m.Alive(to) {
		return fmt.Errorf("%w: %s", errGone, to)
	}
	return nil
}

// send appends a message to an inbox. It retries while the store is unavailable: a callee accepts each id once.
func (m *Member) send(ctx context.Context, to string, events []reprise.Event) error {
	for {
		inbox, err := m.log.Stream(ctx, streamKey(inboxNamespace, to))
		if err == nil {
			_, err = inbox.Append(ctx, events...)
		}
		switch {
		case err == nil:
			return nil
		case isGone(err):
			return fmt.Errorf("%w: %s", errGone, to)
		case !errors.Is(err, reprise.ErrUnavailable):
			return err
		case !sleep(ctx, m.opts.Beat/20):
			return context.Cause(ctx)
		}
	}
}

// cancel notifies the callee that the caller no longer waits.
func (m *Member) cancel(lf *life, to, id string) {
	ctx, cancel := context.WithTimeout(lf.ctx, m.opts.CallTimeout)
	defer cancel()
	events, err := encode(typeCancel, header{ID: id, From: lf.name}, nil)
	if err == nil {
		err = m.send(ctx, to, events)
	}
	if err != nil {
		m.opts.Logger.Info("a call cannot be cancelled", "replica", to, "error", err)
	}
}

// expect registers a call that waits for an answer. The channel is closed if the callee goes.
func (lf *life) expect(id, to string) (<-chan message, func()) {
	p := &pending{to: to, answered: make(chan message, 1)}
	lf.mu.Lock()
	defer lf.mu.Unlock()
	lf.pending[id] = p
	return p.answered, func() {
		lf.mu.Lock()
		defer lf.mu.Unlock()
		delete(lf.pending, id)
	}
}

// answered passes an answer to its caller. A late answer is dropped.
func (lf *life) answered(msg message) {
	lf.mu.Lock()
	defer lf.mu.Unlock()
	if p := lf.pending[msg.ID]; p != nil {
		delete(lf.pending, msg.ID)
		p.answered <- msg
	}
}

// abandon ends the calls whose callee has gone.
func (lf *life) abandon(name string) {
	lf.mu.Lock()
	defer lf.mu.Unlock()
	for id, p := range lf.pending {
		if p.to == name {
			delete(lf.pending, id)
			close(p.answered)
		}
	}
}

// err returns the error in an answer, or nil.
func (msg *message) err() error {
	if msg.Code == "" {
		return nil
	}
	p := problem.New(problem.Code(msg.Code), msg.Detail)
	if msg.Field != "" {
		p = problem.Invalid(422, msg.Field, msg.Detail)
	}
	return p
}
