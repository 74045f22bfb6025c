package client_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise/client"
)

// The debug log has the states of a loop in order, with causes and waits, and no token.
func TestDebugLogHasStatesAndNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := script([]byte{}, events(text(1, "stdout", "a")), events(end(2)))
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c := w.client(t, client.Options{Logger: logger, Token: "very-secret"})
		if _, err := collect(c.Follow(t.Context(), "x", nil)); err != nil {
			t.Fatal(err)
		}
		var states []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, "msg=")
			if state, _, _ := strings.Cut(rest, " "); state != "answer" && !strings.HasPrefix(rest, `"no answer"`) {
				states = append(states, state)
			}
		}
		got, want := strings.Join(states, " "), "connecting waiting connecting live waiting connecting live ended"
		if got != want || strings.Contains(out.String(), "very-secret") {
			t.Errorf("%s, want %s\n%s", got, want, out.String())
		}
	})
}

// A server that never answers is an error after ten seconds, which names its address; GiveUp says otherwise.
func TestFirstContactIsLimited(t *testing.T) {
	for name, tt := range map[string]struct {
		opts        client.FollowOptions
		silent      bool
		least, most time.Duration
	}{
		"by default": {least: 5 * time.Second, most: 10 * time.Second},
		"silent": {
			opts: client.FollowOptions{IdleTimeout: time.Second}, silent: true,
			least: 5 * time.Second, most: 12 * time.Second,
		},
		"longer": {opts: client.FollowOptions{GiveUp: time.Minute}, least: 30 * time.Second, most: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: func(int, *http.Request) ([]byte, bool) { return nil, tt.silent }}
				c := w.client(t, client.Options{MaxWait: time.Second})
				begun := time.Now()
				_, err := collect(c.Follow(t.Context(), "x", &tt.opts))
				took := time.Since(begun)
				failure, ok := errors.AsType[*client.Error](err)
				if !ok || took < tt.least || took > tt.most || failure.Tries < 3 {
					t.Errorf("after %v: %v", took, err)
				}
				if tt.opts.GiveUp == 0 && !strings.Contains(err.Error(), c.URL()) {
					t.Errorf("the URL is missing: %v", err)
				}
			})
		})
	}
}
