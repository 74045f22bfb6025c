package bench

import (
	"context"
	"errors"
	"slices"
	"time"
)

const fanReaders = 1000

// The contenders of all fan-out races, by the names of their servers.
const (
	fanLimitRaw = "limit=raw-descriptors"
	fanLimit    = "limit=net-http-coalescing"
	fanOurs     = "store=memory"
	// fanParkedOurs begins with parked readers.
	fanParkedOurs = "store=memory/parked"
	fanPeer       = "peer=go-sse"
)

// fanServer is a server with one stream, which all readers of a fan-out follow.
type fanServer interface {
	// burst publishes n events as fast as it can.
	burst(n int) error
	// steady publishes n events with a pause before each.
	steady(n int) error
	// cpu is the time that the server has used.
	cpu() (time.Duration, error)
	Close() error
}

// fan is a fanServer with what its readers need.
type fan struct {
	fanServer
	addr    string
	request []byte        // of each reader
	settle  time.Duration // how long the readers wait before the first lap
}

// fanLapper makes the laps of a fan-out race.
type fanLapper func(f fanServer, s *swarm, scale Scale) lapFunc

func fanContenders(lap fanLapper) []Contender {
	start := func(name string) func(context.Context, Scale) (Runner, error) { return fanProcess(name, lap) }
	return []Contender{
		{fanLimitRaw, start("fan-raw"), false},
		{"limit=hijacked", start("fan-hijack"), false},
		{fanLimit, start("fan-coalesce"), false},
		{fanOurs, start("fan-reprise"), false},
		{fanParkedOurs, start("fan-parked"), false},
		{fanPeer, start("fan-gosse"), false},
	}
}

// settle is how long subscriptions may take after the head of the response was sent.
const settle = 300 * time.Millisecond

// fanProcess starts one of the servers of this program, and readers that follow it.
func fanProcess(name string, lap fanLapper) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		p, err := startProcess(name)
		if err != nil {
			return nil, err
		}
		return startFan(fan{p, p.addr, request(""), settle}, scale, lap)
	}
}

// startFan connects the readers. The Runner closes the server.
func startFan(f fan, scale Scale, lap fanLapper) (Runner, error) {
	s, err := newSwarm(f.addr, f.request, scale.Of(fanReaders, 50))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	time.Sleep(f.settle)
	return closing{lap(f, s, scale), func() error {
		_ = s.Close()
		return f.Close()
	}}, nil
}

const burstSize = 32

// burstRace is P5: events that come in bursts.
func burstRace() Race {
	return Race{
		Name: "Burst",
		Contenders: fanContenders(func(f fanServer, s *swarm, scale Scale) lapFunc {
			bursts := scale.Of(25, 3)
			return func(ctx context.Context) (Sample, error) { return fanLap(ctx, f, s, bursts, burstSize) }
		}),
		Rows: []Row{{
			Target: "P5", What: "bursts of 32 to 1,000 readers", Unit: "deliveries/s",
			Ours: fanOurs, Limit: fanLimit, Peers: []string{fanPeer},
			First: Bound{Than: fanLimit, Least: 0.6}, Goal: Bound{Than: fanLimitRaw, Least: 0.7},
		}},
	}
}

// singleRace is P6: one event at a time.
func singleRace() Race {
	return Race{
		Name: "Single",
		Contenders: fanContenders(func(f fanServer, s *swarm, scale Scale) lapFunc {
			events := scale.Of(100, 5)
			return func(ctx context.Context) (Sample, error) { return fanLap(ctx, f, s, events, 1) }
		}),
		Rows: []Row{{
			Target: "P6", What: "single events to 1,000 readers", Unit: "cpu-us/delivery",
			Ours: fanOurs, Limit: fanLimit, Peers: []string{fanPeer},
			First: Bound{Than: fanLimit, Most: 1.2}, Goal: Bound{Than: fanLimitRaw, Most: 1.15},
		}},
	}
}

// fanLap publishes bursts, each when all readers have got the one before.
func fanLap(ctx context.Context, f fanServer, s *swarm, bursts, size int) (Sample, error) {
	before, err := f.cpu()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	for range bursts {
		if err := f.burst(size); err != nil {
			return nil, err
		}
		if err := s.await(ctx, size*len(s.fds)); err != nil {
			return nil, err
		}
	}
	took := time.Since(start)
	cpu, err := f.cpu()
	deliveries := float64(bursts * size * len(s.fds))
	return Sample{
		"deliveries/s":    deliveries / took.Seconds(),
		"cpu-us/delivery": float64((cpu - before).Microseconds()) / deliveries,
	}, err
}

// latencyRace is P7: 50 events a second, far below what any contender can do.
func latencyRace() Race {
	return Race{
		Name: "Latency",
		Contenders: fanContenders(func(f fanServer, s *swarm, scale Scale) lapFunc {
			events := scale.Of(50, 5)
			return func(ctx context.Context) (Sample, error) { return latencyLap(ctx, f, s, events) }
		}),
		Rows: []Row{{
			Target: "P7", What: "p99 to 1,000 readers", Unit: "p99-ms",
			Ours: fanOurs, Limit: fanLimit, Peers: []string{fanPeer},
			First: Bound{Than: fanLimit, Most: 1.3}, Goal: Bound{Than: fanLimitRaw, Most: 1.1},
		}},
	}
}

func latencyLap(ctx context.Context, f fanServer, s *swarm, events int) (Sample, error) {
	s.timing, s.late = true, s.late[:0]
	defer func() { s.timing = false }()
	asked := make(chan error, 1)
	go func() { asked <- f.steady(events) }()
	err := s.await(ctx, events*len(s.fds))
	if err == nil {
		err = <-asked
	}
	slices.Sort(s.late)
	ms := func(q float64) float64 { return s.late[int(q*float64(len(s.late)-1))].Seconds() * 1000 }
	if err != nil {
		return nil, err
	}
	return Sample{"p50-ms": ms(0.5), "p99-ms": ms(0.99)}, nil
}

// idleRace is P8: the memory of a server per reader that waits.
func idleRace() Race {
	idle := func(name string) func(context.Context, Scale) (Runner, error) {
		return func(_ context.Context, scale Scale) (Runner, error) {
			n := scale.Of(9000, 200)
			return lapFunc(func(context.Context) (Sample, error) { return idleLap(name, n) }), nil
		}
	}
	return Race{
		Name: "Idle",
		Contenders: []Contender{
			{fanLimitRaw, idle("fan-raw"), false},
			{fanLimit, idle("fan-coalesce"), false},
			{fanOurs, idle("fan-reprise"), false},
			{fanPeer, idle("fan-gosse"), false},
		},
		Rows: []Row{{
			Target: "P8", What: "memory per idle reader, 9,000 readers", Unit: "KiB/reader",
			Ours: fanOurs, Limit: fanLimit, Peers: []string{fanPeer},
			First: Bound{Than: fanLimit, Unit: "KiB+4/reader", Most: 1}, Goal: Bound{Most: 1.5},
		}},
	}
}

func idleLap(name string, n int) (Sample, error) {
	p, err := startProcess(name)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	before, err := p.askInt("memory")
	if err != nil {
		return nil, err
	}
	s, err := newSwarm(p.addr, request(""), n)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	time.Sleep(settle)
	after, err := p.askInt("memory")
	each := float64(after-before) / 1024 / float64(n)
	return Sample{"KiB/reader": each, "KiB+4/reader": each + 4}, err
}
