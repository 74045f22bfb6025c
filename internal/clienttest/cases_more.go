package clienttest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"reprise/client"
	"reprise/internal/cutproxy"
)

// answersOfOthers answers in place of the server, as an intermediary may. A client retries for a while and sends its
// token nowhere else.
func answersOfOthers(ctx context.Context, r *run) error {
	var stolen atomic.Int32
	trap, closeIt, err := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stolen.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "id: 1\nevent: end\ndata: {\"seq\":1,\"outcome\":\"completed\"}\n\n")
	}))
	if err != nil {
		return err
	}
	defer closeIt()
	err = r.faults(
		ctx,
		cutproxy.Fault{Kind: cutproxy.Page},
		cutproxy.Fault{Kind: cutproxy.Wrong},
		cutproxy.Fault{Kind: cutproxy.Status, Code: 404},
		cutproxy.Fault{Kind: cutproxy.Status, Code: 401},
		cutproxy.Fault{Kind: cutproxy.Status, Code: 421},
		cutproxy.Fault{Kind: cutproxy.Status, Code: 204},
		cutproxy.Fault{Kind: cutproxy.Redirect, Location: "http://" + trap + "/login"},
	)
	if n := stolen.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d requests followed a redirect to another origin", n))
	}
	return err
}

// errorsAtOnce sends refusals that no retry can change.
func errorsAtOnce(ctx context.Context, r *run) error {
	if err := r.server.publish(ctx, r.name, 1, 3, true); err != nil {
		return err
	}
	other := r.name + "-other"
	if err := r.server.publish(ctx, other, 1, 3, true); err != nil {
		return err
	}
	events, err := r.server.events(ctx, other)
	if err != nil {
		return err
	}
	for _, tt := range []struct {
		code   string
		change func(*Command)
	}{
		{"not_found", func(c *Command) { c.Stream = "no-such-stream" }},
		{"unauthenticated", func(c *Command) { c.Token = "wrong" }},
		{"cursor_foreign", func(c *Command) { c.After = events[1].Cursor }},
		{"cursor_malformed", func(c *Command) { c.After = "nonsense" }},
	} {
		p, closeIt, err := r.proxy(r.server.addr, nil)
		if err != nil {
			return err
		}
		begin := time.Now()
		t := r.follow(p.Addr(), r.name, tt.change)
		err = t.wait()
		took := time.Since(begin)
		closeIt()
		switch {
		case err != nil:
		case len(t.errs) != 1 || t.errs[0].Code != tt.code:
			err = fmt.Errorf("the errors %v, want one with the code", t.errs)
		case took > 15*time.Second:
			err = fmt.Errorf("it took %v to say so", took.Round(time.Second))
		case len(t.events) > 0:
			err = fmt.Errorf("%d events before it", len(t.events))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", tt.code, err)
		}
	}
	return nil
}

// gaps removes events that a client then reports or raises, as it was asked to.
func gaps(ctx context.Context, r *run) error {
	c, err := r.server.client()
	if err != nil {
		return err
	}
	few := client.StreamConfig{Retention: client.Retention{MaxEvents: 5}}
	if _, err := c.CreateStream(ctx, r.name, few); err != nil {
		return err
	}
	p := c.Producer(r.name)
	var first client.Published
	for n := range 20 {
		got, err := p.Publish(ctx, client.NewEvent{Type: "note", Data: fmt.Appendf(nil, `{"n":%d}`, n)})
		if err != nil {
			return err
		}
		if n == 0 {
			first = got
		}
	}
	if _, err := p.End(ctx, "completed", nil); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	if err := r.startsOfGaps(want); err != nil {
		return err
	}
	for _, after := range []string{first.Cursor, ""} {
		missed := want[0].Seq - 1
		if after != "" {
			missed--
		}
		t := r.follow(r.server.addr, r.name, func(c *Command) { c.After = after })
		if err := r.exactly(t, want); err != nil {
			return fmt.Errorf("after %q: %w", after, err)
		}
		if !slices.Equal(t.gaps, []Gap{{Code: "cursor_expired", Missed: missed}}) {
			return fmt.Errorf("after %q: the gaps %+v, want one of %d events", after, t.gaps, missed)
		}
		t = r.follow(r.server.addr, r.name, func(c *Command) { c.After, c.Gap = after, "fail" })
		if err := t.wait(); err != nil {
			return err
		}
		if len(t.errs) != 1 || t.errs[0].Code != "cursor_expired" || len(t.events) > 0 {
			return fmt.Errorf("after %q, where a gap is a failure: %d events, errors %v", after, len(t.events), t.errs)
		}
	}
	return nil
}

// startsOfGaps begins at the start of a stream whose first events are gone, as readers of all and of some types. The
// gap is reported exactly once, and with "earliest" not at all.
func (r *run) startsOfGaps(want []Event) error {
	missed := []Gap{{Code: "cursor_expired", Missed: want[0].Seq - 1}}
	for after, gaps := range map[string][]Gap{"": missed, "0": missed, "earliest": nil} {
		for _, types := range [][]string{nil, {"note"}} {
			if types != nil && !slices.Contains(r.service.hello.Can, "types") {
				continue
			}
			t := r.follow(r.server.addr, r.name, func(c *Command) { c.After, c.Types = after, types })
			if err := r.exactly(t, want); err != nil {
				return fmt.Errorf("after %q of the types %q: %w", after, types, err)
			}
			if !slices.Equal(t.gaps, gaps) {
				return fmt.Errorf("after %q of the types %q: the gaps %+v, want %+v", after, types, t.gaps, gaps)
			}
		}
	}
	return nil
}

