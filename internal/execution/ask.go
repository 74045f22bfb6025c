package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/execution/command"
	"reprise/internal/execution/supervisor"
	"reprise/internal/quota"
)

// A request for an execution that another replica runs is forwarded to that replica, which handles it with the same
// code. This file defines the messages between the replicas.

// service is the name under which Hosts answer each other.
const service = "execution"

// ask is a call to the owner of executions.
type ask struct {
	command.Control
	Tenant reprise.Tenant `json:"tenant,omitempty"`
	ID     string         `json:"id,omitempty"`
	// Keys are for opProgress.
	Keys []reprise.StreamKey `json:"keys,omitempty"`
	// Start is for opInside.
	Start *askStart `json:"start,omitempty"`
}

// The operations that the owner of an execution does itself. It passes all others on to the command.
const (
	// opCancel ends the execution, which may wait in the queue.
	opCancel   command.Op = "cancel"
	opFollow   command.Op = "follow"
	opUnfollow command.Op = "unfollow"
	opProgress command.Op = "progress"
	// opInside starts code in the interpreter of the ID.
	opInside command.Op = "inside"
)

// askStart is a request to start code. The key is not part of its JSON form.
type askStart struct {
	Request        Request `json:"request"`
	IdempotencyKey string  `json:"idempotency_key,omitempty"`
	// Principal is the sender of the code. Older replicas do not name it.
	Principal string `json:"principal,omitempty"`
}

// told is the answer.
type told struct {
	Stdin    *supervisor.Stdin `json:"stdin,omitempty"`
	Progress []*progress       `json:"progress,omitempty"`
	// Created is for opInside.
	Created bool `json:"created,omitempty"`
}

// elsewhere returns the other replica that runs an execution, or "" if the execution has ended or runs here.
func (h *Host) elsewhere(ctx context.Context, s *reprise.Stream) (owner string, err error) {
	if h.opts.Replica == nil {
		return "", nil
	}
	info, err := s.Info(ctx)
	if err != nil {
		return "", err
	}
	return h.runner(&info), nil
}

// runner is elsewhere for a stream whose state is known.
func (h *Host) runner(info *reprise.StreamInfo) string {
	if h.opts.Replica == nil || info.End != nil || info.Owner.Name == h.opts.Replica.Name() {
		return ""
	}
	return info.Owner.Name
}

// ask asks another replica. An execution that has ended meanwhile, or whose
// replica has, is answered by its stream and not by this.
func (h *Host) ask(ctx context.Context, owner string, a ask) (told, error) {
	var t told
	body, err := h.opts.Replica.Call(ctx, owner, service, mustMarshal(a))
	if err != nil || len(body) == 0 {
		return t, err
	}
	if err := json.Unmarshal(body, &t); err != nil {
		return t, fmt.Errorf("replica %s returned an invalid response: %w", owner, err)
	}
	return t, nil
}

// answer handles a request of another replica for one of our runs.
func (h *Host) answer(ctx context.Context, from string, body []byte) ([]byte, error) {
	var a ask
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
	}
	if a.Op == opProgress {
		return mustMarshal(told{Progress: h.progressHere(a.Keys)}), nil
	}
	if a.Op == opInside && a.Start != nil {
		req := a.Start.Request
		req.IdempotencyKey = a.Start.IdempotencyKey
		_, created, err := h.startInside(ctx, quota.Account{Tenant: a.Tenant, Principal: a.Start.Principal}, req)
		return mustMarshal(told{Created: created}), err
	}
	r, err := h.findStarted(ctx, keyOf(a.Tenant, a.ID))
	if err != nil {
		return nil, err
	}
	switch {
	case a.Op == opUnfollow:
		if r != nil {
			r.unfollowedFrom(from)
		}
		return nil, nil
	case r == nil && a.Op == opCancel:
		return nil, nil
	case a.Op == opFollow && r != nil:
		return nil, r.followedFrom(ctx, from)
	}
	var taken *command.Taken
	if err = ErrHasEnded; r != nil {
		taken, err = r.Control(ctx, &a.Control)
	}
	stdin, err := supervisor.Answer(&a.Control, taken, err)
	if stdin == nil {
		return nil, err
	}
	return mustMarshal(told{Stdin: stdin}), err
}

// findStarted is find, but waits for a start that has made the stream and not yet the run.
func (h *Host) findStarted(ctx context.Context, key reprise.StreamKey) (*Run, error) {
	if r := h.find(key); r != nil {
		return r, nil
	}
	unlock, err := h.lock(ctx, key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return h.find(key), nil
}

// progressHere returns the progress of these executions, with nil for each that this replica does not run.
func (h *Host) progressHere(keys []reprise.StreamKey) []*progress {
	list := make([]*progress, len(keys))
	for i, key := range keys {
		if r := h.find(key); r != nil {
			list[i] = r.progress()
		}
	}
	return list
}

// progressPatience limits how long a view of executions waits for the replica that runs them. Without its answer the
// view shows the state in their streams.
const progressPatience = 2 * time.Second

// progressOf requests the progress of executions from a replica. The result has one element for each key, which is nil
// if there is no progress.
func (h *Host) progressOf(ctx context.Context, owner string, keys ...reprise.StreamKey) ([]*progress, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, progressPatience,
		fmt.Errorf("%w: replica %s has not answered", reprise.ErrUnavailable, owner))
	defer cancel()
	t, err := h.ask(ctx, owner, ask{Control: command.Control{Op: opProgress}, Keys: keys})
	if err != nil {
		return nil, err
	}
	if len(t.Progress) != len(keys) {
		return nil, errors.New("another version of this server runs it")
	}
	return t.Progress, nil
}
