package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/problem"
	"reprise/internal/quota"
)

// A request for an execution that another replica runs is forwarded to that replica, which handles it with the same
// code. This file defines the messages between the replicas.

// service is the name under which Hosts answer each other.
const service = "execution"

// ask is a call to the owner of executions.
type ask struct {
	Op     askOp          `json:"op"`
	Tenant reprise.Tenant `json:"tenant,omitempty"`
	ID     string         `json:"id,omitempty"`
	// Signal is for opSignal.
	Signal string `json:"signal,omitempty"`
	// Size is for opResize.
	Size *TTY `json:"size,omitempty"`
	// Stdin is for opStdin and opStdinOf.
	Stdin *askStdin `json:"stdin,omitempty"`
	// Keys are for opProgress.
	Keys []reprise.StreamKey `json:"keys,omitempty"`
	// Start is for opInside.
	Start *askStart `json:"start,omitempty"`
}

type askOp string

const (
	opCancel askOp = "cancel"
	opSignal askOp = "signal"
	opResize askOp = "resize"
	opStdin  askOp = "stdin"
	// opStdinOf is opStdin by a named writer, which a replica that knows no writers must not take for the former.
	opStdinOf  askOp = "stdin_of"
	opFollow   askOp = "follow"
	opUnfollow askOp = "unfollow"
	opProgress askOp = "progress"
	// opInside starts code in the interpreter of the ID.
	opInside askOp = "inside"
)

// askStart is a request to start code. The key is not part of its JSON form.
type askStart struct {
	Request        Request `json:"request"`
	IdempotencyKey string  `json:"idempotency_key,omitempty"`
	// Principal is the sender of the code. Older replicas do not name it.
	Principal string `json:"principal,omitempty"`
}

// askStdin is a piece of a StdinWrite.
type askStdin struct {
	Offset int64 `json:"offset"`
	// Exact refuses the piece if Offset is not the accepted one, which it otherwise may be below.
	Exact  bool   `json:"exact,omitempty"`
	Writer string `json:"writer,omitempty"`
	// Data is nil if there is nothing to write.
	Data []byte `json:"data"`
	EOF  bool   `json:"eof,omitempty"`
}

// told is the answer.
type told struct {
	Stdin    *toldStdin  `json:"stdin,omitempty"`
	Progress []*progress `json:"progress,omitempty"`
	// Created is for opInside.
	Created bool `json:"created,omitempty"`
}

// toldStdin answers askStdin.
type toldStdin struct {
	Stdin
	// Took is the number of bytes of the piece that were written, or skipped as duplicates.
	Took int `json:"took"`
	// Again is true if the command has not read the rest of the piece yet.
	Again bool `json:"again,omitempty"`
	// Refused is the error of the write, or nil.
	Refused *problem.Problem `json:"refused,omitempty"`
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
		return t, fmt.Errorf("replica %s answers with something that cannot be read: %w", owner, err)
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
	switch a.Op {
	case opCancel:
		if r != nil {
			h.cancelRun(ctx, r)
		}
		return nil, nil
	case opSignal:
		if r == nil {
			return nil, errHasEnded
		}
		return nil, r.signal(a.Signal)
	case opResize:
		if a.Size == nil {
			break
		}
		if r == nil {
			return nil, errHasEnded
		}
		return nil, r.resize(a.Size)
	case opStdin, opStdinOf:
		if a.Stdin == nil {
			break
		}
		return mustMarshal(told{Stdin: r.stdinPiece(ctx, a.Stdin)}), nil
	case opFollow:
		if r == nil {
			return nil, errHasEnded
		}
		return nil, r.followedFrom(ctx, from)
	case opUnfollow:
		if r != nil {
			r.unfollowedFrom(from)
		}
		return nil, nil
	}
	return nil, fmt.Errorf("%w: this server does not know the request %q", reprise.ErrUnavailable, a.Op)
}

// findStarted is find, but waits for a start that has made the stream and not yet the run.
func (h *Host) findStarted(ctx context.Context, key reprise.StreamKey) (*run, error) {
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
	t, err := h.ask(ctx, owner, ask{Op: opProgress, Keys: keys})
	if err != nil {
		return nil, err
	}
	if len(t.Progress) != len(keys) {
		return nil, errors.New("another version of this server runs it")
	}
	return t.Progress, nil
}
