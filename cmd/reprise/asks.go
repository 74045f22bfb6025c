package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// askedToStop is why a context was cancelled on which INT or TERM has come.
type askedToStop struct{ signal syscall.Signal }

func (a *askedToStop) Error() string {
	name := "SIGTERM"
	if a.signal == syscall.SIGINT {
		name = "SIGINT"
	}
	return fmt.Sprintf("stopped by %s", name)
}

func (a *askedToStop) code() int { return exitSignaled + int(a.signal) }

// stops are the requests to stop that come as signals: the first means "please",
// the second "now". A third one ends the process.
type stops struct{ signals chan os.Signal }

// asks begins to take INT and TERM.
func asks() *stops {
	s := &stops{signals: make(chan os.Signal, 2)}
	signal.Notify(s.signals, syscall.SIGINT, syscall.SIGTERM)
	return s
}

// watch returns two contexts, of which the first ends with the first signal and the
// second with the second one; the cause is an *askedToStop. release must be called.
func (s *stops) watch(parent context.Context) (please, now context.Context, release func()) {
	now, endNow := context.WithCancelCause(parent)
	please, endPlease := context.WithCancelCause(now)
	go func() {
		for _, end := range []context.CancelCauseFunc{endPlease, endNow} {
			select {
			case got := <-s.signals:
				end(&askedToStop{signal: got.(syscall.Signal)})
			case <-now.Done():
				return
			}
		}
		signal.Reset(syscall.SIGINT, syscall.SIGTERM)
	}()
	return please, now, func() { endNow(context.Canceled) }
}

// context is for what simply stops when it is asked to.
func (s *stops) context(parent context.Context) (context.Context, func()) {
	please, _, release := s.watch(parent)
	return please, release
}
