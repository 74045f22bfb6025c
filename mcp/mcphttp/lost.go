package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"reprise"
	"reprise/replica"
)

// A call belongs to the process that answers it: its stream has an owner. When that process has died, the next process
// that finds the stream takes it over, under the next fence, and answers each open request with an error.

const (
	// scanEvery is the interval of the scans for orphaned calls. Scans also run at the start, when a replica has left,
	// and when a client resumes such a call. A scan lists all kept calls.
	scanEvery = time.Hour
	// scanRetry is the time after one that has failed.
	scanRetry = time.Second
)

// callsMeta is the metadata in the stream of an exchange.
type callsMeta struct {
	// Calls are the ids of its requests.
	Calls []json.RawMessage `json:"calls"`
	// Asked describes the first of them, in the same order. Streams of earlier versions have none.
	Asked []askedMeta `json:"asked,omitempty"`
}

var lostError = rpcError{
	Code:    codeInternal,
	Message: "the server died before it had answered; whether the request was carried out is not known",
	Data:    map[string]string{"code": "server_lost"},
}

// owner returns the owner under which calls are answered: this replica under its current name, or this Handler if there
// are no replicas.
func (h *Handler) owner() (reprise.Owner, error) {
	if h.opts.Replica == nil {
		return reprise.Owner{Name: h.name, Fence: 1}, nil
	}
	name := h.opts.Replica.Name()
	if name == "" {
		return reprise.Owner{}, reprise.ErrUnavailable // it was declared dead and has not joined again
	}
	return reprise.Owner{Name: name, Fence: 1}, nil
}

// isDead reports whether the owner of a stream has died. A replica named in the store may be newer than our last look,
// so isDead looks again first. A dead replica does not return under its name.
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

// attendLost scans for orphaned calls, at the start and whenever a replica has left.
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
			h.opts.Logger.Warn("failed to end some MCP calls of dead processes", "error", err)
			next = scanRetry
		}
		if h.opts.Replica == nil && next == scanEvery {
			return // no other server can die
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

// endCalls takes over a stream, answers each open request with an error, and ends the stream.
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
		events, err := reader.Poll(ctx)
		if err != nil && !errors.Is(err, reprise.ErrEnded) {
			return nil, err
		}
		if events.Len() == 0 {
			return answered, nil
		}
		for e := range events.All() {
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
