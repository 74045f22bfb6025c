package mcptask

import (
	"context"
	"encoding/json"
	"time"

	"reprise"
	"reprise/replica"
)

const (
	// scanEvery is the time between two looks for tasks whose server has died, beside the one when a replica has gone.
	scanEvery = 5 * time.Minute
	// scanRetry is the time after one that has failed.
	scanRetry = time.Second
)

// server is the name under which this process runs tasks.
func (t *Tasks) server() (string, error) {
	if t.opts.Replica == nil {
		return t.name, nil
	}
	name := t.opts.Replica.Name()
	if name == "" {
		return "", reprise.ErrUnavailable // it was taken for dead and has not joined again
	}
	return name, nil
}

// watch has t.left told of replicas that have gone, and cancels what runs here when this one was taken for dead.
func (t *Tasks) watch() (stop func()) {
	if t.opts.Replica == nil {
		return func() {}
	}
	return t.opts.Replica.Watch(replica.Watch{
		Left: func(string) {
			select {
			case t.left <- struct{}{}:
			default:
			}
		},
		Fenced: func(name string) {
			t.mu.Lock()
			defer t.mu.Unlock()
			for _, task := range t.tasks {
				if task.server == name {
					task.cancel(errTaken)
				}
			}
		},
	})
}

// attendLost resumes or ends tasks whose server has died, at first and whenever a replica has gone.
func (t *Tasks) attendLost() {
	for {
		next := scanEvery
		if err := t.endLost(t.running); err != nil && t.running.Err() == nil {
			t.opts.Logger.Warn("MCP tasks of dead processes are not all resumed or ended", "error", err)
			next = scanRetry
		}
		if t.opts.Replica == nil && next == scanEvery {
			return // no other server can die
		}
		select {
		case <-t.left:
		case <-time.After(next):
		case <-t.running.Done():
			return
		}
	}
}

func (t *Tasks) endLost(ctx context.Context) error {
	if t.opts.Replica != nil {
		if err := t.opts.Replica.Look(ctx); err != nil {
			return err
		}
	}
	query := reprise.ListQuery{Namespace: t.namespace, Limit: 1000}
	var failed error
	for {
		page, err := t.log.List(ctx, query)
		if err != nil {
			return err
		}
		for i := range page.Streams {
			if err := t.settle(ctx, &page.Streams[i]); err != nil {
				failed = err
			}
		}
		if query.After = page.Next; query.After == "" {
			return failed
		}
	}
}

// settle resumes a task whose server has died, or ends it.
func (t *Tasks) settle(ctx context.Context, info *reprise.StreamInfo) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var meta taskMeta
	if info.End != nil || json.Unmarshal(info.Config.Meta, &meta) != nil || !t.isDead(meta.Server) {
		return nil //nolint:nilerr // a stream that is no task of ours
	}
	id := info.Key.Name[len(t.namespace):]
	t.mu.Lock()
	_, ours := t.tasks[id]
	tool, ok := t.tools[meta.Tool]
	if !ok {
		tool = t.tools[""]
	}
	t.mu.Unlock()
	if ours {
		return nil
	}
	stream, err := t.log.Stream(ctx, info.Key)
	if err != nil {
		return ignoreOver(err)
	}
	if tool.Resume != nil {
		return ignoreOver(t.resume(ctx, stream, id, tool))
	}
	return ignoreOver(t.endAsLost(ctx, stream))
}

// endAsLost ends a task that cannot be resumed.
func (t *Tasks) endAsLost(ctx context.Context, stream *reprise.Stream) error {
	data, err := json.Marshal(lost)
	if err != nil {
		return err
	}
	end := reprise.Event{Data: data, Format: reprise.FormatJSON}
	if _, err := stream.End(ctx, string(lost.Status), end); err != nil {
		return err
	}
	if hook := t.opts.Hooks.Lost; hook != nil {
		hook(stream.Key().Tenant)
	}
	return nil
}

func ignoreOver(err error) error {
	if isOver(err) {
		return nil // another replica was first
	}
	return err
}

// isDead reports whether no process runs what that server has begun.
func (t *Tasks) isDead(server string) bool {
	if t.opts.Replica == nil {
		return server != t.name
	}
	return server != t.opts.Replica.Name() && !t.opts.Replica.Alive(server)
}