// fromTail begins at the tail: a connection that is lost before its first event must not move the start.
func fromTail(ctx context.Context, r *run) error {
	if err := r.server.publish(ctx, r.name, 1, 10, true); err != nil {
		return err
	}
	p, closeIt, err := r.proxy(r.server.addr, nil)
	if err != nil {
		return err
	}
	defer closeIt()
	t := r.follow(p.Addr(), r.name, func(c *Command) { c.After = "tail" })
	for range 3 { // the client reads, is cut, and reads again
		passed := p.Passed()
		if err := r.until("answer", func() bool { return p.Passed() > passed }); err != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond) // long enough for the whole response
		p.Cut()
	}
	passed := p.Passed()
	if err := r.until("answer", func() bool { return p.Passed() > passed }); err != nil {
		return err
	}
	if err := r.server.publish(ctx, r.name, 11, 5, false); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	return r.exactly(t, want[10:])
}

// endedBefore resumes at the end, where the server answers 204, and just before it.
func endedBefore(ctx context.Context, r *run) error {
	if err := r.server.publish(ctx, r.name, 1, 3, false); err != nil {
		return err
	}
	want, err := r.server.events(ctx, r.name)
	if err != nil {
		return err
	}
	for n := range want {
		t := r.follow(r.server.addr, r.name, func(c *Command) { c.After = want[n].Cursor })
		if err := r.exactly(t, want[n+1:]); err != nil {
			return fmt.Errorf("after event %d of %d: %w", n+1, len(want), err)
		}
	}
	return nil
}

// stop ends followers that are reading, waiting for bytes and waiting for a connection. They must leave nothing behind.
func stop(ctx context.Context, r *run) error {
	if err := r.server.publish(ctx, r.name, 1, 5, true); err != nil {
		return err
	}
	var open atomic.Int32
	idle, closeIt, err := serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "retry: 60000\n:\n")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}))
	if err != nil {
		return err
	}
	defer closeIt()
	unavailable := cutproxy.Fault{Kind: cutproxy.Status, Code: 503, RetryAfter: "60"}
	away, closeProxy, err := r.proxy(r.server.addr, cutproxy.Every(unavailable))
	if err != nil {
		return err
	}
	defer closeProxy()
	for _, tt := range []struct {
		what, addr string
		ready      func(t *task) error
	}{
		{"reads", r.server.addr, func(t *task) error { return t.count(5) }},
		{"waits for bytes", idle, func(*task) error {
			return r.until("request", func() bool { return open.Load() > 0 })
		}},
		{"waits to come back", away.Addr(), func(*task) error {
			return r.until("request", func() bool { return away.Faults() > 0 })
		}},
	} {
		t := r.follow(tt.addr, r.name, func(c *Command) { c.IdleMS = 600_000 })
		err := tt.ready(t)
		begin := time.Now()
		t.stop()
		if err = errors.Join(err, t.wait()); err == nil && time.Since(begin) > 15*time.Second {
			err = fmt.Errorf("it took %v", time.Since(begin).Round(time.Second))
		}
		if err != nil {
			return fmt.Errorf("stopped while it %s: %w", tt.what, err)
		}
	}
	if err := r.until("end of the connection", func() bool { return open.Load() == 0 }); err != nil {
		return fmt.Errorf("a stopped follower leaves %w", err)
	}
	return nil
}

// until waits until ok returns true.
func (r *run) until(what string, ok func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(r.service.patience); time.Now().Before(deadline); <-tick.C {
		if ok() {
			return nil
		}
	}
	return fmt.Errorf("no %s within %v", what, r.service.patience)
}

// startOnce starts an execution and loses its response at many points. The command must run once.
func startOnce(ctx context.Context, r *run) error {
	c, err := r.server.client()
	if err != nil {
		return err
	}
	for i, after := range []int64{0, 1, 100, 200, 300, 400, 500, 700} {
		p, closeIt, err := r.proxy(r.server.addr, cutproxy.First(2, cutproxy.Fault{Kind: cutproxy.RST, After: after}))
		if err != nil {
			return err
		}
		id := fmt.Sprintf("once-%d", i)
		t := r.service.do(Command{
			Do: "run", URL: "http://" + p.Addr(), Token: r.server.token, Execution: id, Argv: []string{"echo", "hello"},
			MinWaitMS: 1, MaxWaitMS: 5, IdleMS: 1500,
		})
		err = t.wait()
		closeIt()
		var output []byte
		for _, e := range t.events {
			output = append(output, e.Data...)
		}
		list, listErr := c.List(ctx, client.ExecutionQuery{})
		switch {
		case err != nil || listErr != nil:
			err = errors.Join(err, listErr)
		case len(t.errs) > 0:
			err = t.errs[0]
		case string(output) != "hello\n":
			err = fmt.Errorf("its output is %q", output)
		case countOf(list.Executions, "echo") != i+1:
			err = fmt.Errorf("%d executions, want %d", countOf(list.Executions, "echo"), i+1)
		}
		if err != nil {
			return fmt.Errorf("the answer to the start is lost after %d bytes: %w", after, err)
		}
	}
	return nil
}

// countOf returns how many of the executions run a program.
func countOf(list []client.Execution, program string) (n int) {
	for _, x := range list {
		if len(x.Argv) > 0 && x.Argv[0] == program {
			n++
		}
	}
	return n
}
