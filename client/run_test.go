package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"reprise/client"
)

// A loop that is left early cancels its command, unless the program can find that again or has detached it.
func TestRunLeftEarlyIsCancelled(t *testing.T) {
	errGone := errors.New("gone")
	leave := func(context.CancelCauseFunc) bool { return false }
	for name, tt := range map[string]struct {
		request client.StartRequest
		opts    client.FollowOptions
		each    func(context.CancelCauseFunc) bool // false leaves the loop
		cancels int
	}{
		"break":           {each: leave, cancels: 1},
		"cancelled":       {each: func(end context.CancelCauseFunc) bool { end(errGone); return true }, cancels: 1},
		"panic":           {each: func(context.CancelCauseFunc) bool { panic(errGone) }, cancels: 1},
		"read to the end": {each: func(context.CancelCauseFunc) bool { return true }},
		"detached":        {each: leave, opts: client.FollowOptions{Detach: true}},
		"with an id":      {each: leave, request: client.StartRequest{ID: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := script(events(text(1, "stdout", "a")), events(end(2)))
				c := w.client(t, client.Options{})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				func() {
					defer func() { _ = recover() }()
					for range c.Run(ctx, tt.request, &tt.opts) {
						if !tt.each(cancel) {
							break
						}
					}
				}()
				var paths []string
				for _, r := range w.requests {
					paths = append(paths, r.URL.Path)
				}
				cancels := len(slices.DeleteFunc(paths, func(path string) bool {
					return len(path) < len("/cancel") || path[len(path)-len("/cancel"):] != "/cancel"
				}))
				if cancels != tt.cancels {
					t.Errorf("%d requests to cancel, want %d", cancels, tt.cancels)
				}
			})
		})
	}
}

// A start that was refused, or never sent, leaves nothing to cancel.
func TestRunThatDoesNotStartIsNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := script(problemAnswer(403, "", "forbidden", false))
		c := w.client(t, client.Options{})
		if _, err := collect(c.Run(t.Context(), client.StartRequest{Command: "make"}, nil)); err == nil {
			t.Error("no error")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := collect(c.Run(ctx, client.StartRequest{Command: "make"}, nil)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if len(w.requests) != 1 {
			t.Errorf("%d requests", len(w.requests))
		}
	})
}
