package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"reprise/client"
	"reprise/internal/problem"
)

// fixtureCanceller is a canceller whose server answers each cancel with the next of these problems, or
// with 204 for the zero value; and the context that its bridge ends.
func fixtureCanceller(t *testing.T, answers ...problem.Problem) (*canceller, context.Context, *bytes.Buffer) {
	t.Helper()
	i := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p := answers[min(i, len(answers)-1)]
		i++
		if p.Status == 0 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_ = problem.Write(w, p)
	}))
	t.Cleanup(web.Close)
	server, err := client.New(&client.Options{URL: web.URL, Token: "-"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	b, following := bridging{Quiet: true}.newBridge(t.Context(), web.URL, &out)
	return &canceller{server: server, id: "x", bridge: b, out: &out}, following, &out
}

// A Ctrl-C before the start has reached the server must not be followed by the start.
func TestInterruptEndsRunThatIsNotStarted(t *testing.T) {
	unknown := problem.New(problem.CodeNotFound, "")
	for name, tt := range map[string]struct {
		later problem.Problem
		want  string
	}{"never came": {unknown, "not started"}, "came meanwhile": {problem.Problem{}, "cancelled"}} {
		t.Run(name, func(t *testing.T) {
			c, following, _ := fixtureCanceller(t, unknown, tt.later)
			c.deliver(t.Context(), c.cancel())
			if !errors.Is(context.Cause(following), errNotStarted) {
				t.Fatalf("the following ends with %v", context.Cause(following))
			}
			ended, ok := errors.AsType[*exit](c.left(context.Cause(following)))
			if !ok || ended.code != exitCancelled || !strings.Contains(ended.Error(), tt.want) {
				t.Errorf("%+v", ended)
			}
		})
	}
}

// TestRepeatedTermLeavesSilentServer: the second TERM ends us, also if the server answers neither the cancel nor the
// follower.
func TestRepeatedTermLeavesSilentServer(t *testing.T) {
	silent, asked := make(chan struct{}), make(chan struct{}, 1)
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-silent
	}))
	t.Cleanup(web.Close)
	t.Cleanup(func() { close(silent) })
	server, err := client.New(&client.Options{URL: web.URL, Token: "-"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	b, following := bridging{Quiet: true}.newBridge(ctx, web.URL, io.Discard)
	c := &canceller{server: server, id: "x", bridge: b, out: io.Discard}
	stages, ends := make([]context.Context, 3), make([]context.CancelCauseFunc, 3)
	for i := range stages {
		stages[i], ends[i] = context.WithCancelCause(ctx)
	}
	defer c.attend(stages)()
	term := &askedToStop{signal: syscall.SIGTERM}
	ends[0](term)
	<-asked // the cancel
	ends[1](term)
	<-following.Done()
	left, ok := errors.AsType[*exit](c.left(context.Cause(following)))
	if said := fmt.Sprint(left); !ok || left.code != term.code() || !strings.Contains(said, "may go on") {
		t.Error(said)
	}
}

// TestCancelledRunIsLeftWithoutItsEnd: a server that has answered the cancel and sends no end is left after the grace.
func TestCancelledRunIsLeftWithoutItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		b, following := bridging{Quiet: true}.newBridge(ctx, "http://server", io.Discard)
		c := &canceller{id: "x", bridge: b, out: io.Discard, grace: time.Minute}
		began := time.Now()
		c.deliver(ctx, delivery{cancels: true, send: func(context.Context) error { return nil }})
		<-following.Done()
		if took := time.Since(began); took != time.Minute+endPatience {
			t.Errorf("left after %v", took)
		}
		left, ok := errors.AsType[*exit](c.left(context.Cause(following)))
		said := fmt.Sprint(left)
		if !ok || left.code != exitOurs || !strings.Contains(said, "was cancelled and is ending") {
			t.Error(said)
		}
	})
}

// A cancel that the server refuses is told, and the run goes on.
func TestInterruptIsRefused(t *testing.T) {
	c, following, out := fixtureCanceller(t, problem.New(problem.CodeForbidden, "read only"))
	c.started.Store(true)
	c.deliver(t.Context(), c.cancel())
	if following.Err() != nil || !strings.Contains(out.String(), "read only") {
		t.Errorf("%v, %q", following.Err(), out)
	}
}

func TestLossIsNeverExitZero(t *testing.T) {
	gap := func(missed, takenBack uint64) client.Event {
		return client.Event{Gap: &client.Gap{Missed: missed, TakenBack: takenBack}}
	}
	for name, tt := range map[string]struct {
		gaps []client.Event
		end  error
		code int
		want string
	}{
		"nothing":        {nil, nil, 0, ""},
		"own code":       {nil, &exit{code: 7}, 7, ""},
		"counted":        {[]client.Event{gap(3, 0), gap(4, 0)}, nil, exitOurs, "7 events were lost"},
		"over own code":  {[]client.Event{gap(3, 0)}, &exit{code: 7}, exitOurs, "exit code is 7"},
		"not counted":    {[]client.Event{gap(0, 0)}, nil, exitOurs, "how many is not known"},
		"partly counted": {[]client.Event{gap(0, 0), gap(2, 0)}, nil, exitOurs, "at least 2 events were lost"},
		"taken back":     {[]client.Event{gap(0, 5)}, nil, exitOurs, "5 that the server had before are taken back"},
	} {
		t.Run(name, func(t *testing.T) {
			var l loss
			for _, e := range tt.gaps {
				l.note(e)
			}
			err := l.outcome(tt.end, "")
			ended, _ := errors.AsType[*exit](err)
			if err == nil && tt.code == 0 {
				return
			}
			if ended == nil || ended.code != tt.code || !strings.Contains(ended.Error(), tt.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A run whose following fails says whether the command may go on, and how to go on with it.
func TestFailedRunSaysWhatMayGoOn(t *testing.T) {
	refused := problem.New(problem.CodeForbidden, "read only")
	drop := errors.New("the connection was silent for too long")
	for name, tt := range map[string]struct {
		err     error
		started bool
		want    string
	}{
		"in mid-run":        {drop, true, `the command may go on: "reprise follow x" shows the rest, "reprise cancel x" ends it`},
		"refused in mid":    {refused, true, `"reprise follow x"`},
		"before the answer": {drop, false, "whether the command was started is not known"},
		"refused":           {refused, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := fixtureCanceller(t, problem.Problem{})
			c.started.Store(tt.started)
			err := c.left(tt.err)
			if !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.want) ||
				tt.want == "" && err.Error() != tt.err.Error() {
				t.Errorf("%v", err)
			}
		})
	}
}
