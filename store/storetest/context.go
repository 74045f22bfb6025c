package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"reprise"
)

const ruleContext = "Its methods block until they have the answer or the context is cancelled; then they return the cause of the cancellation."

var contextChecks = []check{
	{name: "cancelled before", rule: ruleContext, run: func(e *env) {
		s := e.create("s").append(2)
		cause := errors.New("the cause")
		ctx, cancel := context.WithCancelCause(e.ctx)
		cancel(cause)
		for what, err := range e.everyCall(ctx, s) {
			e.wantError(err, cause, "%s with a cancelled context", what)
		}
		s.same()
		s.append(1).same()
	}},
	{name: "cancelled meanwhile", rule: ruleContext, run: cancelledMeanwhile},
}

// everyCall makes a call of each kind that returns an error.
func (e *env) everyCall(ctx context.Context, s *stream) map[string]error {
	errs := map[string]error{}
	_, errs["Create"] = e.store.Create(ctx,
		reprise.StreamInfo{Key: key("new"), Epoch: reprise.NewEpoch(), Created: now()})
	_, errs["Read"] = e.store.Read(ctx, s.key, 0, 1<<20)
	_, errs["List"] = e.store.List(ctx, everything)
	errs["Remove"] = e.store.Remove(ctx, s.key, reprise.RemoveSpec{})
	errs["Remove of events"] = e.store.Remove(ctx, s.key, reprise.RemoveSpec{Trim: 2, Kept: eventBytes})
	reqs := []reprise.AppendRequest{
		s.request(1), {Key: key("absent"), Epoch: s.epoch, First: 1, Count: 1, Bytes: []byte("x")},
	}
	got := e.store.Append(ctx, reqs)
	if len(got) != len(reqs) {
		e.failf("append of %d requests: %d errors, want one for each", len(reqs), len(got))
	}
	for i, err := range got {
		errs[fmt.Sprint("Append, request ", i)] = err
	}
	if sweeper, ok := e.store.(reprise.Sweeper); ok {
		if _, err := sweeper.Sweep(ctx, now(), now(), 10); !errors.Is(err, errors.ErrUnsupported) {
			errs["Sweep"] = err
		}
	}
	if sizer, ok := e.store.(reprise.Sizer); ok {
		if _, err := sizer.Sizes(ctx); !errors.Is(err, errors.ErrUnsupported) {
			errs["Sizes"] = err
		}
	}
	return errs
}

// cancelledMeanwhile cancels contexts during their calls. Other calls must not be affected, and no batch may be stored
// in part.
func cancelledMeanwhile(e *env) {
	cause := errors.New("the cause")
	steady := e.create("steady").append(200)
	reader := *steady
	e.concurrently(3, func(i int) {
		switch i {
		case 0:
			for range 100 {
				steady.append(2)
			}
		case 1:
			for n := range 100 {
				ctx, cancel := context.WithCancelCause(e.ctx)
				stop := time.AfterFunc(time.Duration(n)*3*time.Microsecond, func() { cancel(cause) })
				page, err := e.store.Read(ctx, reader.key, 0, 1<<20)
				stop.Stop()
				cancel(nil)
				if err == nil {
					reader.consistent(&page, 0, 1<<20)
					continue
				}
				e.wantError(err, cause, "read with a context that is cancelled meanwhile")
			}
		case 2:
			shakyAppends(e, cause)
		}
	})
	steady.same()
}

// shakyAppends appends three events at a time with contexts that are cancelled meanwhile. Whatever the result was, all
// events of an append must be stored, possibly later, or none of them.
func shakyAppends(e *env, cause error) {
	const batch = 3
	s := e.create("shaky")
	for n := range 100 {
		ctx, cancel := context.WithCancelCause(e.ctx)
		stop := time.AfterFunc(time.Duration(n)*3*time.Microsecond, func() { cancel(cause) })
		req := s.request(batch)
		errs := e.store.Append(ctx, []reprise.AppendRequest{req})
		stop.Stop()
		cancel(nil)
		if errs != nil && !errors.Is(errs[0], reprise.ErrConflict) { // an earlier append was stored late
			e.wantError(errs[0], cause, "append with a context that is cancelled meanwhile")
		}
		tail := s.read(0, 1<<20).Info.Tail
		if tail%batch != 0 || tail < s.tail || errs == nil && tail != req.First+batch-1 {
			e.failf("the tail is %d after an append of %d events to %d, its error being %v", tail, batch, s.tail, errs)
		}
		s.tail = tail
	}
}
