package ssehttp_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// beats records for ten minutes when the lines that begin with prefix arrive at a reader of path, in seconds, while
// disturb runs every 300 ms, which is 200 times a minute.
func beats(t *testing.T, p *pipes, path, prefix string, disturb func()) (at []float64) {
	t.Helper()
	const duration, every = 10 * time.Minute, 300 * time.Millisecond
	c := p.dial(t)
	begin := time.Now()
	go func() {
		for time.Since(begin) < duration {
			time.Sleep(every)
			disturb()
		}
		_ = c.Close()
	}()
	for in := lines(p.over(t, c, path)); in.Scan(); {
		if strings.HasPrefix(in.Text(), prefix) {
			at = append(at, time.Since(begin).Seconds())
		}
	}
	return at
}

// wantEvery15s checks that heartbeats come every 15 s for ten minutes.
func wantEvery15s(t *testing.T, at []float64) {
	t.Helper()
	if len(at) != 39 && len(at) != 40 { // the last one coincides with the end
		t.Fatalf("%d heartbeats in ten minutes, want 40: at %v s", len(at), at)
	}
	for i, second := range at {
		if want := float64(15 * (i + 1)); second < want || second > want+float64(i)+1 {
			t.Fatalf("heartbeat %d after %v s, want %v s", i+1, second, want)
		}
	}
}

func TestIdleReaderGetsHeartbeatsBesideVisitors(t *testing.T) {
	for _, path := range []string{"/s", "/s?types=a"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes(t, nil, nil)
				s := create(t, p.log, "s", reprise.Retention{})
				wantEvery15s(t, beats(t, p, path, ":", func() {
					visitor, err := s.Reader(t.Context(), reprise.Earliest())
					check(t, err)
					check(t, visitor.Close())
				}))
			})
		})
	}
}

// TestFilteredEventsDoNotDelayHeartbeats: events that a reader does not want are silence to it. The bare id that
// moves its cursor past them takes the place of the comment.
func TestFilteredEventsDoNotDelayHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, nil, nil)
		s := create(t, p.log, "s", reprise.Retention{})
		wantEvery15s(t, beats(t, p, "/s?types=a", "id: ", func() { add(t, s, typed("b", 1)...) }))
	})
}

// TestEmptyWakeUpsDoNotDelayHeartbeats: a wake-up that brings no event is silence to a reader. Here the Log reads the
// state of the stream again after each append that the store refuses, and wakes all readers.
func TestEmptyWakeUpsDoNotDelayHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		log, err := reprise.Open(t.Context(), refusing{store}, nil)
		check(t, err)
		defer func() {
			check(t, log.Close())
			check(t, store.Close())
		}()
		p := newPipesOf(t, log, nil)
		s := create(t, log, "s", reprise.Retention{})
		wantEvery15s(t, beats(t, p, "/s", ":", func() {
			if _, err := s.Append(t.Context(), text("x")); !errors.Is(err, reprise.ErrUnavailable) {
				t.Errorf("append: %v", err)
			}
			check(t, s.Trim(t.Context(), 0))
		}))
	})
}

// refusing is a Store that takes no events.
type refusing struct{ *memstore.Store }

func (refusing) Append(_ context.Context, reqs []reprise.AppendRequest) []error {
	errs := make([]error, len(reqs))
	for i := range errs {
		errs[i] = reprise.ErrUnavailable
	}
	return errs
}
