package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"reprise"
)

// readersGrowth is G8: readers that wait on one stream.
func readersGrowth(most int) Growth {
	sizes := []int{100, 1000}
	if most > 1000 {
		sizes = append(sizes, 9000) // each takes a descriptor of this process and one of the server
	}
	return newGrowth("Readers", "readers that wait", sizes, []Cost{
		{Target: "G8", What: "memory, one stream", Unit: "KiB/reader", Most: 2.5},
		{Target: "G8", What: "CPU time at rest", Unit: "%core", Most: 2},
	}, func(ctx context.Context, scale Scale, store string, size int) (Runner, error) {
		return lapFunc(func(context.Context) (Sample, error) { return readersLap(ctx, scale, store, size) }), nil
	})
}

// heartbeats is the time between the heartbeats of a reader.
const heartbeats = 15 * time.Second

// readersLap lets readers wait on a new server.
func readersLap(ctx context.Context, scale Scale, store string, n int) (s Sample, err error) {
	idle, beats := idleFor, heartbeats
	if scale.Quick {
		idle, beats = time.Second, time.Second
	}
	p, err := startProduct(ctx, store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.publish(streamPath(0), 100, false); err != nil {
		return nil, err
	}
	before, err := p.memory()
	if err != nil {
		return nil, err
	}
	readers, err := newSwarm(p.addr, p.eventRequest("GET", streamPath(0)+"/events?after=tail", ""), n)
	if err != nil {
		return nil, err
	}
	defer readers.Close()
	time.Sleep(idle)
	after, err := p.memory()
	if err != nil {
		return nil, err
	}
	cpu, err := p.cpu()
	if err != nil {
		return nil, err
	}
	time.Sleep(beats)
	later, err := p.cpu()
	return Sample{
		"KiB/reader": float64(after-before) / 1024 / float64(n),
		"%core":      float64(later-cpu) / float64(beats) * 100,
	}, err
}

// startPublished starts a server, readies it once, and measures it in each lap.
func startPublished(ctx context.Context, store string, ready func(*product) error,
	measure func(*product, *wire) (Sample, error),
) (Runner, error) {
	p, err := startProduct(ctx, store)
	if err != nil {
		return nil, err
	}
	if err := ready(p); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return closing{func(context.Context) (Sample, error) {
		w, err := dialWire(p.addr)
		if err != nil {
			return nil, err
		}
		defer w.Close()
		return measure(p, w)
	}, p.Close}, nil
}

// sizeGrowth is G9: how fast larger events are published, each in a request of its own.
func sizeGrowth() Growth {
	return newGrowth("Size", "bytes an event", []int{10, 1000, 10_000, 100_000, 1_000_000}, []Cost{
		{Target: "G9", What: "append of one event", Unit: "us/append"},
		{Target: "G9", What: "rate of bytes", Unit: "MB/s"},
	}, func(ctx context.Context, _ Scale, store string, size int) (Runner, error) {
		return startPublished(ctx, store, func(p *product) error { return p.publish(streamPath(0), 0, false) },
			func(p *product, w *wire) (Sample, error) {
				body := make([]byte, size)
				for i := range body {
					body[i] = 'x'
				}
				post := newRequest("POST", streamPath(0)+"/events", p.token, "application/octet-stream", body)
				us, err := timed(100, time.Microsecond, func() error { return w.do(post) })
				return Sample{"us/append": us, "MB/s": float64(size) / us}, err
			})
	})
}

// historyGrowth is G10: readers that come back for ten events of a stream with so many.
func historyGrowth(most int) Growth {
	return newGrowth("History", "events of the stream", sizesTo(max(most, 1000))[1:], []Cost{
		{Target: "G10", What: "resume of 10", Unit: "us/resume", Times: 1.3},
	}, func(ctx context.Context, _ Scale, store string, size int) (Runner, error) {
		var request []byte
		return startPublished(ctx, store, func(p *product) error {
			after, err := p.publishResumable(size)
			request = p.eventRequest("GET", streamPath(0)+"/events?after="+after, "")
			return err
		}, func(p *product, _ *wire) (Sample, error) {
			buf := make([]byte, 16<<10)
			us, err := timed(200, time.Microsecond, func() error {
				_, err := readEvents(p.addr, request, resumeEvents, buf)
				return err
			})
			return Sample{"us/resume": us}, err
		})
	})
}

// slowEvents are the events of a slow stream.
const slowEvents = 50

// neighboursGrowth is G12: the replay of a stream whose events lie among the events of so many others.
func neighboursGrowth(most int) Growth {
	return newGrowth("Neighbours", "neighbours", sizesTo(min(most, 10_000)), []Cost{
		{Target: "G12", What: fmt.Sprintf("replay of %d events between those", slowEvents), Unit: "ms/replay"},
	}, func(ctx context.Context, _ Scale, store string, size int) (Runner, error) {
		interleaved := func(p *product) error {
			return p.whileStopped(ctx, store, func(log *reprise.Log) error { return interleave(ctx, log, size) })
		}
		return startPublished(ctx, store, interleaved,
			func(p *product, _ *wire) (Sample, error) {
				request := p.eventRequest("GET", "/v1/streams/slow0/events?after=earliest", "")
				buf := make([]byte, 256<<10)
				ms, err := timed(5, time.Millisecond, func() error {
					_, err := readEvents(p.addr, request, slowEvents, buf)
					return err
				})
				return Sample{"ms/replay": ms}, err
			})
	})
}

// interleave appends an event to each of several streams in turns.
func interleave(ctx context.Context, log *reprise.Log, neighbours int) error {
	streams := make([]*reprise.Stream, neighbours+1)
	err := atOnce(len(streams), func(n int) (err error) {
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprintf("slow%d", n)}
		streams[n], _, err = log.Create(ctx, key, reprise.StreamConfig{})
		return err
	})
	for i := 0; i < slowEvents && err == nil; i++ {
		err = atOnce(len(streams), func(n int) error {
			_, err := streams[n].Append(ctx, reprise.Event{Data: newPayload()})
			return err
		})
	}
	return err
}
