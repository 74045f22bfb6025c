package bench

import (
	"context"
	"runtime"
	"strconv"

	"reprise"
	"reprise/store/memstore"
)

// idsRace is P11: the text of the cursor of an event, made and checked.
func idsRace() Race {
	const mint, verify, limit = "do=mint", "do=verify", "limit=decimal"
	ids := func(name string, most, goal float64) Row {
		return Row{
			Target: "P11", What: name[len("do="):] + " an id", Unit: "ns/op", Ours: name, Limit: limit,
			First: Bound{Most: most, Also: &Bound{Unit: "allocs/op", Most: 0.01}},
			Goal:  Bound{Most: goal, Also: &Bound{Unit: "allocs/op", Most: 0.01}},
		}
	}
	return Race{
		Name: "IDs",
		Contenders: []Contender{
			{limit, idsDecimal, true},
			{mint, idsMint, true},
			{verify, idsVerify, true},
		},
		Rows: []Row{ids(mint, 100, 60), ids(verify, 100, 70)},
	}
}

// idsLap times n calls of f, which is told the number of the call.
func idsLap(scale Scale, f func(i uint64) error) lapFunc {
	n := scale.Of(5_000_000, 10_000)
	return func(context.Context) (Sample, error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := cpuTime()
		for i := range n {
			if err := f(uint64(i)); err != nil {
				return nil, err
			}
		}
		took := cpuTime() - start
		runtime.ReadMemStats(&after)
		return Sample{
			"ns/op":     float64(took.Nanoseconds()) / float64(n),
			"allocs/op": float64(after.Mallocs-before.Mallocs) / float64(n),
		}, nil
	}
}

// idsDecimal writes a number and reads it again.
func idsDecimal(_ context.Context, scale Scale) (Runner, error) {
	var buf [20]byte
	return idsLap(scale, func(i uint64) error {
		n, err := strconv.ParseUint(string(strconv.AppendUint(buf[:0], i, 10)), 10, 64)
		if n != i {
			return errLost
		}
		return err
	}), nil
}

func idsMint(ctx context.Context, scale Scale) (Runner, error) {
	log, s, err := historyLog(ctx, memstore.New(nil), history{events: 100})
	if err != nil {
		return nil, err
	}
	cursor := s.Cursor(0)
	buf := make([]byte, 0, 64)
	return closing{idsLap(scale, func(i uint64) error {
		cursor.Seq = i
		buf = cursor.Append(buf[:0])
		return nil
	}), log.Close}, nil
}

// idsVerify reads the text of a cursor and has a reader check and take it.
func idsVerify(ctx context.Context, scale Scale) (Runner, error) {
	log, s, err := historyLog(ctx, memstore.New(nil), history{events: 100})
	if err != nil {
		return nil, err
	}
	reader, err := s.Reader(ctx, reprise.Earliest())
	if err != nil {
		return nil, err
	}
	text := s.Cursor(77).String()
	return closing{idsLap(scale, func(uint64) error {
		cursor, err := reprise.ParseCursor(text)
		if err != nil {
			return err
		}
		return reader.Seek(reprise.After(cursor))
	}), log.Close}, nil
}
