package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/internal/testserver"
)

// Two replicas append to one stream while the server is restarted. Readers on both see the same events in the same
// order, each seq once, and every event that was acknowledged.
func TestTwoReplicas(t *testing.T) {
	own := testserver.Postgres(t, nil)
	var streams [2]*reprise.Stream
	for i := range streams {
		log, err := reprise.Open(t.Context(), mustOpen(t, own.URL(), nil), nil)
		check(t, err)
		t.Cleanup(func() { check(t, log.Close()) })
		streams[i], _, err = log.Create(t.Context(), key("s"), reprise.StreamConfig{})
		check(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var seen [2][]string
	var readers, writers sync.WaitGroup
	for i, st := range streams {
		readers.Go(func() {
			r, err := st.Reader(ctx, reprise.Earliest())
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			for err := reprise.ErrUnavailable; errors.Is(err, reprise.ErrUnavailable); {
				seen[i], err = follow(ctx, r, seen[i])
				if err != nil && !errors.Is(err, reprise.ErrUnavailable) {
					t.Error(err)
				}
			}
		})
	}
	var mu sync.Mutex
	acknowledged := map[string]uint64{}
	for w := range 6 {
		writers.Go(func() {
			for n := range 100 {
				text := fmt.Sprintf("%d/%d", w, n)
				got, err := streams[w%2].Append(ctx, reprise.Event{Data: []byte(text)})
				if errors.Is(err, reprise.ErrUnavailable) {
					time.Sleep(10 * time.Millisecond)
					continue // stored or not
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acknowledged[text] = got.First
				mu.Unlock()
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	check(t, own.Kill())
	check(t, own.Start())
	writers.Wait()
	eventually(t, "the end is to be stored", func() bool {
		_, err := streams[1].End(ctx, "completed", reprise.Event{})
		return err == nil
	})
	readers.Wait()
	if len(seen[0]) != len(seen[1]) {
		t.Fatalf("one reader has seen %d events, the other %d", len(seen[0]), len(seen[1]))
	}
	for i := range seen[0] {
		if seen[0][i] != seen[1][i] {
			t.Fatalf("event %d is %q for one reader and %q for the other", i+1, seen[0][i], seen[1][i])
		}
	}
	for text, seq := range acknowledged {
		if seq < 1 || int(seq) > len(seen[0]) || seen[0][seq-1] != text {
			t.Fatalf("event %d is not the %q that was acknowledged", seq, text)
		}
	}
	t.Log(len(acknowledged), "events were acknowledged,", len(seen[0])-1, "are there")
}

// follow adds the data of events to seen until the stream has ended or something is wrong.
func follow(ctx context.Context, r *reprise.Reader, seen []string) ([]string, error) {
	for e, err := range r.Events(ctx) {
		if err != nil {
			return seen, err
		}
		if e.Seq != uint64(len(seen)+1) {
			return seen, fmt.Errorf("event %d after %d events", e.Seq, len(seen))
		}
		seen = append(seen, string(e.Data))
	}
	return seen, nil
}
