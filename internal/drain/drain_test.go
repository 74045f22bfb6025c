package drain_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/drain"
	"reprise/internal/execution"
)

// host is a Host with one command, which ends when over is closed.
type host struct{ over chan struct{} }

func (h host) Drain(ctx context.Context) error {
	select {
	case <-h.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h host) Counts() execution.Counts { return execution.Counts{Running: 1} }

func nobody() int { return 0 }

// After the last command the server waits for its readers: until they have all, for a minute, or for as long as it was
// told.
func TestReadersHaveTheRest(t *testing.T) {
	for _, c := range []struct{ atMost, reads, want time.Duration }{
		{time.Hour, 3 * time.Second, 3 * time.Second},
		{time.Hour, time.Hour, time.Minute},
		{5 * time.Second, time.Hour, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := host{make(chan struct{})}
			close(h.over)
			begun := time.Now()
			d := drain.New(h, func() int {
				if time.Since(begun) < c.reads {
					return 2
				}
				return 0
			}, slog.New(slog.DiscardHandler))
			if err := d.Begin(c.atMost); err != nil {
				t.Fatal(err)
			}
			<-d.Over()
			if took := time.Since(begun); took != c.want {
				t.Errorf("readers that need %v: it took %v, want %v", c.reads, took, c.want)
			}
			d.Close()
		})
	}
}

// A server is drained when its commands have ended or the newest time is over, and not by Close.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := host{make(chan struct{})}
		d := drain.New(h, nobody, slog.New(slog.DiscardHandler))
		for _, wrong := range []time.Duration{0, -time.Second, drain.Longest + 1} {
			if err := d.Begin(wrong); !errors.Is(err, reprise.ErrInvalid) {
				t.Errorf("for %v: %v", wrong, err)
			}
		}
		if s := d.State(); !s.Since.IsZero() || !s.Until.IsZero() {
			t.Errorf("begun: %+v", s)
		}
		begun := time.Now()
		for _, atMost := range []time.Duration{time.Minute, time.Hour} {
			if err := d.Begin(atMost); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		select {
		case <-d.Over():
			t.Error("the first time counts, which was replaced")
		default:
		}
		if s := d.State(); !s.Since.Equal(begun) || !s.Until.Equal(begun.Add(time.Second+time.Hour)) || s.Running != 1 {
			t.Errorf("%+v", s)
		}
		<-d.Over()
		if took := time.Since(begun); took != time.Second+time.Hour {
			t.Errorf("it took %v", took)
		}
		d.Close()
		d = drain.New(h, nobody, slog.New(slog.DiscardHandler))
		if err := d.Begin(time.Hour); err != nil {
			t.Fatal(err)
		}
		close(h.over)
		<-d.Over()
		d.Close()
		d = drain.New(host{make(chan struct{})}, nobody, slog.New(slog.DiscardHandler))
		if err := d.Begin(time.Hour); err != nil {
			t.Fatal(err)
		}
		d.Close()
		select {
		case <-d.Over():
			t.Error("a server that is closed is drained")
		default:
		}
	})
}
