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
	Cut    []string `env:"-" sep:"none" placeholder:"KIND@AT*TIMES" help:"Fault to inject; see above. May be repeated. Default: no faults."`
	On     string   `env:"-" placeholder:"TEXT" help:"With times in --cut: count from the moment when the client sends this text, and cut no other connections."`
	Seed   uint64   `env:"-" placeholder:"N" help:"Seed that repeats the same random choices. Default: a random seed, which is printed."`

	Target string `arg:"" help:"The server: HOST:PORT or its URL."`
}

// Help is shown below the usage.
func (*proxyCmd) Help() string {
	return `The proxy forwards connections to a server and injects the faults of a bad network, so that a client can be tested. Each connection gets the next fault of --cut. A fault is injected once, or as often as *TIMES says ("*" alone: on all further connections). After the last fault, connections are forwarded unchanged. Each fault is printed as a line.

  fin           closes the connection, as a server does
  rst           resets the connection
  stall         keeps the connection open and forwards nothing more
  half          closes only the direction to the client
  slow=5ms      forwards one byte each 5 ms
  refuse        resets the connection immediately
  502, 503=7    responds with this status; the number after = is the Retry-After header
  redirect=URL  responds with a redirect
  page          responds with an HTML page and status 200
  wrong         responds with bytes that are not HTTP
  foreign       inserts events of another source, without an id, into the stream

The place of a fault follows the name: @600 is after 600 bytes of the response, @600-12000 after a random number of bytes in that range, @0+7*100 after 0, 7, 14, ... bytes on successive connections, and @2s after a time (only fin and rst).

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
