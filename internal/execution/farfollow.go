package execution

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"reprise"
	"reprise/internal/execution/command"
)

// farFollow counts the local followers of an execution that another replica runs. It notifies the owner when the first
// follower arrives and when the last one has left.
type farFollow struct {
	host *Host
	key  reprise.StreamKey
	id   string
	wake chan struct{} // has a token when something has changed

	followers int // guarded by host.mu
}

// farEvery is the interval between two attempts to notify the owner, and between two checks of who the owner is.
const farEvery = time.Second

// followFar counts a follower of an execution that another replica runs.
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

// over removes f if there are no followers.
func (f *farFollow) over() bool {
	f.host.mu.Lock()
	defer f.host.mu.Unlock()
	if f.followers > 0 {
		return false
	}
	delete(f.host.far, f.key)
	return true
}

// run notifies the owner until there are no followers and the owner knows that, or until the execution has ended.
func (f *farFollow) run() {
	ctx := f.host.ctx
	if !f.counts(ctx) {
		f.idle(ctx)
		return
	}
	toldBy := "" // our name in the last notification that there are followers
	for first := true; ; first = false {
		f.host.mu.Lock()
		follows := f.followers > 0
		f.host.mu.Unlock()
		self := f.host.opts.Replica.Name()
		op := command.Op("")
		switch {
		case (follows || first) && toldBy != self:
			op = opFollow // also if they have left already: the execution had a follower
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

// idle waits until there are no followers and no caller waits for a notification.
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
		_, info, err := f.host.streamInfo(ctx, f.key.Tenant, f.id)
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

// errNotFar means that there is no owner to notify: the execution has ended, or no other replica runs it.
var errNotFar = errors.New("not run elsewhere")

// tell tells the owner.
func (f *farFollow) tell(ctx context.Context, op command.Op) error {
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
	_, err = f.host.ask(ctx, owner, ask{Control: command.Control{Op: op}, Tenant: f.key.Tenant, ID: f.id})
	if isOver(err) {
		return errNotFar
	}
	return err
}
