package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/problem"
)

// Handler answers calls from other replicas. ctx is done when the caller no longer waits, when
// this replica ends, or when it is declared dead. An error is sent to the caller by its code; see package problem.
// Handlers run concurrently, each in a goroutine of its own. They may keep body.
type Handler func(ctx context.Context, from string, body []byte) ([]byte, error)

// Serve sets the handler of a service; nil removes it. Calls to a service without
// a handler are refused with reprise.ErrUnavailable.
func (m *Member) Serve(service string, f Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f == nil {
		delete(m.services, service)
		return
	}
	m.services[service] = f
}

// receive reads an inbox for as long as its life lasts.
func (m *Member) receive(lf *life, reader *reprise.Reader) {
	defer func() { _ = reader.Close() }()
	var a assembler
	var seen recent
	var failed time.Time // the first of the failures in a row
	for {
		events, err := reader.Next(lf.ctx)
		if err == nil {
			failed = time.Time{}
			m.dispatch(lf, &events, &a, &seen)
			continue
		}
		a.forget()
		window, isOutside := errors.AsType[*reprise.WindowError](err)
		switch {
		case lf.ctx.Err() != nil || errors.Is(err, reprise.ErrClosed):
			return
		case isOutside:
			m.opts.Logger.Warn("calls were missed", "replica", lf.name, "error", err)
			err = reader.Seek(reprise.After(window.Resume()))
		case failed.IsZero():
			failed = time.Now()
		case m.isDeaf(failed):
			m.opts.Logger.Error("an inbox cannot be read: its calls and answers are left out",
				"replica", lf.name, "error", err)
			failed = time.Time{}
			err = reader.Seek(reprise.Tail())
		}
		switch {
		case err == nil:
		case isGone(err):
			lf.end(errDead) // a replica needs its inbox
			return
		case !sleep(lf.ctx, m.opts.Beat/4):
			return
		}
	}
}

// isDeaf reports whether the inbox alone has failed since then: all beats of a TTL were kept meanwhile. Others take
// this replica for alive then, and would wait for its answers.
func (m *Member) isDeaf(failed time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if failed.Before(m.lostBeat) {
		failed = m.lostBeat
	}
	return m.lastBeat.Sub(failed) >= m.opts.TTL
}

// dispatch handles the messages of a run of events. A call that was cancelled before it is handled, because this
// replica was stalled, is not started.
func (m *Member) dispatch(lf *life, events *reprise.Events, a *assembler, seen *recent) {
	var calls []message
	for e := range events.All() {
		msg, ok := a.add(&e)
		if !ok {
			continue
		}
		switch msg.typ {
		case typeCall:
			if seen.add(msg.ID) {
				calls = append(calls, msg)
			}
		case typeAnswer:
			lf.answered(msg)
		case typeCancel:
			for i := range calls {
				if calls[i].ID == msg.ID {
					calls[i].typ = typeCancel
				}
			}
			lf.cancelled(msg.ID)
		}
	}
	for _, msg := range calls {
		if msg.typ == typeCall {
			m.begun(lf, msg)
		}
	}
}

// begun serves a call in a goroutine of its own, or refuses it.
func (m *Member) begun(lf *life, msg message) {
	ctx, cancel := context.WithTimeout(lf.ctx, min(time.Duration(msg.WithinMS)*time.Millisecond, time.Hour))
	m.mu.Lock()
	f := m.services[msg.Service]
	m.mu.Unlock()
	lf.mu.Lock()
	full := len(lf.serving) >= m.opts.MaxServing
	if !full {
		lf.serving[msg.ID] = cancel
	}
	lf.mu.Unlock()
	switch {
	case full:
		f = refuse(fmt.Errorf("%w: replica %s has reached its limit of calls", reprise.ErrUnavailable, lf.name))
	case f == nil:
		f = refuse(fmt.Errorf("%w: replica %s does not serve %q", reprise.ErrUnavailable, lf.name, msg.Service))
	}
	m.tasks.Go(func() {
		defer cancel()
		body, err := f(ctx, msg.From, msg.body)
		if !full {
			lf.served(msg.ID)
		}
		m.answer(ctx, lf, &msg, body, err)
	})
}

func refuse(err error) Handler {
	return func(context.Context, string, []byte) ([]byte, error) { return nil, err }
}

// answer sends the result of a handler while the caller waits.
func (m *Member) answer(ctx context.Context, lf *life, call *message, body []byte, err error) {
	if ctx.Err() != nil {
		return
	}
	h := header{ID: call.ID}
	if err == nil && len(body) > MaxBody {
		err = fmt.Errorf("an answer of %d bytes to %q", len(body), call.Service)
	}
	if err != nil {
		p := problem.From(err)
		if p.Code == problem.CodeInternal {
			m.opts.Logger.Error("a call failed", "service", call.Service, "from", call.From, "error", err)
		}
		h.Code, h.Detail, h.Field, body = string(p.Code), p.Detail, p.Field, nil
	}
	events, err := encode(typeAnswer, h, body)
	if err == nil {
		err = m.send(ctx, call.From, events)
	}
	if err != nil {
		m.opts.Logger.Info("a call cannot be answered", "service", call.Service, "from", call.From, "replica", lf.name,
			"error", err)
	}
}

// cancelled cancels a call that is being served.
func (lf *life) cancelled(id string) {
	lf.mu.Lock()
	defer lf.mu.Unlock()
	if cancel := lf.serving[id]; cancel != nil {
		cancel()
	}
}

func (lf *life) served(id string) {
	lf.mu.Lock()
	defer lf.mu.Unlock()
	delete(lf.serving, id)
}

// recent remembers the newest ids, so that a call that was sent twice, because the response of the store was lost, is
// served once.
type recent struct {
	ids  map[string]bool
	ring []string
	next int
}

const recentIDs = 4096

// add reports whether the id is new.
func (r *recent) add(id string) bool {
	if r.ids[id] {
		return false
	}
	if r.ids == nil {
		r.ids = map[string]bool{}
	}
	r.ids[id] = true
	if len(r.ring) < recentIDs {
		r.ring = append(r.ring, id)
		return true
	}
	delete(r.ids, r.ring[r.next])
	r.ring[r.next] = id
	r.next = (r.next + 1) % recentIDs
	return true
}
