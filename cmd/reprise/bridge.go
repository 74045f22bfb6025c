package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"reprise/client"
)

const (
	// bridgePatience is for how long a lost connection is bridged in silence.
	bridgePatience = 2 * time.Second
	// firstPatience is for how long a server is waited for that has never answered. One
	// that has is waited for without end.
	firstPatience = 4 * time.Second
)

// bridge tells the user of a connection that stays lost. It is the transport of
// the client, so that it knows when the server answers again even while the
// command is silent.
type bridge struct {
	out    io.Writer
	giveUp context.CancelCauseFunc // ends the following

	mu    sync.Mutex
	met   bool        // the server has answered once
	timer *time.Timer // runs while the connection is lost and nothing was said
	said  bool
}

// bridging is what the user may say about it.
type bridging struct {
	Quiet bool `short:"q" help:"Say nothing about lost connections."`
}

// newBridge returns a bridge, and the context to follow with, which ends where there is nothing
// to bridge to.
func (q bridging) newBridge(ctx context.Context, out io.Writer) (*bridge, context.Context) {
	if q.Quiet {
		out = io.Discard
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	return &bridge{out: out, giveUp: giveUp}, ctx
}

// RoundTrip sends a request and takes note of an answer.
func (b *bridge) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && answer.StatusCode < 500 {
		b.connected()
	}
	return answer, err
}

// dropped is the OnDrop of following.
func (b *bridge) dropped(d client.Drop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.met && time.Since(d.Since)+d.Wait > firstPatience {
		b.giveUp(d.Err)
		return
	}
	if b.met && b.timer == nil && !b.said {
		b.timer = time.AfterFunc(bridgePatience-time.Since(d.Since), func() { b.say(d.Err) })
	}
}

func (b *bridge) say(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer == nil {
		return // the connection came back just now
	}
	b.timer, b.said = nil, true
	fmt.Fprintf(b.out, "reprise: connection lost (%v), trying again; nothing is missed\n", err)
}

func (b *bridge) connected() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.met = true
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	if b.said {
		b.said = false
		fmt.Fprintln(b.out, "reprise: connected again")
	}
}
