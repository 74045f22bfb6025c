package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"reprise"
	"reprise/internal/execution/command"
	"reprise/internal/problem"
	"reprise/internal/wire"
)

// The channels of an execution, which are the types of its output events, and both of them in the order of the events.
const (
	Stdout = "stdout"
	Stderr = "stderr"
	Both   = "output"
)

// Output is one channel of an execution as it was when Host.Output was called:
// the exact bytes from First to Size.
type Output struct {
	host    *Host
	stream  *reprise.Stream
	channel string
	first   int64
	size    int64
	from    uint64 // the seq of the event with the byte at first, or a later one without output between
	ended   bool
}

// First returns the offset of the first kept byte. It is not 0 if the window of the stream has lost the beginning.
func (o *Output) First() int64 { return o.first }

// Size is the offset just after the last byte.
func (o *Output) Size() int64 { return o.size }

// Ended reports whether the execution had ended, so that Size is final.
func (o *Output) Ended() bool { return o.ended }

// LostError is returned for bytes of a channel that are no longer kept. It wraps reprise.ErrExpired.
type LostError struct {
	Channel string
	// Asked is the requested offset, First the offset of the first kept byte.
	Asked, First int64
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s: byte %d is no longer kept, the first one kept is %d", e.Channel, e.Asked, e.First)
}

// Problem implements problem.Teller: the stream exists, but not the position.
func (e *LostError) Problem(string) problem.Problem {
	return problem.New(problem.CodeCursorExpired, e.Error())
}

// Unwrap returns reprise.ErrExpired.
func (e *LostError) Unwrap() error { return reprise.ErrExpired }

