package clienttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"reprise/internal/cutproxy"
)

// killedServer kills the server in each phase of a stream: before the first event, while it is written, while it is
// idle, while it stays away for a while, again as soon as it is back, around the end, and while it is replayed.
func killedServer(ctx context.Context, r *run) error {
	const count = 3000
	kill := func() error {
		r.server.kill()
		r.cuts.Add(1)
		return r.server.start()
	}
	if err := r.server.publish(ctx, r.name, 1, 0, true); err != nil {
		return err
	}
	t := r.follow(r.server.addr, r.name, nil)
	if err := kill(); err != nil { // while the client is idle or not yet connected
		return err
	}
	var writer sync.WaitGroup
	var published error
	writer.Go(func() { published = r.server.publish(ctx, r.name, 1, count, true) })
	for _, n := range []int{1, count / 2} {
		if err := t.count(n); err != nil {
			return err
		}
		if err := kill(); err != nil {
			return err
		}
	}
	writer.Wait()
	if published != nil {
		return fmt.Errorf("publish: %w", published)
	}
	for range 2 { // while the client has all there is, and again as soon as it can come back
		if err := kill(); err != nil {
			return err
		}
	}
	r.server.kill()
	time.Sleep(time.Second) // during which the client is refused many times
	if err := r.server.start(); err != nil {
		return err
	}
	if err := r.server.publish(ctx, r.name, count+1, 1, false); err != nil {
		return err
	}
	if err := kill(); err != nil { // around the end
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	replayed := r.follow(r.server.addr, r.name, nil)
	if err := replayed.count(1); err != nil {
		return err
	}
	if err := kill(); err != nil { // in the middle of a replay, unless the client is very fast
		return err
	}
	return errors.Join(r.exactly(t, want), r.exactly(replayed, want))
}

// killedClient kills the service as it connects, in mid-stream, and when it has all. A new one continues after the last
// handled event.
func killedClient(ctx context.Context, r *run) error {
	if err := r.server.publish(ctx, r.name, 1, 2000, false); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	var got []Event
	for _, n := range []int{0, 1, 300, 700, 0} {
		// The head of the response is not slow: on a busy machine a client would give up each one before its end.
		slow := cutproxy.Fault{Kind: cutproxy.Slow, After: headRoom + int64(n)*150, Pace: time.Millisecond}
		p, closeIt, err := r.proxy(r.server.addr, cutproxy.Every(slow))
		if err != nil {
			return err
		}
		t := r.follow(p.Addr(), r.name, func(c *Command) { c.After = lastCursor(got) })
		err = t.count(n)
		r.service.kill()
		closeIt()
		if err != nil {
			return err
		}
		got = append(got, t.events...)
		if r.service, err = startService(ctx, r.opts, r.server); err != nil {
			return err
		}
	}
	for range 2 { // the second one begins at the end
		t := r.follow(r.server.addr, r.name, func(c *Command) { c.After = lastCursor(got) })
		if err := t.wait(); err != nil {
			return err
		}
		got = append(got, t.events...)
	}
	return r.compare(want, got)
}

// headRoom is more bytes than the head of a response has.
const headRoom = 2 << 10

func lastCursor(events []Event) string {
	if len(events) == 0 {
		return ""
	}
	return events[len(events)-1].Cursor
}
