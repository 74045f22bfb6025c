package execution

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"reprise"
)

// farFollow is those who follow here what another replica runs. The owner is told when there is one, and when there
// is none any more.
type farFollow struct {
	host *Host
	key  reprise.StreamKey
	id   string
	wake chan struct{} // has a token when something has changed

	followers int // guarded by host.mu
}

// farEvery is the time between two tries to tell the owner, and between two looks whether it is still the one.
const farEvery = time.Second

// followFar counts somebody who follows what we do not run.
func (h *Host) followFar(key reprise.StreamKey, id string) (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return func() {}
	}
	f := h.far[key]
	if f == nil {
		f = &farFollow{host: h, key: key, id: id, wake: make(chan struct{}, 1)}
		h.far[key] = f
		h.caretaker.Go(f.run)
	}
	f.followers++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		f.followers--
		f.changed()
	}
}

// changed lets run look again.
func (f *farFollow) changed() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// over forgets f if nobody follows.
func (f *farFollow) over() bool {
	f.host.mu.Lock()
	defer f.host.mu.Unlock()
	if f.followers > 0 {
		return false
	}
	delete(f.host.far, f.key)
	return true
}

// run tells the owner until nobody follows and it knows that, or until there is nothing to tell any more.
func (f *farFollow) run() {
	ctx := f.host.ctx
	if !f.counts(ctx) {
		f.idle(ctx)
		return
	}
	toldBy := "" // our name when the owner was told that somebody follows
	for first := true; ; first = false {
		f.host.mu.Lock()
		follows := f.followers > 0
		f.host.mu.Unlock()
		self := f.host.opts.Replica.Name()
		op := askOp("")
		switch {
		case (follows || first) && toldBy != self:
			op = opFollow // also if they have gone already: somebody has followed it
		case !follows && toldBy != "":
			op = opUnfollow
		}
		var err error
		if op != "" {
			err = f.tell(ctx, op)
		}
		switch {
		case errors.Is(err, errNotFar):
			f.idle(ctx)
			return
		case err == nil && op == opFollow:
			toldBy = self
			continue
		case err == nil && op == opUnfollow:
			toldBy = ""
		}
		if toldBy == "" && err == nil && f.over() {
			return
		}
		if !f.wait(ctx) {
			return
		}
	}
}

// wait returns when something has changed or it is time to look again; false at the end of the Host.
func (f *farFollow) wait(ctx context.Context) bool {
	timer := time.NewTimer(farEvery)
	defer timer.Stop()
	select {
	case <-f.wake:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// idle waits until nobody follows, where nobody wants to know.
func (f *farFollow) idle(ctx context.Context) {
	for !f.over() {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return
		}
	}
}

// counts reports whether followers count for this execution.
func (f *farFollow) counts(ctx context.Context) bool {
	for {
		s, err := f.host.Stream(ctx, f.key.Tenant, f.id)
		var info reprise.StreamInfo
		if err == nil {
			info, err = s.Info(ctx)
		}
		switch {
		case err == nil:
			var m meta
			_ = json.Unmarshal(info.Config.Meta, &m) // we wrote it
			return m.KillOnDisconnect && info.End == nil
		case !errors.Is(err, reprise.ErrUnavailable) || !f.wait(ctx):
			return false
		}
	}
}

// errNotFar is why there is nothing to tell: the execution has ended, or nobody else runs it.
var errNotFar = errors.New("not run elsewhere")

// tell tells the owner.
func (f *farFollow) tell(ctx context.Context, op askOp) error {
	s, err := f.host.Stream(ctx, f.key.Tenant, f.id)
	var owner string
	if err == nil {
		owner, err = f.host.elsewhere(ctx, s)
	}
	switch {
	case isOver(err), err == nil && owner == "":
		return errNotFar
	case err != nil:
		return err
	}
	_, err = f.host.ask(ctx, owner, ask{Op: op, Tenant: f.key.Tenant, ID: f.id})
	if isOver(err) {
		return errNotFar
	}
	return err
}