// Output returns a channel, Stdout, Stderr or Both, of an execution. If the window has lost its beginning, Output reads
// all kept events to determine the size of the lost part. The error is reprise.ErrInvalid for another channel,
// reprise.ErrExpired if the kept range is unknown because the execution was lost, or an error of Show.
func (h *Host) Output(ctx context.Context, tenant reprise.Tenant, id, channel string) (*Output, error) {
	if channel != Stdout && channel != Stderr && channel != Both {
		return nil, invalid("channel", "%q is not %s, %s or %s", channel, Stdout, Stderr, Both)
	}
	s, err := h.Stream(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	o := &Output{host: h, stream: s, channel: channel}
	return o, o.look(ctx)
}

// bytesOf is the count of a channel.
func bytesOf(b Bytes, channel string) int64 {
	switch channel {
	case Stdout:
		return b.Stdout
	case Stderr:
		return b.Stderr
	}
	return b.Stdout + b.Stderr
}

// has reports whether an event is output of the channel.
func (o *Output) has(e *reprise.Event) bool {
	return e.Type == o.channel || o.channel == Both && (e.Type == Stdout || e.Type == Stderr)
}

// look finds out what there is now.
func (o *Output) look(ctx context.Context) error {
	r := o.host.find(o.stream.Key())
	info, err := o.stream.Info(ctx)
	if err != nil {
		return err
	}
	var total Bytes
	upTo := info.Tail
	switch {
	case info.End != nil:
		var e ending
		_ = json.Unmarshal(info.End.Data, &e) // we wrote it
		if e.BytesFrom > 1 {
			return fmt.Errorf("%w: how much output came before what is kept was lost with the server",
				reprise.ErrExpired)
		}
		total, o.ended = e.Bytes, true
	case r != nil:
		c := r.progress().at(info.Tail)
		total, upTo = c.Bytes, c.Tail
	default:
		if total, upTo, err = o.lookElsewhere(ctx, &info); err != nil {
			return err
		}
	}
	o.size, o.first, o.from = bytesOf(total, o.channel), 0, 1
	if info.Earliest == 1 {
		return nil
	}
	t, err := count(ctx, o.stream, upTo)
	if err != nil {
		return err
	}
	o.first, o.from = o.size-bytesOf(t.bytes, o.channel), t.from
	if t.from == 0 { // nothing is kept
		o.from = upTo + 1
	}
	return nil
}

// lookElsewhere returns the amount of output up to an event, of an execution that another replica runs.
func (o *Output) lookElsewhere(ctx context.Context, info *reprise.StreamInfo) (Bytes, uint64, error) {
	if owner := o.host.runner(info); owner != "" {
		if p, err := o.host.progressOf(ctx, owner, info.Key); err == nil && p[0] != nil {
			c := p[0].at(info.Tail)
			return c.Bytes, c.Tail, nil
		}
	}
	if info.Earliest > 1 {
		// Only the owner knows the amount of output before the kept events, until it appends the end event.
		return Bytes{}, 0, fmt.Errorf("%w: the replica that runs the execution does not say how far it is",
			reprise.ErrUnavailable)
	}
	t, err := count(ctx, o.stream, info.Tail)
	return t.bytes, info.Tail, err
}

// tally is what count has found.
type tally struct {
	from        uint64 // the first event
	bytes       Bytes
	started     time.Time // of the started event, if it is kept
	first, last time.Time
}

// count goes over the kept events up to a seq.
func count(ctx context.Context, s *reprise.Stream, upTo uint64) (t tally, err error) {
	lost := func() { t = tally{} } // the kept events begin later now
	_, err = eachBatch(ctx, s, reprise.Earliest(), lost, func(events reprise.Events) (bool, error) {
		for e := range events.All() {
			if t.from == 0 {
				t.from = e.Seq
			}
			if e.Seq > upTo {
				return true, nil
			}
			t.add(&e)
		}
		return events.Len() > 0 && events.Last() >= upTo, nil
	})
	return t, err
}

// date sets when a command was started, and how long it is known to have run.
func (t *tally) date(e *command.Ending) {
	if !t.started.IsZero() {
		e.Started = wire.At(t.started)
		e.DurationMS = t.last.Sub(t.started).Milliseconds()
	}
}

func (t *tally) add(e *reprise.Event) {
	switch e.Type {
	case eventStarted:
		t.started = e.Time
	case Stdout:
		t.bytes.Stdout += int64(len(e.Data))
	case Stderr:
		t.bytes.Stderr += int64(len(e.Data))
	}
	if t.first.IsZero() {
		t.first = e.Time
	}
	t.last = e.Time
}

// Copy writes length bytes from an offset on to w, or all bytes up to the end if length is negative, and returns the
// number of written bytes. With follow, it waits for further output until the execution ends; without, the end is Size.
// The bytes of events are written without copying.
//
// The error is a *LostError for bytes that are no longer kept, reprise.ErrInvalid for an offset beyond the end, the
// cause if ctx is cancelled, or an error of w or of the Log.
func (o *Output) Copy(ctx context.Context, w io.Writer, offset, length int64, follow bool) (n int64, err error) {
	if offset < 0 || offset > o.size && !follow {
		return 0, invalid("offset", "%d is not within the %d bytes of %s", offset, o.size, o.channel)
	}
	if !follow && (length < 0 || length > o.size-offset) {
		length = o.size - offset
	}
	reader, err := o.open(ctx, offset)
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	c := copier{w: w, skip: offset - o.first, left: length}
	for c.left != 0 {
		events, err := reader.Next(ctx)
		switch {
		case errors.Is(err, reprise.ErrEnded):
			return c.done, nil
		case err != nil:
			return c.done, o.lost(ctx, err, offset+c.done)
		}
		for e := range events.All() {
			if !o.has(&e) {
				continue
			}
			if err := c.copy(e.Data); err != nil || c.left == 0 {
				return c.done, err
			}
		}
	}
	return c.done, nil
}

// open opens a reader at the byte at first. If that has just been lost it looks again.
func (o *Output) open(ctx context.Context, offset int64) (*reprise.Reader, error) {
	for {
		if offset < o.first {
			return nil, &LostError{Channel: o.channel, Asked: offset, First: o.first}
		}
		at := reprise.Earliest()
		if o.from > 1 {
			at = reprise.After(o.stream.Cursor(o.from - 1))
		}
		reader, err := o.stream.Reader(ctx, at)
		if err == nil && reader.Cursor().Seq == o.from-1 {
			return reader, nil
		}
		if err == nil {
			_ = reader.Close() // the earliest is no longer the first
		} else if !hasExpired(err) {
			return nil, err
		}
		if err := o.look(ctx); err != nil {
			return nil, err
		}
	}
}

// lost returns the error that names the lost byte when a reader has fallen out of the window.
func (o *Output) lost(ctx context.Context, err error, at int64) error {
	if !hasExpired(err) {
		return err
	}
	if err := o.look(ctx); err != nil {
		return err
	}
	return &LostError{Channel: o.channel, Asked: at, First: o.first}
}

// copier writes a part of its input.
type copier struct {
	w    io.Writer
	skip int64 // bytes to pass over first
	left int64 // bytes to write then; negative: all
	done int64
}

func (c *copier) copy(data []byte) error {
	skip := min(c.skip, int64(len(data)))
	data = data[skip:]
	c.skip -= skip
	if c.left >= 0 && int64(len(data)) > c.left {
		data = data[:c.left]
	}
	if len(data) == 0 {
		return nil
	}
	n, err := c.w.Write(data)
	c.done += int64(n)
	if c.left > 0 {
		c.left -= int64(n)
	}
	return err
}
