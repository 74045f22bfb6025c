package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/testserver"
)

// replica is a Log on a place, with a stream that it appends to and reads.
type replica struct {
	t      *testing.T
	name   string
	stream *reprise.Stream
	// appended counts events, and seen are those that were read.
	appended atomic.Int64
	seen     []string
}

func newReplica(t *testing.T, where, name string) *replica {
	log, err := reprise.Open(t.Context(), openAt(t, where), &reprise.Options{SweepEvery: -1})
	must(t, err)
	t.Cleanup(func() { must(t, log.Close()) })
	if !log.Shared() {
		t.Fatal("a Log on NATS is not shared")
	}
	stream, _, err := log.Create(t.Context(),
		reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}, reprise.StreamConfig{})
	must(t, err)
	return &replica{t: t, name: name, stream: stream}
}

// append appends so many events, each until it is there.
func (r *replica) append(ctx context.Context, events int) {
	producer := reprise.ProducerID{ID: r.name}
	for n := range events {
		producer.Seq = uint64(n)
		for {
			_, err := r.stream.AppendWith(ctx, reprise.AppendOptions{Producer: &producer},
				reprise.Event{Data: fmt.Appendf(nil, "%s/%d", r.name, n)})
			if err == nil {
				break
			}
			if !errors.Is(err, reprise.ErrUnavailable) {
				r.t.Errorf("%s, append %d: %v", r.name, n, err)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		r.appended.Add(1)
	}
}

// read follows the stream until it has seen so many events.
func (r *replica) read(ctx context.Context, events int) {
	reader, err := r.stream.Reader(ctx, reprise.Earliest())
	if err != nil {
		r.t.Error(err)
		return
	}
	defer reader.Close()
	for len(r.seen) < events {
		run, err := reader.Next(ctx)
		switch {
		case errors.Is(err, reprise.ErrUnavailable):
			time.Sleep(5 * time.Millisecond)
		case err != nil:
			r.t.Errorf("%s, after %d events: %v", r.name, len(r.seen), err)
			return
		default:
			for event := range run.All() {
				r.seen = append(r.seen, string(event.Data))
			}
		}
	}
}

// Two replicas append to one stream and follow it while the server is killed and started again. Both see each event
// once, and in the same order.
func TestReplicasOverRestarts(t *testing.T) {
	server := testserver.NATS(t, nil)
	together(t, place(server, "&timeout=2s"), func() {
		must(t, server.Kill())
		must(t, server.Start())
	})
}

// together has two replicas append and read at a place, which is disturbed three times meanwhile.
func together(t *testing.T, where string, disturb func()) {
	t.Helper()
	const events = 300
	replicas := []*replica{newReplica(t, where, "a"), newReplica(t, where, "b")}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, r := range replicas {
		wg.Go(func() { r.append(ctx, events) })
		wg.Go(func() { r.read(ctx, events*len(replicas)) })
	}
	for after := int64(50); after < events; after += 100 {
		for replicas[0].appended.Load() < after && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		disturb()
	}
	wg.Wait()
	a, b := replicas[0].seen, replicas[1].seen
	if len(a) != events*len(replicas) || !slices.Equal(a, b) {
		t.Errorf("the replicas have seen %d and %d events, want the same %d", len(a), len(b), events*len(replicas))
	}
	slices.Sort(a)
	if n := len(slices.Compact(a)); n != events*len(replicas) {
		t.Errorf("%d different events, want %d", n, events*len(replicas))
	}
}
