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
// of its own and waiting for each answer. The limit reads the bodies and counts their lines. Of the peers, Redis syncs
// as often, with as many entries in one pipeline, Durable Streams syncs each request, Mercure each event, and
// Centrifugo keeps its events in memory alone.
func publishRace(connections, batch int) Race {
	const limit, redis = "limit=counting", "peer=redis-xadd-synced"
	peers := []string{durableStreams, centrifugo, redis}
	target, goal := "Q1", Bound{Least: 400_000, Also: &Bound{Than: durableStreams, Least: 2}}
	switch {
	case batch == 1:
		target, goal = "Q2", Bound{Than: centrifugo, Least: 1.2}
		peers = append(peers, mercure)
	case connections > 1:
		goal = Bound{Least: 700_000, Also: &Bound{Than: durableStreams, Least: 3.5}}
	}
	row := func(store, name string, goal Bound) Row {
		what := fmt.Sprintf("publish %d a request, %d connections, %s", batch, connections, name)
		return Row{
			Target: target, What: what, Unit: "events/s", Ours: "store=" + store, Limit: limit, Peers: peers,
			Goal: goal,
		}
	}
	contenders := []Contender{
		{limit, publishCounted(connections, batch), false},
		{"store=log", publishProduct("log:", connections, batch), false},
		{"store=sqlite", publishProduct("sqlite:", connections, batch), false},
		{"store=memory", publishProduct("memory:", connections, batch), false},
		optional(redisEngine().contender(redis, publishRedis(connections, batch))),
		{durableStreams, publishDurableStreams(connections, batch), false},
		{centrifugo, publishCentrifugo(connections, batch), false},
	}
	if batch == 1 {
		contenders = append(contenders, Contender{mercure, publishMercure(connections), false})
	}
	return Race{
		Name:       fmt.Sprintf("Publish%dx%d", connections, batch),
		Contenders: contenders,
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

// publication is a server that is published to over HTTP, with the requests of each connection.
type publication struct {
	addr   string
	create func(connection int) []byte // nil where streams need not be created
	post   func(connection int) []byte
	// accepted checks an answer to a post whose status does not tell; nil where it does. The first answer on each
	// connection is checked, before the laps.
	accepted func(answer []byte) error
	release  func() error // called once
}

// publicationOf is the publication of the product, or of a server with its API.
func publicationOf(addr, token string, batch int, release func() error) publication {
	body := publishBody(batch)
	return publication{
		addr: addr,
		create: func(i int) []byte {
			return newRequest("PUT", streamPath(i), token, "application/json", []byte("{}"))
		},
		post: func(i int) []byte {
			return newRequest("POST", streamPath(i)+"/events", token, "application/x-ndjson", body)
		},
		release: release,
	}
}

// publishTo publishes over HTTP, batch events a request.
func publishTo(scale Scale, to publication, connections, batch int) (Runner, error) {
	wires, requests := make([]*wire, connections), make([][]byte, connections)
	closeAll := func() error {
		for _, w := range wires {
			if w != nil {
				_ = w.Close()
			}
		}
		return to.release()
	}
	for i := range wires {
		var err error
		if wires[i], err = dialWire(to.addr); err != nil {
			return nil, errors.Join(err, closeAll())
		}
		requests[i] = to.post(i)
		if err := to.begin(wires[i], i); err != nil {
			return nil, errors.Join(err, closeAll())
		}
	}
	publish := func(i int) error { return wires[i].do(requests[i]) }
	return closing{publishLap(scale, connections, batch, publish), closeAll}, nil
}

// begin readies the stream of a connection.
func (to publication) begin(w *wire, connection int) error {
	if to.create != nil {
		if err := w.do(to.create(connection)); err != nil {
			return err
		}
	}
	if to.accepted == nil {
		return nil
	}
	answer, err := w.ask(to.post(connection))
	if err != nil {
		return err
	}
	return to.accepted(answer)
}

// streamPath is the path of the stream of a connection.
func streamPath(i int) string { return fmt.Sprintf("/v1/streams/bench%d", i) }

func publishProduct(store string, connections, batch int) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, err
		}
		return publishTo(scale, publicationOf(p.addr, p.token, batch, p.Close), connections, batch)
	}
}

// publishCounted publishes to a server that counts lines and keeps nothing.
func publishCounted(connections, batch int) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		p, err := startProcess("count")
		if err != nil {
			return nil, err
		}
		return publishTo(scale, publicationOf(p.addr, "", batch, p.Close), connections, batch)
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
