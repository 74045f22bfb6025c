package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"reprise"
)

// engineHistory is how many events are replayed from an engine.
func engineHistory(scale Scale) int { return scale.Of(100_000, 2000) }

// engineReplayRace is E4: three times the rate at which the driver reads one event a record.
func engineReplayRace(e *engine, limit string, read func(context.Context, Scale, string) (Runner, error)) Race {
	limit = "limit=" + limit
	ours := "store=" + e.name
	return Race{
		Name: "EngineReplay-" + e.name,
		Contenders: []Contender{
			e.contender(limit, read),
			e.contender(ours, func(ctx context.Context, scale Scale, url string) (Runner, error) {
				return engineReplay(ctx, e, scale, url)
			}),
		},
		Rows: []Row{{
			Target: "E4", What: "replay of 100,000 from " + e.name, Unit: "events/s", Ours: ours, Limit: limit,
			First: Bound{Than: limit, Least: 3},
		}},
	}
}

// replayLap times read, which must return how many events it has read.
func replayLap(events int, read func(context.Context) (int, error)) lapFunc {
	return func(ctx context.Context) (Sample, error) {
		start := time.Now()
		n, err := read(ctx)
		took := time.Since(start).Seconds()
		if err == nil && n != events {
			err = fmt.Errorf("%w: %d of %d were read", errLost, n, events)
		}
		return Sample{"events/s": float64(n) / took, "us/event": took * 1e6 / float64(n)}, err
	}
}

// engineReplay replays a stream that a hundred have appended to, one event at a time. Store and Log are new in each
// lap, so that they hold nothing of it.
func engineReplay(ctx context.Context, e *engine, scale Scale, url string) (Runner, error) {
	events := engineHistory(scale)
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "history"}
	if err := writeHistory(ctx, e, url, key, events); err != nil {
		return nil, err
	}
	return lapFunc(func(ctx context.Context) (Sample, error) {
		log, closeLog, err := e.openLog(ctx, url)
		if err != nil {
			return nil, err
		}
		sample, err := replayLap(events, func(ctx context.Context) (int, error) {
			return readHistory(ctx, log, key, events)
		})(ctx)
		return sample, errors.Join(err, closeLog())
	}), nil
}

func writeHistory(ctx context.Context, e *engine, url string, key reprise.StreamKey, events int) error {
	log, closeLog, err := e.openLog(ctx, url)
	if err != nil {
		return err
	}
	s, _, err := log.Create(ctx, key, reprise.StreamConfig{Retention: keepAll})
	if err != nil {
		return errors.Join(err, closeLog())
	}
	failed := make([]error, engineAppenders)
	var all sync.WaitGroup
	for i := range failed {
		all.Go(func() {
			for range events / engineAppenders {
				if _, err := s.Append(ctx, reprise.Event{Data: newPayload()}); err != nil {
					failed[i] = err
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errors.Join(failed...), closeLog())
}

// readHistory reads so many events in order.
func readHistory(ctx context.Context, log *reprise.Log, key reprise.StreamKey, events int) (n int, err error) {
	s, err := log.Stream(ctx, key)
	if err != nil {
		return 0, err
	}
	reader, err := s.Reader(ctx, reprise.Earliest())
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	for event, err := range reader.Events(ctx) {
		if err != nil {
			return n, err
		}
		if n++; event.Seq != uint64(n) {
			return n, fmt.Errorf("%w: %d came in place of %d", errLost, event.Seq, n)
		}
		if n == events {
			return n, nil
		}
	}
	return n, nil
}
