package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// publishRace is Q1 and Q2: events published to the product over HTTP, so many a request, each connection to a stream
// of its own and waiting for each answer. The limit reads the bodies and counts their lines; the peer is Redis, which
// syncs as often, with as many entries in one pipeline.
func publishRace(connections, batch int) Race {
	const limit, peer = "limit=counting", "peer=redis-xadd-synced"
	target, goal := "Q1", Bound{Least: 400_000}
	switch {
	case batch == 1:
		target, goal = "Q2", Bound{Than: limit, Least: 0.5}
	case connections > 1:
		goal = Bound{Least: 700_000}
	}
	row := func(store, name string, goal Bound) Row {
		what := fmt.Sprintf("publish %d a request, %d connections, %s", batch, connections, name)
		return Row{
			Target: target, What: what, Unit: "events/s", Ours: "store=" + store, Limit: limit, Peers: []string{peer},
			Goal: goal,
		}
	}
	redis := redisEngine()
	return Race{
		Name: fmt.Sprintf("Publish%dx%d", connections, batch),
		Contenders: []Contender{
			{limit, publishCounted(connections, batch), false},
			{"store=log", publishProduct("log:", connections, batch), false},
			{"store=sqlite", publishProduct("sqlite:", connections, batch), false},
			{"store=memory", publishProduct("memory:", connections, batch), false},
			redis.contender(peer, publishRedis(connections, batch)),
		},
		Rows: []Row{
			row("log", "embedded log", goal), row("sqlite", "SQLite", Bound{}), row("memory", "memory", Bound{}),
		},
	}
}

// publishBody is a body of so many events in lines of JSON.
func publishBody(batch int) []byte { return linesOf(newPayload(), batch) }

// linesOf is publishBody with data.
func linesOf(data []byte, batch int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, `{"data":"%s"}`+"\n", data), batch)
}

// publishLap has each connection publish for a while.
func publishLap(scale Scale, connections, batch int, publish func(connection int) error) lapFunc {
	lasts := time.Duration(scale.Of(1000, 100)) * time.Millisecond
	return func(context.Context) (Sample, error) {
		var requests atomic.Int64
		var all sync.WaitGroup
		failures := make([]error, connections)
		start := time.Now()
		for i := range connections {
			all.Go(func() {
				for time.Since(start) < lasts {
					if failures[i] = publish(i); failures[i] != nil {
						return
					}
					requests.Add(1)
				}
			})
		}
		all.Wait()
		took := time.Since(start).Seconds()
		return Sample{"events/s": float64(requests.Load()) * float64(batch) / took}, errors.Join(failures...)
	}
}

// publishTo publishes over HTTP. The Runner calls release when it is closed.
func publishTo(
	scale Scale, addr, token string, connections, batch int, release func() error,
) (Runner, error) {
	wires, requests := make([]*wire, connections), make([][]byte, connections)
	closeAll := func() error {
		for _, w := range wires {
			if w != nil {
				_ = w.Close()
			}
		}
		return release()
	}
	body := publishBody(batch)
	for i := range wires {
		var err error
		if wires[i], err = dialWire(addr); err != nil {
			return nil, errors.Join(err, closeAll())
		}
		requests[i] = newRequest("POST", streamPath(i)+"/events", token, "application/x-ndjson", body)
		if err := wires[i].do(newRequest("PUT", streamPath(i), token, "application/json", []byte("{}"))); err != nil {
			return nil, errors.Join(err, closeAll())
		}
	}
	publish := func(i int) error { return wires[i].do(requests[i]) }
	return closing{publishLap(scale, connections, batch, publish), closeAll}, nil
}

// streamPath is the path of the stream of a connection.
func streamPath(i int) string { return fmt.Sprintf("/v1/streams/bench%d", i) }

func publishProduct(store string, connections, batch int) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, err
		}
		return publishTo(scale, p.addr, p.token, connections, batch, p.Close)
	}
}

// publishCounted publishes to a server that counts lines and keeps nothing.
func publishCounted(connections, batch int) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		p, err := startProcess("count")
		if err != nil {
			return nil, err
		}
		return publishTo(scale, p.addr, "", connections, batch, p.Close)
	}
}

// publishRedis adds entries in pipelines of the size of the others' requests.
func publishRedis(connections, batch int) func(context.Context, Scale, string) (Runner, error) {
	return func(ctx context.Context, scale Scale, server string) (Runner, error) {
		clients := make([]rueidis.Client, 0, connections)
		closeAll := func() error {
			for _, c := range clients {
				c.Close()
			}
			return nil
		}
		for range connections {
			c, err := dialRedis(server)
			if err != nil {
				return nil, errors.Join(err, closeAll())
			}
			clients = append(clients, c)
		}
		payload := string(newPayload())
		return closing{publishLap(scale, connections, batch, func(i int) error {
			c := clients[i]
			commands := make(rueidis.Commands, batch)
			for k := range commands {
				commands[k] = c.B().Xadd().Key(streamPath(i)).Id("*").FieldValue().FieldValue("b", payload).Build()
			}
			for _, result := range c.DoMulti(ctx, commands...) {
				if err := result.Error(); err != nil {
					return err
				}
			}
			return nil
		}), closeAll}, nil
	}
}
