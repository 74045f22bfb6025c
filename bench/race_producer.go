package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"reprise/client"
)

// callers are the goroutines that publish through one Producer.
const callers = 64

// producerRace is Q2 through our producer: 64 goroutines share one, and each waits for the answer to its event before
// it publishes the next. As a peer the same goroutines take turns, so that each event is a request of its own.
func producerRace() Race {
	row := func(store, what string) Row {
		turns := "calls=in-turns/store=" + store
		return Row{
			Target: "Q2", What: fmt.Sprintf("publish one by one, %d callers of a producer, %s", callers, what),
			Unit: "events/s", Ours: "store=" + store, Peers: []string{turns}, Goal: Bound{Than: turns, Least: 5},
		}
	}
	return Race{
		Name: "PublishProducer",
		Contenders: []Contender{
			{"store=log", publishCalls("log:", false), false},
			{"store=sqlite", publishCalls("sqlite:", false), false},
			{"calls=in-turns/store=log", publishCalls("log:", true), false},
			{"calls=in-turns/store=sqlite", publishCalls("sqlite:", true), false},
		},
		Rows: []Row{row("log", "embedded log"), row("sqlite", "SQLite")},
	}
}

// publishCalls publishes through a Producer of the Go client.
func publishCalls(store string, inTurns bool) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, err
		}
		c, err := client.New(&client.Options{URL: "http://" + p.addr, Token: p.token})
		if err == nil {
			_, err = c.CreateStream(ctx, "bench", client.StreamConfig{})
		}
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		producer, event := c.Producer("bench"), client.NewEvent{Data: json.RawMessage(`"` + string(newPayload()) + `"`)}
		var turn sync.Mutex
		return closing{publishLap(scale, callers, 1, func(int) error {
			if inTurns {
				turn.Lock()
				defer turn.Unlock()
			}
			_, err := producer.Publish(ctx, event)
			return err
		}), p.Close}, nil
	}
}
