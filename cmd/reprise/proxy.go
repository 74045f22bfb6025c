package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"time"

	"reprise/internal/cutproxy"
)

// proxyCmd is a bad network, for tests of clients.
type proxyCmd struct {
	Listen string   `env:"-" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address to listen on; port 0 takes a free one. Default: ${default}."`
	Cut    []string `env:"-" sep:"none" placeholder:"KIND@AT*TIMES" help:"Fault to inject; see below. May be repeated. Default: no faults."`
	On     string   `env:"-" placeholder:"TEXT" help:"With times in --cut: count from the moment when the client sends this text, and cut no other connections."`
	Seed   uint64   `env:"-" placeholder:"N" help:"Seed that repeats the same random choices. Default: a random seed, which is printed."`

	Target string `arg:"" help:"The server: HOST:PORT or its URL."`
}

// Help is shown below the usage.
func (*proxyCmd) Help() string {
	return `Passes connections on to a server and does to them what a bad network does, to see what a client makes of it. Each --cut takes its turn, once or as often as *TIMES says ("*" alone: without end); then connections are passed on. A line is printed for each fault.

fin, rst, stall, half: end the connection as a server does, reset it, pass nothing on any more, or end the answer alone. @600 is after so many bytes of the answer, @600-12000 after a random number of them, @0+7*100 after 0, 7, 14, ... bytes, @2s after a time (fin and rst). slow=5ms@600: from there on a byte each 5 ms. refuse: reset at once. 502, 503=7: answer with this status, and the header Retry-After. redirect=URL, page, wrong: answer with a redirect, with a page of HTML and status 200, or as a server that speaks no HTTP. foreign: put events of others, without an id, among those of the server.

For example: reprise proxy 127.0.0.1:7070 --cut 'rst@600-12000*20' --cut 503=2 --cut stall@100`
}

// Run passes connections on until it is asked to stop.
func (c *proxyCmd) Run(ctx context.Context, asked *stops) error {
	target := c.Target
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		target = u.Host
	}
	if _, _, err := net.SplitHostPort(target); err != nil {
		return usage("%q is neither HOST:PORT nor a URL with a port", c.Target)
	}
	seed := c.Seed
	if seed == 0 {
		seed = rand.Uint64N(1 << 32)
	}
	plan, err := cutproxy.ParsePlan(c.Cut, rand.New(rand.NewPCG(seed, seed)))
	if err != nil {
		return usage("--cut %w", err)
	}
	ctx, release := asked.context(ctx)
	defer release()
	p, err := cutproxy.Listen(target, &cutproxy.Options{
		Listen: c.Listen, Plan: plan, On: c.On,
		Report: func(n int, f cutproxy.Fault) { fmt.Fprintln(stdout, describeFault(n, f)) },
	})
	if err != nil {
		return err
	}
	defer p.Close()
	fmt.Fprintf(stdout, "listening on http://%s\n", p.Addr())
	if len(c.Cut) > 0 {
		fmt.Fprintf(stdout, "seed %d\n", seed)
	}
	<-ctx.Done()
	return nil
}

// describeFault is the line for fault number n.
func describeFault(n int, f cutproxy.Fault) string {
	switch f.Kind {
	case cutproxy.FIN, cutproxy.RST, cutproxy.Stall, cutproxy.Half, cutproxy.Slow:
		if f.Delay > 0 {
			return fmt.Sprintf("cut %d: %s after %v", n, f.Kind, f.Delay.Round(time.Millisecond))
		}
		return fmt.Sprintf("cut %d: %s after %d bytes", n, f.Kind, f.After)
	case cutproxy.Status:
		return fmt.Sprintf("cut %d: status %d", n, f.Code)
	}
	return fmt.Sprintf("cut %d: %s", n, f.Kind)
}
