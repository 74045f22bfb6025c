package mcpserver

import (
	"context"
	"errors"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/execution"
)

// forEnd is a wait without a bound.
const forEnd time.Duration = -1

// collect follows a run to its end, or for at most wait, and keeps limit bytes of the output to show. A call that has
// become a task waits for the end.
func (s *Server) collect(ctx context.Context, tenant reprise.Tenant, id string, limit int, wait time.Duration,
	w *watcher,
) (*executeOutput, error) {
	stream, err := s.host.Stream(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	defer s.host.Follow(tenant, id)()
	reader, err := stream.Reader(ctx, reprise.Earliest())
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	c := &collection{limit: limit, missed: reader.Info().Earliest - 1}
	c.reset()
	w.forget()
	begun := time.Now()
	atEnd := false
	for !atEnd {
		if atEnd, err = c.step(ctx, reader, w, begun, wait); err != nil && !errors.Is(err, errWaited) {
			return nil, err
		}
		if errors.Is(err, errWaited) {
			break
		}
	}
	x, err := s.host.Show(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	out := &executeOutput{
		runStatus: outcomeOf(&x), Missed: c.missed, Cursor: reader.Cursor().String(),
		goesOn: !atEnd, waited: time.Since(begun),
	}
	out.images = c.images.content
	if limit == 0 {
		out.quiet = w
	}
	n, m := share(limit, c.stdout.finish(), c.stderr.finish())
	earliest := reader.Info().Earliest
	out.Stdout, out.Stderr = c.stdout.channel(n, stream, earliest), c.stderr.channel(m, stream, earliest)
	return out, nil
}

// collection is the output of a run as far as it is shown.
type collection struct {
	limit          int
	missed         uint64
	stdout, stderr *collected
	images         images
}

func (c *collection) reset() {
	c.images = images{}
	c.stdout, c.stderr = &collected{clip: newClip(c.limit)}, &collected{clip: newClip(c.limit)}
}

// step takes the next events. The error is errWaited when the wait is over.
func (c *collection) step(ctx context.Context, reader *reprise.Reader, w *watcher, begun time.Time,
	wait time.Duration,
) (atEnd bool, err error) {
	run, err := w.next(ctx, reader, begun, wait)
	if errors.Is(err, errAtEnd) {
		return true, nil
	}
	if window, ok := errors.AsType[*reprise.WindowError](err); ok {
		c.missed += window.Missed()
		if window.Reason == reprise.EpochChanged { // part of the output no longer belongs to the run: read it again
			c.reset()
			w.forget()
			c.missed = window.Earliest.Seq
		}
		err = reader.Seek(reprise.After(window.Earliest))
	}
	if errors.Is(err, reprise.ErrUnavailable) && backoff.Sleep(ctx, storePause) == nil {
		return false, nil // the run continues
	}
	if err != nil {
		return false, err
	}
	for e := range run.All() {
		switch channel, data := said(&e); channel {
		case execution.Stdout:
			c.stdout.take(e.Seq, data)
		case execution.Stderr:
			c.stderr.take(e.Seq, data)
		}
		if c.limit > 0 {
			c.images.take(&e)
		}
		w.saw(&e)
	}
	return false, nil
}

// collected is a channel of a collection, without escape sequences.
type collected struct {
	*clip
	plain   plainer
	legible legible
	bytes   int64 // including them
}

func (c *collected) take(seq uint64, data []byte) {
	c.bytes += int64(len(data))
	c.legible.take(seq, c.plain.plain(data), c.add)
}

// finish returns the number of bytes of text, once there is no more output.
func (c *collected) finish() int64 {
	c.legible.flush(c.add)
	if c.legible.binary() {
		return 0
	}
	return c.total
}

// channel is the channel cut to n bytes. earliest is the seq of the first event that is kept.
func (c *collected) channel(n int, stream *reprise.Stream, earliest uint64) channel {
	if c.legible.binary() {
		after := max(c.afterOf(0), earliest-1)
		return channel{Bytes: c.bytes, Omitted: c.bytes, Cursor: stream.Cursor(after).String(), Binary: true}
	}
	s := c.show(n, earliest, noteOf(stream))
	ch := channel{text: s.text, Bytes: c.bytes, Omitted: s.omitted, Gone: s.gone}
	if s.omitted > s.gone {
		ch.Cursor = stream.Cursor(s.after).String()
	}
	return ch
}

// storePause is the pause after an error of the store.
const storePause = 250 * time.Millisecond
