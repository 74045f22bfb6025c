package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// askedToStop is why a context was cancelled on which INT, TERM or HUP has come.
type askedToStop struct{ signal syscall.Signal }

func (a *askedToStop) Error() string {
	name := "SIGTERM"
	switch a.signal {
	case syscall.SIGINT:
		name = "SIGINT"
	case syscall.SIGHUP:
		name = "SIGHUP"
	}
	return fmt.Sprintf("stopped by %s", name)
}

func (a *askedToStop) code() int { return exitSignaled + int(a.signal) }

// stops are the requests to stop that come as signals: to most the first means "please",
// the second "now". One more than are watched for ends the process.
type stops struct{ signals chan os.Signal }

// asks begins to take INT and TERM.
func asks() *stops {
	s := &stops{signals: make(chan os.Signal, 3)}
	signal.Notify(s.signals, syscall.SIGINT, syscall.SIGTERM)
	return s
}

// watch returns two contexts. The first ends with the first signal and the second with
// the second one; the cause is an *askedToStop. release must be called.
func (s *stops) watch(parent context.Context) (please, now context.Context, release func()) {
	stages, release := s.stages(parent, 2)
	return stages[0], stages[1], release
}

// stages is watch for n signals: the i-th context ends with the i-th signal.
func (s *stops) stages(parent context.Context, n int) (stages []context.Context, release func()) {
	stages = make([]context.Context, n)
	ends := make([]context.CancelCauseFunc, n)
	for i := n - 1; i >= 0; i-- {
		stages[i], ends[i] = context.WithCancelCause(parent)
		parent = stages[i]
	}
	last := stages[n-1]
	go func() {
		for _, end := range ends {
			select {
			case got := <-s.signals:
				end(&askedToStop{signal: got.(syscall.Signal)})
			case <-last.Done():
				return
			}
		}
		signal.Reset(syscall.SIGINT, syscall.SIGTERM)
	}()
	return stages, func() { ends[n-1](context.Canceled) }
}

// orHangup returns a context that also ends with the first HUP, which a terminal sends that closes, so that a server
// stops as at TERM. Later ones have no effect: shells and the system repeat it. Under nohup it is ignored as before.
// release must be called.
func orHangup(parent context.Context) (please context.Context, release func()) {
	please, end := context.WithCancelCause(parent)
	if signal.Ignored(syscall.SIGHUP) {
		return please, func() { end(context.Canceled) }
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		select {
		case <-hangups:
			end(&askedToStop{signal: syscall.SIGHUP})
		case <-please.Done():
		}
	}()
	return please, func() {
		signal.Stop(hangups)
		end(context.Canceled)
	}
}

// context is for what simply stops when it is asked to.
func (s *stops) context(parent context.Context) (context.Context, func()) {
	please, _, release := s.watch(parent)
	return please, release
}
