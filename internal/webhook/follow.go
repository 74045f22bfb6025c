package webhook

import (
	"context"
	"errors"
	"time"

	"reprise"
	"reprise/internal/backoff"
)

// follow starts a goroutine that follows a stream.
func (c *collector) follow(ctx context.Context, name string, at position) {
	c.following[name] = true
	f := &follower{c: c, name: name, at: at}
	c.followers.Go(func() {
		err := f.run(ctx)
		switch {
		case ctx.Err() != nil:
		case isGone(err):
			f.tell(ctx, found{over: true})
		case err != nil:
			f.tell(ctx, found{err: err})
		}
	})
}

// follower follows one stream for a hook.
type follower struct {
	c       *collector
	name    string
	at      position // of the last event handed over
	created time.Time
	origin  reprise.Epoch // the first of the stream
}

// run returns nil once the end was handed over.
func (f *follower) run(ctx context.Context) error {
	st, err := f.c.hooks.log.Stream(ctx, reprise.StreamKey{Tenant: f.c.hook.Tenant, Name: f.name})
	if err != nil {
		return err
	}
	info, err := st.Info(ctx)
	if err != nil {
		return err
	}
	f.created, f.origin = info.Created, info.Epoch
	if len(info.Lineage) > 0 {
		f.origin = info.Lineage[0].Epoch
	}
	if f.c.hook.Source == Executions {
		return f.awaitEnd(ctx, st)
	}
	reader, err := st.Reader(ctx, reprise.After(st.CursorIn(f.at.Epoch, f.at.Seq)))
	if window, ok := errors.AsType[*reprise.WindowError](err); ok {
		f.gap(ctx, window)
		reader, err = st.Reader(ctx, reprise.After(window.Resume()))
	}
	if err != nil {
		return err
	}
	defer reader.Close()
	return f.read(ctx, reader)
}

// read hands over the events of reader as they arrive.
func (f *follower) read(ctx context.Context, reader *reprise.Reader) error {
	for {
		changed := reader.Changed()
		events, err := reader.Poll(ctx)
		if window, ok := errors.AsType[*reprise.WindowError](err); ok {
			f.gap(ctx, window)
			if err = reader.Seek(reprise.After(window.Resume())); err == nil {
				continue
			}
		}
		if errors.Is(err, reprise.ErrEnded) {
			f.tell(ctx, found{over: true})
			return nil
		}
		if err != nil {
			return err
		}
		epoch, told := reader.Cursor().Epoch, true
		for e := range events.All() {
			f.at = position{epoch, e.Seq}
			if told = f.c.hook.wants(e.Type); !told {
				continue
			}
			cursor := reader.Stream().CursorIn(epoch, e.Seq).String()
			if f.send(ctx, &message{Body: eventBody(f.name, cursor, &e)}, e.Type == reprise.TypeEnd) {
				return nil
			}
		}
		if !told {
			f.tell(ctx, found{})
		}
		if events.Len() > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// endPause is the pause before an execution is asked again whether it has ended.
const endPause = 100 * time.Millisecond

// awaitEnd hands over the end of an execution and drops the events before it.
func (f *follower) awaitEnd(ctx context.Context, st *reprise.Stream) error {
	reader, err := st.Reader(ctx, reprise.Tail())
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		changed := reader.Changed()
		info, err := st.Info(ctx)
		if err != nil {
			return err
		}
		if info.End != nil {
			f.at = position{info.Epoch, info.Tail}
			f.send(ctx, &message{Body: executionBody(&info)}, true)
			return nil
		}
		if err := reader.Seek(reprise.Tail()); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := backoff.Sleep(ctx, endPause); err != nil { // each call of a shared store costs a request
			return err
		}
	}
}

// send hands over a message about the event at f.at and reports whether it was the last one.
func (f *follower) send(ctx context.Context, m *message, over bool) bool {
	m.ID = messageID(f.c.hook.ID, f.name, string(f.at.Epoch), itoa(f.at.Seq))
	f.tell(ctx, found{message: m, over: over})
	return over
}

// gap hands over a message about events that are no longer kept.
func (f *follower) gap(ctx context.Context, window *reprise.WindowError) {
	resume := window.Resume()
	f.at = position{resume.Epoch, resume.Seq}
	m := &message{Body: gapBody(f.name, window.Missed(), resume.String())}
	m.ID = messageID(f.c.hook.ID, f.name, string(f.at.Epoch), itoa(f.at.Seq), "gap", window.Asked.String())
	f.tell(ctx, found{message: m})
}

// tell hands over a result for the position f.at.
func (f *follower) tell(ctx context.Context, what found) {
	what.name, what.at, what.created = f.name, f.at, f.created
	if what.over {
		what.at.Epoch = f.origin
	}
	select {
	case f.c.found <- what:
	case <-ctx.Done():
	}
}
