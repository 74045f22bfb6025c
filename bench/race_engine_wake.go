package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"reprise"
)

// engineWakeRace is E5: from an append at one replica to its receipt at another one, within three times what the engine
// takes for a durable record and a notification to another connection.
func engineWakeRace(e *engine, limit string, wake func(context.Context, Scale, string) (Runner, error)) Race {
	limit = "limit=" + limit
	ours := "store=" + e.name
	row := func(what, unit string, bound Bound) Row {
		return Row{
			Target: "E5", What: "replica to replica over " + e.name + ", " + what, Unit: unit, Ours: ours,
			Limit: limit, First: bound,
		}
	}
	return Race{
		Name: "EngineWake-" + e.name,
		Contenders: []Contender{
			e.contender(limit, wake),
			e.contender(ours, func(ctx context.Context, scale Scale, url string) (Runner, error) {
				return engineWake(ctx, e, scale, url)
			}),
		},
		Rows: []Row{row("median", "p50-us", Bound{Than: limit, Most: 3}), row("p99", "p99-us", Bound{})},
	}
}

// wakeLap has one after another sent with say and waits for each in heard, which holds when it came. What
// say returns, if not zero, is a moment that must have passed too.
func wakeLap(scale Scale, heard <-chan time.Time, say func(context.Context) (time.Time, error)) lapFunc {
	n := scale.Of(1000, 50)
	return func(ctx context.Context) (Sample, error) {
		took := make([]float64, n)
		for i := range took {
			start := time.Now()
			also, err := say(ctx)
			if err != nil {
				return nil, err
			}
			select {
			case at := <-heard:
				if also.After(at) {
					at = also
				}
				took[i] = float64(at.Sub(start).Nanoseconds()) / 1e3
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		slices.Sort(took)
		return Sample{"p50-us": took[n/2], "p99-us": took[n*99/100]}, nil
	}
}

// engineWake appends with one Log and follows with another one.
func engineWake(ctx context.Context, e *engine, scale Scale, url string) (Runner, error) {
	from, closeFrom, err := e.openLog(ctx, url)
	if err != nil {
		return nil, err
	}
	to, closeTo, err := e.openLog(ctx, url)
	if err != nil {
		return nil, errors.Join(err, closeFrom())
	}
	closeAll := func() error { return errors.Join(closeTo(), closeFrom()) }
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "woken"}
	s, _, err := from.Create(ctx, key, reprise.StreamConfig{})
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	heard, stop, err := follow(ctx, to, key)
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	payload := newPayload()
	return closing{wakeLap(scale, heard, func(ctx context.Context) (time.Time, error) {
		_, err := s.Append(ctx, reprise.Event{Data: payload})
		return time.Time{}, err
	}), func() error { stop(); return closeAll() }}, nil
}

// follow reads new events until it is stopped, and says when each came.
func follow(ctx context.Context, log *reprise.Log,
	key reprise.StreamKey,
) (heard <-chan time.Time, stop func(), err error) {
	s, err := log.Stream(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	reader, err := s.Reader(ctx, reprise.Tail())
	if err != nil {
		return nil, nil, err
	}
	reading, cancel := context.WithCancel(context.Background())
	came, ended := make(chan time.Time, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for _, err := range reader.Events(reading) {
			if err != nil {
				return
			}
			select {
			case came <- time.Now():
			case <-reading.Done():
				return
			}
		}
	}()
	return came, func() {
		cancel()
		<-ended
		_ = reader.Close()
	}, nil
}
