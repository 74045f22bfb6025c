package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"reprise"
	"reprise/replica"
)

// A call belongs to the process that answers it: its stream has an owner. When that process has died, whoever
// comes first takes the stream over, under the next fence, and answers what has no answer with an error.

const (
	// scanEvery is the time between two looks for calls that nobody answers, beside those at first, when a replica
	// has gone, and when somebody resumes such a call. All calls that are kept are listed for it.
	scanEvery = time.Hour
	// scanRetry is the time after one that has failed.
	scanRetry = time.Second
)

// callsMeta is what the stream of an exchange says of it.
type callsMeta struct {
	// Calls are the ids of its requests.
	Calls []json.RawMessage `json:"calls"`
}

var lostError = rpcError{
	Code:    codeInternal,
	Message: "the server died before it had answered; whether the request was carried out is not known",
	Data:    map[string]string{"code": "server_lost"},
}

// owner is who answers calls: this replica under its present name, or this Handler where it is alone.
func (h *Handler) owner() (reprise.Owner, error) {
	if h.opts.Replica == nil {
		return reprise.Owner{Name: h.name, Fence: 1}, nil
	}
	name := h.opts.Replica.Name()
	if name == "" {
		return reprise.Owner{}, reprise.ErrUnavailable // it was taken for dead and has not joined again
	}
	return reprise.Owner{Name: name, Fence: 1}, nil
}

// isDead reports whether the owner of a stream answers no more. A replica that was found in the store may be newer than
// our last look, so that we look again before we say so. A dead one does not come back under its name.
func (h *Handler) isDead(ctx context.Context, name string) (bool, error) {
	switch {
	case name == "":
		return false, nil
	case h.opts.Replica == nil:
		return name != h.name, nil
	case h.opts.Replica.Alive(name):
		return false, nil
	}
	if _, known := h.dead.Load(name); known {
		return true, nil
	}
	if err := h.opts.Replica.Look(ctx); err != nil {
		return false, err
	}
	if h.opts.Replica.Alive(name) {
		return false, nil
	}
	h.dead.Store(name, true)
	return true, nil
}

// attendLost looks for calls that nobody answers, at first and whenever a replica has gone.
func (h *Handler) attendLost() {
	left := make(chan struct{}, 1)
	if h.opts.Replica != nil {
		stop := h.opts.Replica.Watch(replica.Watch{Left: func(string) {
			select {
			case left <- struct{}{}:
			default:
			}
		}})
		defer stop()
	}
	for {
		next := scanEvery
		if err := h.endLost(h.running); err != nil && h.running.Err() == nil {
			h.opts.Logger.Warn("MCP calls of dead processes are not all ended", "error", err)
			next = scanRetry
		}
		if h.opts.Replica == nil && next == scanEvery {
			return // nobody else can die
		}
		select {
		case <-left:
		case <-time.After(next):
		case <-h.running.Done():
			return
		}
	}
}

func (h *Handler) endLost(ctx context.Context) error {
	return h.each(ctx, h.streams, func(info *reprise.StreamInfo) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return h.settle(ctx, info)
	})
}

// settle ends a stream whose owner has died.
func (h *Handler) settle(ctx context.Context, info *reprise.StreamInfo) error {
	if info.End != nil {
		return nil
	}
	if dead, err := h.isDead(ctx, info.Owner.Name); !dead || err != nil {
		return err
	}
	stream, err := h.log.Stream(ctx, info.Key)
	if err == nil {
		err = h.endCalls(ctx, stream, info)
	}
	switch {
	case errors.Is(err, reprise.ErrFenced), errors.Is(err, reprise.ErrEnded), errors.Is(err, reprise.ErrConflict),
		errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
		return nil // another replica was first
	}
	return err
}

// endCalls takes a stream over, answers what has no answer, and ends it.
func (h *Handler) endCalls(ctx context.Context, stream *reprise.Stream, info *reprise.StreamInfo) error {
	owner := reprise.Owner{Name: h.name, Fence: info.Owner.Fence + 1}
	if h.opts.Replica != nil {
		us, err := h.owner()
		if err != nil {
			return err
		}
		owner.Name = us.Name
	}
	opts := reprise.AppendOptions{Owner: owner}
	// From here on nothing can be added by the one that has died. A client is not shown this event.
	if _, err := stream.AppendWith(ctx, opts, reprise.Event{Type: "lost"}); err != nil {
		return err
	}
	waiting, err := h.unanswered(ctx, stream, info)
	if err != nil {
		return err
	}
	for i, id := range waiting {
		message := errorResponse(id, lostError)
		if i == len(waiting)-1 {
			_, err = stream.EndWith(ctx, opts, "lost", reprise.Event{Data: message, Format: reprise.FormatJSON})
		} else {
			_, err = stream.AppendWith(ctx, opts, reprise.Event{Data: message, Format: reprise.FormatJSON})
		}
		if err != nil {
			return err
		}
	}
	if len(waiting) == 0 {
		_, err = stream.EndWith(ctx, opts, "completed", reprise.Event{})
	} else if hook := h.opts.Hooks.Lost; hook != nil {
		hook(info.Key.Tenant)
	}
	return err
}

// unanswered are the requests of a stream that have no response in it.
func (h *Handler) unanswered(ctx context.Context, stream *reprise.Stream, info *reprise.StreamInfo) ([]ID, error) {
	var meta callsMeta
	if err := json.Unmarshal(info.Config.Meta, &meta); err != nil {
		return nil, err
	}
	answered, err := responsesIn(ctx, stream)
	if err != nil {
		return nil, err
	}
	var waiting []ID
	for _, raw := range meta.Calls {
		if id := ID(raw); !answered[id] {
			waiting = append(waiting, id)
		}
	}
	return waiting, nil
}

// responsesIn are the ids of the responses that a stream holds so far.
func responsesIn(ctx context.Context, stream *reprise.Stream) (map[ID]bool, error) {
	reader, err := stream.Reader(ctx, reprise.Earliest())
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	answered := map[ID]bool{}
	var long []byte // the parts of a message so far
	for {
		run, err := reader.Poll(ctx)
		if err != nil && !errors.Is(err, reprise.ErrEnded) {
			return nil, err
		}
		if run.Len() == 0 {
			return answered, nil
		}
		for e := range run.All() {
			message := e.Data
			if e.Type == typeFirst || e.Type == typeMiddle || e.Type == typeLast {
				long = append(long, e.Data...)
				message = long
			}
			if e.Type == typeFirst || e.Type == typeMiddle {
				continue
			}
			if m, err := ParseMessage(message); err == nil && m.Method == "" {
				answered[m.ID] = true
			}
			long = long[:0]
		}
	}
}
