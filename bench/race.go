package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Race is a row of contenders that do the same work.
type Race struct {
	// Name is that of the benchmark in the raw output, for example "Append".
	Name       string
	Contenders []Contender
	Rows       []Row
}

// Contender is one program in a race.
type Contender struct {
	// Name says what it is in the form of a benchmark's name, for example
	// "store=memory/size=200".
	Name string
	// Start readies the program for its laps, in this process unless Apart.
	Start func(ctx context.Context, scale Scale) (Runner, error)
	// Apart has the program run in a process of its own, so that it does not pay for the garbage
	// of the others.
	Apart bool
}

// start readies c, which is in race r.
func (c Contender) start(ctx context.Context, r *Race, scale Scale) (Runner, error) {
	if c.Apart {
		return startApart(r.Name, c.Name, scale)
	}
	return c.Start(ctx, scale)
}

// Runner is a contender that is ready to run.
type Runner interface {
	// Lap does the work once. A nil Sample is no lap.
	Lap(ctx context.Context) (Sample, error)
	Close() error
}

// Sample is what one lap has measured, by unit, for example "ns/event".
type Sample map[string]float64

// Scale says how much is done.
type Scale struct {
	Laps  int
	Quick bool
}

// Full is the scale on which results count, Quick one that shows that everything runs.
var (
	Full  = Scale{Laps: 5}
	Quick = Scale{Laps: 1, Quick: true}
)

// Of is the full number, or the quick one.
func (s Scale) Of(full, quick int) int {
	if s.Quick {
		return quick
	}
	return full
}

// Result is what the laps of one contender measured, in order.
type Result struct {
	Contender string
	Samples   []Sample
	// Missing is whether the contender was not run, because its program is not on the machine.
	Missing bool
}

// Run runs the laps of r: each contender in turn, beginning with another one in each lap.
func (r *Race) Run(ctx context.Context, scale Scale) ([]Result, error) {
	results := make([]Result, len(r.Contenders))
	runners := make([]Runner, len(r.Contenders))
	defer func() {
		for _, runner := range runners {
			if runner != nil {
				_ = runner.Close()
			}
		}
	}()
	for i, c := range r.Contenders {
		results[i].Contender = c.Name
		var err error
		runners[i], err = c.start(ctx, r, scale)
		if errors.Is(err, errNoPeer) {
			runners[i], results[i].Missing = nil, true
			continue
		}
		if err != nil {
			runners[i] = nil
			return nil, fmt.Errorf("%s/%s: %w", r.Name, c.Name, err)
		}
	}
	for lap := range scale.Laps {
		for k := range runners {
			i := (k + lap) % len(runners)
			if runners[i] == nil {
				continue
			}
			sample, err := runLap(ctx, runners[i])
			if err != nil {
				return nil, fmt.Errorf("%s/%s: %w", r.Name, r.Contenders[i].Name, err)
			}
			if sample != nil {
				results[i].Samples = append(results[i].Samples, sample)
			}
		}
	}
	return results, nil
}

// lapTimeout is far above what any lap takes: one that reaches it hangs.
const lapTimeout = 2 * time.Minute

var errHangs = errors.New("the lap does not end")

func runLap(ctx context.Context, r Runner) (Sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lapTimeout, errHangs)
	defer cancel()
	return r.Lap(ctx)
}

// lapFunc is a Runner that has nothing to close.
type lapFunc func(ctx context.Context) (Sample, error)

func (f lapFunc) Lap(ctx context.Context) (Sample, error) { return f(ctx) }
func (lapFunc) Close() error                              { return nil }

// once is a lapFunc that does its work in the first lap alone, for what comes out alike each time.
func once(lap lapFunc) lapFunc {
	done := false
	return func(ctx context.Context) (Sample, error) {
		if done {
			return nil, nil
		}
		done = true
		return lap(ctx)
	}
}

// closing is a Runner with what is to be closed after the laps.
type closing struct {
	lapFunc
	close func() error
}

func (c closing) Close() error { return c.close() }
