package bench

import (
	"context"

	"reprise"
	"reprise/bench/limit"
	"reprise/store/memstore"
)

// positionRace is P2: how long it takes to find the last ten events.
func positionRace() Race {
	const million, hundred = "store=memory/events=1000000", "store=memory/events=100"
	return Race{
		Name: "Position",
		Contenders: []Contender{
			{"limit=bytelog/events=1000000", positionByteLog, true},
			{million, positionReprise(1_000_000), true},
			{hundred, positionReprise(100), true},
		},
		Rows: []Row{{
			Target: "P2", What: "the last 10 of 1,000,000 events", Unit: "ns/op",
			Ours: million, Limit: "limit=bytelog/events=1000000",
			First: Bound{Than: hundred, Most: 2},
			Goal:  Bound{Most: 100},
		}},
	}
}

// positionLap times n calls of find.
func positionLap(scale Scale, find func() error) lapFunc {
	n := scale.Of(200_000, 1000)
	return func(context.Context) (Sample, error) {
		start := cpuTime()
		for range n {
			if err := find(); err != nil {
				return nil, err
			}
		}
		return Sample{"ns/op": float64((cpuTime() - start).Nanoseconds()) / float64(n)}, nil
	}
}

func positionByteLog(_ context.Context, scale Scale) (Runner, error) {
	n := scale.Of(1_000_000, 10_000)
	log := limit.NewByteLog(n, eventSize)
	payload := newPayload()
	for range n {
		log.Append(payload)
	}
	return positionLap(scale, func() error {
		if len(log.After(uint64(n-10))) == 0 {
			return errLost
		}
		return nil
	}), nil
}

// positionReprise moves a reader to a cursor, which checks it, and takes the events.
func positionReprise(events int) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		events := events / scale.Of(1, min(100, events/100))
		log, s, err := historyLog(ctx, memstore.New(nil), history{events: events})
		if err != nil {
			return nil, err
		}
		reader, err := s.Reader(ctx, reprise.Earliest())
		if err != nil {
			return nil, err
		}
		at := reprise.After(s.Cursor(uint64(events - 10)))
		return closing{positionLap(scale, func() error {
			if err := reader.Seek(at); err != nil {
				return err
			}
			events, err := reader.Poll(ctx)
			if err == nil && events.Len() == 0 {
				err = errLost
			}
			return err
		}), log.Close}, nil
	}
}
