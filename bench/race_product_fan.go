package bench

import (
	"context"
	"errors"
	"time"
)

// productFanRace is Q7: 1,000 readers that follow one stream of the server while events are published to it over HTTP.
// A lap has bursts, single events, and 50 events a second, one after another.
func productFanRace() Race {
	const durable, memory = "store=log", "store=memory"
	row := func(ours, what, unit string, goal Bound) Row {
		return Row{
			Target: "Q7", What: what, Unit: unit, Ours: ours, Limit: fanLimitRaw,
			Peers: []string{fanPeer, mercure, centrifugo}, Goal: goal,
		}
	}
	race := Race{Name: "ProductFan", Contenders: []Contender{
		{fanLimitRaw, fanProcess("fan-raw", fanWholeLap), false},
		{fanLimit, fanProcess("fan-coalesce", fanWholeLap), false},
		{durable, productFan("log:", settle, "--no-park"), false},
		{durable + "/park", productFan("log:", parkedAfter), false},
		{memory, productFan("memory:", settle, "--no-park"), false},
		{fanPeer, fanProcess("fan-gosse", fanWholeLap), false},
		{mercure, peerFan(startMercure, mercureReader(""), mercurePosts), false},
		{centrifugo, peerFan(startCentrifugo, centrifugoReader(), centrifugoPosts), false},
	}}
	for _, ours := range []struct {
		contender, name string
		counts          bool
	}{
		{durable, "embedded log, --no-park", true},
		{durable + "/park", "embedded log, parked", true},
		{memory, "memory, --no-park", false},
	} {
		goal := func(b Bound) Bound {
			if !ours.counts { // the targets ask for durable storage
				return Bound{}
			}
			return b
		}
		race.Rows = append(race.Rows,
			row(ours.contender, "bursts of 32 to 1,000 readers of the server, "+ours.name, "deliveries/s",
				goal(Bound{Than: fanLimitRaw, Least: 0.7})),
			row(ours.contender, "single events to 1,000 readers of the server, "+ours.name, "cpu-us/delivery",
				goal(Bound{Than: fanLimitRaw, Most: 1.2})),
			row(ours.contender, "p99 to 1,000 readers of the server, "+ours.name, "p99-ms",
				goal(Bound{Than: fanLimitRaw, Most: 1.1})))
	}
	return race
}

// fanWholeLap does what the laps of P5, P6 and P7 do, one after another, so that each server is started once.
func fanWholeLap(f fanServer, s *swarm, scale Scale) lapFunc {
	return func(ctx context.Context) (Sample, error) {
		bursts, err := fanLap(ctx, f, s, scale.Of(25, 3), burstSize)
		if err != nil {
			return nil, err
		}
		singles, err := fanLap(ctx, f, s, scale.Of(100, 5), 1)
		if err != nil {
			return nil, err
		}
		sample, err := latencyLap(ctx, f, s, scale.Of(50, 5))
		if err != nil {
			return nil, err
		}
		sample["deliveries/s"], sample["cpu-us/delivery"] = bursts["deliveries/s"], singles["cpu-us/delivery"]
		return sample, nil
	}
}

// parkedAfter is longer than readers have to wait before the server parks them.
const parkedAfter = 2 * time.Second

// productFan starts the server and readers that follow a stream.
func productFan(store string, wait time.Duration, flags ...string) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startProduct(ctx, store, flags...)
		if err != nil {
			return nil, err
		}
		w := &lapWire{addr: p.addr}
		if err := w.do(newRequest("PUT", streamPath(0), p.token, "application/json", []byte("{}"))); err != nil {
			return nil, errors.Join(err, w.Close(), p.Close())
		}
		readers := p.eventRequest("GET", streamPath(0)+"/events?after=tail", "")
		return startFan(fan{&productPublisher{p, w}, p.addr, readers, wait}, scale, fanWholeLap)
	}
}

// productPublisher publishes to the product: a burst is one request.
type productPublisher struct {
	*product
	wire *lapWire
}

func (p *productPublisher) burst(n int) error {
	body := linesOf(stampedPayload(), n)
	return p.wire.do(newRequest("POST", streamPath(0)+"/events", p.token, "application/x-ndjson", body))
}

func (p *productPublisher) steady(n int) error {
	return steadily(n, func() error { return p.burst(1) })
}

// Close closes the connection and ends the server.
func (p *productPublisher) Close() error { return errors.Join(p.wire.Close(), p.product.Close()) }
