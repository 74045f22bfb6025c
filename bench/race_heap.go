package bench

import (
	"context"
	"runtime"

	"reprise/bench/limit"
	"reprise/store/memstore"
)

// heapRace is P12: what a kept event takes in memory.
func heapRace() Race {
	const ours, least = "store=memory/size=200", "limit=bytelog/size=200"
	return Race{
		Name:       "Heap",
		Contenders: []Contender{{least, heapByteLog, true}, {ours, heapReprise, true}},
		Rows: []Row{{
			Target: "P12", What: "heap per kept event, 500,000 kept", Unit: "B/event", Ours: ours, Limit: least,
			First: Bound{Most: 300},
			Goal:  Bound{Most: 230},
		}},
	}
}

// heapLap measures by how much the heap grows when keep keeps n events.
func heapLap(scale Scale, keep func(ctx context.Context, n int) (kept any, err error)) lapFunc {
	n := scale.Of(500_000, 20_000)
	return func(ctx context.Context) (Sample, error) {
		before := heap()
		kept, err := keep(ctx, n)
		if err != nil {
			return nil, err
		}
		after := heap()
		runtime.KeepAlive(kept)
		return Sample{"B/event": (after - before) / float64(n)}, nil
	}
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func heapByteLog(_ context.Context, scale Scale) (Runner, error) {
	return heapLap(scale, func(_ context.Context, n int) (any, error) {
		log := limit.NewByteLog(n, eventSize)
		payload := newPayload()
		for range n {
			log.Append(payload)
		}
		return log, nil
	}), nil
}

func heapReprise(_ context.Context, scale Scale) (Runner, error) {
	return heapLap(scale, func(ctx context.Context, n int) (any, error) {
		_, s, err := historyLog(ctx, memstore.New(nil), history{events: n})
		return s, err
	}), nil
}
