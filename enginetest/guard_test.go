package enginetest

import (
	"errors"
	"strconv"
	"sync"
	"testing"

	"reprise"
)

func guarded(seq uint64) reprise.AppendOptions {
	return reprise.AppendOptions{Guard: &reprise.ProducerID{ID: "order", Seq: seq}}
}

// TestGuardNumbersAppends: whoever has the next number appends, others are refused, and it is remembered.
func TestGuardNumbersAppends(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{})
		for _, step := range []struct {
			what string
			opts reprise.AppendOptions
			want error
		}{
			{"the second first", guarded(1), reprise.ErrConflict},
			{"the first", guarded(0), nil},
			{"the first again", guarded(0), reprise.ErrConflict},
			{"one too many", guarded(2), reprise.ErrConflict},
			{"none", reprise.AppendOptions{}, nil},
			{"the second", guarded(1), nil},
			{"no id", reprise.AppendOptions{Guard: &reprise.ProducerID{}}, reprise.ErrInvalid},
		} {
			if _, err := s.AppendWith(t.Context(), step.opts, text(step.what)); !errors.Is(err, step.want) {
				t.Errorf("%s: %v, want %v", step.what, err, step.want)
			}
		}
		both := producing("p", 0, 0)
		both.Guard = guarded(2).Guard
		first, err := s.AppendWith(t.Context(), both, text("with a producer"))
		check(t, err)
		again, err := s.AppendWith(t.Context(), both, text("with a producer"))
		if err != nil || !again.Duplicate || again.First != first.First {
			t.Errorf("a duplicate of the producer: %+v, %v", again, err)
		}
		both.Producer.Seq = 1
		_, err = s.AppendWith(t.Context(), both, text("a new one with an old guard"))
		wantError(t, err, reprise.ErrConflict)

		check(t, log.Close())
		s, err = openLog(t, store, nil).Stream(t.Context(), s.Key())
		check(t, err)
		at := info(t, s)
		if n := len(at.Producers); at.Tail != 4 || n != 2 || at.Producers[n-1].Last != first.Last {
			t.Errorf("%d events, and the stream remembers %+v", at.Tail, at.Producers)
		}
		_, err = s.AppendWith(t.Context(), guarded(2), text("after a restart"))
		wantError(t, err, reprise.ErrConflict)
		_, err = s.EndWith(t.Context(), guarded(3), "completed", text("the last"), reprise.Event{})
		check(t, err)
		if at := info(t, s); at.Tail != 6 || at.End == nil {
			t.Errorf("the end and the event before it: %+v", at)
		}
		_, err = s.EndWith(t.Context(), reprise.AppendOptions{}, "completed")
		wantError(t, err, reprise.ErrInvalid)
	})
}

// TestGuardOverReplicas: of writers at several replicas that race for each number exactly one has it.
func TestGuardOverReplicas(t *testing.T) {
	logs := replicas(t, 3, nil)
	createOn(t, logs[0], "s")
	const numbers = 30
	var won [numbers]int
	var mu sync.Mutex
	var work sync.WaitGroup
	for _, log := range logs {
		s, err := log.Stream(t.Context(), named("s"))
		check(t, err)
		work.Go(func() {
			for n := range numbers {
				_, err := s.AppendWith(t.Context(), guarded(uint64(n)), text(strconv.Itoa(n)))
				switch {
				case err == nil:
					mu.Lock()
					won[n]++
					mu.Unlock()
				case !errors.Is(err, reprise.ErrConflict):
					t.Errorf("number %d: %v", n, err)
				}
			}
		})
	}
	work.Wait()
	s, err := logs[0].Stream(t.Context(), named("s"))
	check(t, err)
	if at := info(t, s); at.Tail != numbers {
		t.Errorf("%d events for %d numbers", at.Tail, numbers)
	}
	for n, writers := range won {
		if writers != 1 {
			t.Errorf("number %d has %d writers", n, writers)
		}
	}
}
