package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"reprise"
)

// foreign are errors of drivers, networks and operating systems. No error that leaves a Store may wrap one of them: its
// caller would mistake a closed connection for the end of its input, or a driver's cancellation for its own.
var foreign = []error{
	io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, io.ErrNoProgress, io.ErrShortWrite,
	context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded, os.ErrClosed, net.ErrClosed,
	sql.ErrNoRows, sql.ErrConnDone, sql.ErrTxDone, fs.ErrNotExist, fs.ErrClosed,
	syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE, syscall.ETIMEDOUT, syscall.ENOSPC,
}

// foreignIn returns the first of foreign that err wraps, or nil.
func foreignIn(err error) error {
	for _, f := range foreign {
		if errors.Is(err, f) {
			return f
		}
	}
	return nil
}

// passing ends the check unless err wraps reprise.ErrUnavailable and no error of a driver.
func (e *env) passing(err error, what string, args ...any) {
	e.wantError(err, reprise.ErrUnavailable, what, args...)
	if f := foreignIn(err); f != nil {
		e.failf("%s: the error %q wraps %T %q, want its text alone", fmt.Sprintf(what, args...), err, f, f)
	}
}

// Border checks the function with which a Store maps errors of its driver to errors of its own. ctx is the context of
// the caller. Border passes io.EOF, context.Canceled, sql.ErrNoRows, net.ErrClosed and similar errors, plain and
// wrapped in the ways of drivers. The result must wrap reprise.ErrUnavailable, contain the text of the original error,
// and not wrap that error. For a cancelled context the result must be the cause. The errors of package reprise that
// have a meaning for a Log must be preserved. Run checks the same on the whole Store with Harness.Fault and
// Harness.Cut.
func Border(t *testing.T, mapError func(ctx context.Context, err error) error) {
	t.Helper()
	if err := mapError(t.Context(), nil); err != nil {
		t.Errorf("no error becomes %v", err)
	}
	for _, f := range foreign {
		for name, err := range disguises(f) {
			got := mapError(t.Context(), err)
			switch {
			case !errors.Is(got, reprise.ErrUnavailable):
				t.Errorf("%s, %s: %v does not wrap reprise.ErrUnavailable", f, name, got)
			case foreignIn(got) != nil:
				t.Errorf("%s, %s: %v wraps %v, want its text alone", f, name, got, foreignIn(got))
			case !strings.Contains(got.Error(), f.Error()):
				t.Errorf("%s, %s: %v does not say so", f, name, got)
			}
			borderOfCancelled(t, mapError, err)
		}
	}
	for _, want := range []error{
		reprise.ErrInvalid, reprise.ErrNotFound, reprise.ErrExpired, reprise.ErrEnded, reprise.ErrConflict,
		reprise.ErrFenced, reprise.ErrQuota, reprise.ErrUnavailable, reprise.ErrClosed,
	} {
		for _, err := range []error{
			want, fmt.Errorf("a stream: %w", want), fmt.Errorf("%w: %w", want, io.EOF), errors.Join(io.EOF, want),
		} {
			if got := mapError(t.Context(), err); !errors.Is(got, want) || foreignIn(got) != nil {
				t.Errorf("%v becomes %v, which wraps it: %v, and wraps %v",
					err, got, errors.Is(got, want), foreignIn(got))
			}
		}
	}
}

// disguises are the ways in which drivers wrap an error.
func disguises(err error) map[string]error {
	return map[string]error{
		"bare":                    err,
		"wrapped":                 fmt.Errorf("read: %w", err),
		"joined":                  errors.Join(errors.New("rollback failed"), err),
		"of a network":            &net.OpError{Op: "read", Net: "tcp", Err: err},
		"of a file":               &fs.PathError{Op: "read", Path: "file", Err: err},
		"told to be unavailable":  fmt.Errorf("%w: %w", reprise.ErrUnavailable, err),
		"told to be so, and deep": fmt.Errorf("store: %w", fmt.Errorf("%w: read: %w", reprise.ErrUnavailable, err)),
	}
}

// borderOfCancelled maps an error for a caller whose context is cancelled: the result must be the cause.
func borderOfCancelled(t *testing.T, mapError func(context.Context, error) error, err error) {
	t.Helper()
	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if got := mapError(ctx, err); !errors.Is(got, cause) || foreignIn(got) != nil {
		t.Errorf("%v becomes %v for a cancelled context, want the cause", err, got)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if got := mapError(ctx, err); !errors.Is(got, context.Canceled) {
		t.Errorf("%v becomes %v for a cancelled context, want context.Canceled", err, got)
	}
}

const ruleBorder = "An error must not wrap an error of a driver; only the driver's text survives."

var borderChecks = []check{
	{name: "cut under way", rule: ruleBorder, needs: cuts, run: cutUnderWay},
}

// cutUnderWay makes calls of all kinds while the connections of the Store are cut repeatedly.
func cutUnderWay(e *env) {
	const users, rounds = 6, 10
	streams := make([]*stream, users)
	for i := range streams {
		streams[i] = e.create(fmt.Sprint("s/", i)).append(100)
	}
	var stop sync.Once
	var failed atomic.Int64
	over := make(chan struct{})
	end := func() { stop.Do(func() { close(over) }) }
	e.concurrently(users+1, func(i int) {
		defer end()
		if i == users {
			// A Store may hide every cut from its callers by a retry.
			for deadline := time.Now().Add(min(e.opts.patience/2, 5*time.Second)); time.Now().Before(deadline) &&
				failed.Load() < rounds; {
				e.noError(e.harness.Cut(e.store), "cut the connections")
			}
			return
		}
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			default:
			}
			err := streams[i].anyCall(n)
			// ErrConflict means that the previous append was stored late, and ErrNotFound that the stream is in another
			// epoch.
			renewed := e.harness.Renews && errors.Is(err, reprise.ErrNotFound)
			if err != nil && !errors.Is(err, reprise.ErrConflict) && !renewed {
				e.passing(err, "a call while connections are cut")
				failed.Add(1)
			}
			if streams[i].doubtful = streams[i].doubtful || err != nil; streams[i].doubtful {
				streams[i].settle()
			}
		}
	})
}

// settle takes the tail of the stream from the Store, after an append with an unknown result.
func (s *stream) settle() {
	if page, err := s.e.store.Read(s.e.ctx, s.key, 1<<63, 0); err == nil {
		s.goOn(&page.Info)
		s.doubtful = false
	}
}

// goOn takes tail and epoch of the stream from the Store after a fault. No event may be lost.
func (s *stream) goOn(info *reprise.StreamInfo) {
	if info.Epoch != s.epoch && s.e.harness.Renews {
		if fork, ok := info.ForkOf(s.epoch); !ok || fork < s.tail {
			s.e.failf("%s: with %d events, nothing of which was lost, it goes on as %s", s.key, s.tail, describe(*info))
		}
		s.epoch, s.info.Epoch, s.info.Lineage = info.Epoch, info.Epoch, info.Lineage
	}
	s.tail = info.Tail
}
