package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/redis/rueidis"
)

// ears are the connections on which a Store listens: a single one, or in a Redis Cluster one for each master with a
// watched channel.
type ears struct {
	watches *watches
	broken  chan struct{} // gets a value when a connection, or a channel on it, is lost
	owners  []slots       // of a Redis Cluster
	byAddr  map[string]*ear
	at      map[string]*ear // where each channel is subscribed

	mu      sync.Mutex
	leaving map[string]int // how many unsubscriptions of each channel are under way
}

// ear is one connection.
type ear struct {
	client  rueidis.DedicatedClient
	release func()
	deaf    <-chan struct{} // closed when the hooks will not be called any more
}

// slots are the slots from first to last, which belong to the master at addr.
type slots struct {
	first, last int64
	addr        string
}

func newEars(w *watches) *ears {
	return &ears{
		watches: w, broken: make(chan struct{}, 1), byAddr: map[string]*ear{}, at: map[string]*ear{},
		leaving: map[string]int{},
	}
}

// follow keeps the subscriptions up to date until a connection is lost or the Store is closed.
func (e *ears) follow() {
	w := e.watches
	for {
		if err := e.subscribe(w.take()); err != nil {
			if w.stopped.Err() == nil {
				w.store.opts.Logger.Debug("a connection for watching is lost", "error", err)
			}
			return
		}
		select {
		case <-w.changed:
		case <-e.broken:
			return
		case <-w.stopped.Done():
			return
		}
	}
}

func (e *ears) close() {
	for _, ear := range e.byAddr {
		ear.release()
		<-ear.deaf
	}
}

// breakOff makes follow end, so that new connections are made.
func (e *ears) breakOff() {
	select {
	case e.broken <- struct{}{}:
	default:
	}
}

// subscribe subscribes and unsubscribes the touched channels as needed.
func (e *ears) subscribe(touched map[string]bool) error {
	ctx, cancel := context.WithTimeout(e.watches.stopped, e.watches.store.opts.Timeout)
	defer cancel()
	come, gone := map[*ear][]string{}, map[*ear][]string{}
	for channel, wanted := range touched {
		is := e.at[channel]
		switch {
		case wanted && is == nil:
			ear, err := e.of(ctx, channel)
			if err != nil {
				return err
			}
			e.at[channel] = ear
			come[ear] = append(come[ear], channel)
		case !wanted && is != nil:
			delete(e.at, channel)
			gone[is] = append(gone[is], channel)
		}
	}
	for ear, channels := range come {
		if err := e.send(ctx, ear, "SSUBSCRIBE", channels); err != nil {
			return err
		}
	}
	for ear, channels := range gone {
		e.leave(channels)
		if err := e.send(ctx, ear, "SUNSUBSCRIBE", channels); err != nil {
			return err
		}
	}
	return nil
}

// leave counts the unsubscriptions of channels that are about to be sent.
func (e *ears) leave(channels []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, channel := range channels {
		e.leaving[channel]++
	}
}

// left is called when a channel was unsubscribed. If the Store did not ask for that, the slot has moved to another
// node.
func (e *ears) left(channel string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.leaving[channel] {
	case 0:
		e.breakOff()
	case 1:
		delete(e.leaving, channel)
	default:
		e.leaving[channel]--
	}
}

// subscribeAtOnce bounds the channels in one command and the commands in one pipeline.
const subscribeAtOnce = 256

// send sends a command for channels. In a Redis Cluster each channel needs a command of its own.
func (e *ears) send(ctx context.Context, ear *ear, command string, channels []string) error {
	build := func(channels ...string) rueidis.Completed {
		if command == "SSUBSCRIBE" {
			return ear.client.B().Ssubscribe().Channel(channels...).Build()
		}
		return ear.client.B().Sunsubscribe().Channel(channels...).Build()
	}
	for len(channels) > 0 {
		some := channels[:min(len(channels), subscribeAtOnce)]
		channels = channels[len(some):]
		var commands []rueidis.Completed
		if e.watches.store.cluster {
			for _, channel := range some {
				commands = append(commands, build(channel))
			}
		} else {
			commands = append(commands, build(some...))
		}
		for _, r := range ear.client.DoMulti(ctx, commands...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
	}
	return nil
}

// of returns the connection for a channel.
func (e *ears) of(ctx context.Context, channel string) (*ear, error) {
	store := e.watches.store
	if !store.cluster {
		return e.ear("", store.client), nil
	}
	if e.owners == nil {
		if err := e.askOwners(ctx); err != nil {
			return nil, err
		}
	}
	command := store.client.B().Ssubscribe().Channel(channel).Build()
	slot := int64(command.Slot())
	for _, owner := range e.owners {
		if owner.first <= slot && slot <= owner.last {
			node := store.client.Nodes()[owner.addr]
			if node == nil {
				return nil, fmt.Errorf("the driver does not know the node %s of the cluster", owner.addr)
			}
			return e.ear(owner.addr, node), nil
		}
	}
	return nil, fmt.Errorf("no node of the cluster has slot %d", slot)
}

// askOwners asks which master has which slots.
func (e *ears) askOwners(ctx context.Context) error {
	client := e.watches.store.client
	ranges, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return err
	}
	for i := range ranges {
		parts, err := ranges[i].ToArray()
		if err != nil {
			return err
		}
		if len(parts) < 3 {
			return fmt.Errorf("%d parts in a range of slots", len(parts))
		}
		first, ferr := parts[0].AsInt64()
		last, lerr := parts[1].AsInt64()
		master, merr := parts[2].ToArray()
		if ferr != nil || lerr != nil || merr != nil || len(master) < 2 {
			return errors.New("a range of slots cannot be read")
		}
		host, herr := master[0].ToString()
		port, perr := master[1].AsInt64()
		if herr != nil || perr != nil {
			return errors.New("a node of a range of slots cannot be read")
		}
		e.owners = append(e.owners, slots{first, last, net.JoinHostPort(host, strconv.FormatInt(port, 10))})
	}
	return nil
}

// ear returns the connection to a node, and makes it when it is first needed.
func (e *ears) ear(addr string, node rueidis.Client) *ear {
	if is := e.byAddr[addr]; is != nil {
		return is
	}
	w := e.watches
	client, release := node.Dedicate()
	// Notify the watchers when the subscription is confirmed: changes before that were missed.
	lost := client.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			if m.Message != w.store.me {
				w.tell(m.Channel)
			}
		},
		OnSubscription: func(m rueidis.PubSubSubscription) {
			switch m.Kind {
			case "ssubscribe":
				w.tell(m.Channel)
			case "sunsubscribe":
				e.left(m.Channel)
			}
		},
	})
	deaf := make(chan struct{})
	go func() {
		defer close(deaf)
		<-lost
		e.breakOff()
	}()
	made := &ear{client: client, release: release, deaf: deaf}
	e.byAddr[addr] = made
	return made
}
