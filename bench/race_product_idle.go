package bench

import (
	"context"
	"errors"
	"time"
)

// productIdleRace is Q8: the memory of the server per reader that waits.
func productIdleRace() Race {
	const raw, gosse, ours, unparked = fanLimitRaw, fanPeer, "store=memory/park", "store=memory"
	row := func(ours, what string, goal Bound) Row {
		return Row{
			Target: "Q8", What: "memory per idle reader of the server, 9,000 readers" + what, Unit: "KiB/reader",
			Ours: ours, Limit: raw, Peers: []string{gosse, mercure, centrifugo}, Goal: goal,
		}
	}
	return Race{
		Name: "ProductIdle",
		Contenders: []Contender{
			{raw, processIdle("fan-raw"), false},
			{unparked, productIdle("--no-park"), false},
			{ours, productIdle(), false},
			{gosse, processIdle("fan-gosse"), false},
			{mercure, peerIdle(startMercure, mercureReader("")), false},
			{centrifugo, peerIdle(startCentrifugo, centrifugoReader()), false},
		},
		Rows: []Row{row(ours, "", Bound{Most: 2}), row(unparked, ", --no-park", Bound{})},
	}
}

func productIdle(flags ...string) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		return lapFunc(func(ctx context.Context) (Sample, error) {
			return productIdleLap(ctx, scale.Of(9000, 200), flags)
		}), nil
	}
}

// processIdle measures a server of this program as the others are measured: what its process holds, garbage included.
func processIdle(name string) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		n := scale.Of(9000, 200)
		return lapFunc(func(context.Context) (sample Sample, err error) {
			p, err := startProcess(name)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			return idleReaders(p.addr, request(""), n, func() (int64, error) { return memoryOf(p.cmd.Process.Pid) })
		}), nil
	}
}

// idleFor is how long the readers of the server are idle. It parks them after a tenth of a second, and returns the
// memory to the system a second later.
const idleFor = 5 * time.Second

func productIdleLap(ctx context.Context, n int, flags []string) (sample Sample, err error) {
	p, err := startProduct(ctx, "memory:", flags...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.publish(streamPath(0), 100, false); err != nil {
		return nil, err
	}
	return idleReaders(p.addr, p.eventRequest("GET", streamPath(0)+"/events?after=tail", ""), n, p.memory)
}

// idleReaders connects n readers to a server, and measures by how much that makes its memory grow.
func idleReaders(addr string, request []byte, n int, memory func() (int64, error)) (Sample, error) {
	before, err := memory()
	if err != nil {
		return nil, err
	}
	s, err := newSwarm(addr, request, n)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	time.Sleep(idleFor)
	after, err := memory()
	return Sample{"KiB/reader": float64(after-before) / 1024 / float64(n)}, err
}
