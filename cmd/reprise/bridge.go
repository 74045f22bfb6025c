package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"reprise/client"
	"reprise/cmd/reprise/internal/printable"
)

const (
	// bridgePatience is how long a lost connection is not reported.
	bridgePatience = 2 * time.Second
	// bridgeReminder is the shortest time between two lines about one lost connection.
	bridgeReminder = time.Minute
	// firstPatience is how long to wait for a server that has never answered. A server that has answered is waited for
	// without limit.
	firstPatience = 4 * time.Second
)

// bridge reports a connection that stays lost to the user.
type bridge struct {
	out    io.Writer
	url    string                  // of the server
	giveUp context.CancelCauseFunc // ends the following
	// describe returns the text about a lost connection; next is the time until the next try.
	describe func(lost *client.Drop, next time.Duration) string

	mu     sync.Mutex
	lost   *client.Drop // the newest failure, nil while the connection works
	lostAt time.Time    // time of that failure
	timer  *time.Timer  // reports the loss
	said   bool
}

// bridging is the user's setting.
type bridging struct {
	Quiet bool `short:"q" help:"Do not report lost connections."`
}

// newBridge returns a bridge to the server at url, and the context to follow with, which ends if no server answers at
// all.
func (q bridging) newBridge(ctx context.Context, url string, out io.Writer) (*bridge, context.Context) {
	if q.Quiet {
		out = io.Discard
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	b := &bridge{out: out, url: url, giveUp: giveUp}
	b.describe = func(d *client.Drop, next time.Duration) string { return lostText(url, d, next) }
	return b, ctx
}

// options adds the bridge to the options of following.
func (b *bridge) options(opts client.FollowOptions) *client.FollowOptions {
	opts.OnDrop, opts.OnConnected = b.dropped, b.connected
	return &opts
}

// dropped is the OnDrop of following.
func (b *bridge) dropped(d client.Drop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost, b.lostAt = &d, time.Now()
	switch {
	case !d.Met && time.Since(d.Since)+d.Wait > firstPatience:
		b.giveUp(fmt.Errorf("no connection to %s: %w", b.url, d.Err))
	case d.Met && b.timer == nil:
		b.timer = time.AfterFunc(bridgePatience-time.Since(d.Since), b.say)
	}
}

// say prints the state of the lost connection, and again every minute.
func (b *bridge) say() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost == nil {
		return // the connection came back just now
	}
	b.said = true
	b.timer = time.AfterFunc(bridgeReminder, b.say)
	said := b.describe(b.lost, time.Until(b.lostAt.Add(b.lost.Wait)))
	fmt.Fprintln(b.out, "reprise:", printable.Line(said))
}

func lostText(url string, d *client.Drop, next time.Duration) string {
	have, when := "no event received yet", "now"
	if d.Seq > 0 {
		have = fmt.Sprintf("last event %d", d.Seq)
	}
	if next > 0 {
		when = "in " + max(next.Round(100*time.Millisecond), 100*time.Millisecond).String()
	}
	return fmt.Sprintf("connection lost to %s since %s (%v); %s; trying again %s",
		url, d.Since.Format(time.TimeOnly), d.Err, have, when)
}

// connected is the OnConnected of following.
func (b *bridge) connected() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	if b.said {
		away := time.Since(b.lost.Since).Round(100 * time.Millisecond)
		fmt.Fprintf(b.out, "reprise: connected again to %s after %v\n", b.url, away)
	}
	b.lost, b.said = nil, false
}

// down reports whether the connection is lost now.
func (b *bridge) down() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost != nil
}
