package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"reprise/client"
	"reprise/cmd/reprise/internal/printable"
	"reprise/internal/cutproxy"
	"reprise/internal/node"
)

// demoCmd demonstrates resumption.
type demoCmd struct {
	Lines int           `default:"50" env:"-" placeholder:"N" help:"Lines that the job prints. Default: ${default}."`
	Pace  time.Duration `default:"100ms" env:"-" placeholder:"DURATION" help:"Time between two lines. Default: ${default}."`
	Every time.Duration `default:"1s" env:"-" placeholder:"DURATION" help:"Time between two cuts of the connection. Default: ${default}."`
}

// Help is shown below the usage.
func (*demoCmd) Help() string {
	return `The demo starts a server on a free port, a job that prints lines, a proxy that repeatedly cuts every connection, and a client that follows the job through the proxy. On a terminal, each connection is shown as a line with a mark for each event received on it; elsewhere each event, cut and resume is a line. The exit code is 0 if every line of the job arrived exactly once and in order. All files are in a temporary directory, which is removed at the end.`
}

// demo is a running demonstration.
type demo struct {
	demoCmd
	view demoView

	drops, resumes int
	seq            uint64 // of the last event
	output         bytes.Buffer
}

// Run runs the demonstration.
func (c *demoCmd) Run(ctx context.Context, asked *stops) (err error) {
	if c.Lines < 1 || c.Pace < 0 || c.Every <= 0 {
		return usage("demo: --lines and --every are more than nothing, and --pace is not negative")
	}
	ctx, release := asked.context(ctx)
	defer release()
	dir, err := os.MkdirTemp("", "reprise-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	address, stop, err := serveForDemo(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	network, err := cutproxy.Listen(address, nil)
	if err != nil {
		return err
	}
	defer network.Close()
	d := &demo{demoCmd: *c, view: newDemoView()}
	d.view.begin(address, network.Addr(), c.Every)
	return d.follow(ctx, network)
}

// serveForDemo starts a server and returns its address. stop ends it and everything that it runs.
func serveForDemo(ctx context.Context, dir string) (address string, stop func() error, err error) {
	args := []string{
		"serve", "--listen", "127.0.0.1:0", "--data", dir, "--secrets", dir, "--store", "memory:", "--auth", "none",
		"--log-level", "error",
	}
	command, err := parser(grammar(args), nil, &configFile{}).Parse(args)
	if err != nil {
		return "", nil, err
	}
	c := command.Selected().Target.Addr().Interface().(*serveCmd)
	o, err := c.settings(ctx, newLogger(c.LogFormat, c.LogLevel))
	if err != nil {
		return "", nil, err
	}
	o.Listening = nil
	s, err := node.Serve(ctx, o)
	if err != nil {
		return "", nil, err
	}
	please, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(please, context.Background(), true) }()
	return s.Address().String(), func() error {
		end()
		return errors.Join(<-served, s.Close())
	}, nil
}

// follow runs the job and follows it over the network, whose connections are cut repeatedly.
func (d *demo) follow(ctx context.Context, network *cutproxy.Proxy) error {
	opts := &client.Options{URL: "http://" + network.Addr(), Token: "-", MinWait: 20 * time.Millisecond}
	server, err := client.New(opts)
	if err != nil {
		return err
	}
	job := fmt.Sprintf("for i in $(seq %d); do echo line $i; sleep %v; done", d.Lines, d.Pace.Seconds())
	d.view.job(job)
	defer d.cut(network)()
	follow := &client.FollowOptions{OnDrop: d.dropped, OnConnected: d.connected, OnGap: client.GapFail}
	for event, err := range server.Run(ctx, client.StartRequest{Command: job}, follow) {
		if err != nil {
			return err
		}
		d.event(event)
	}
	return d.count()
}

// cut cuts all connections repeatedly until stop is called.
func (d *demo) cut(network *cutproxy.Proxy) (stop func()) {
	done := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		tick := time.NewTicker(d.Every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				network.Cut()
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		cutting.Wait()
	}
}

// dropped is called for a cut, connected for a connection that delivers something.
func (d *demo) dropped(drop client.Drop) {
	d.drops++
	d.view.cut(drop.Seq)
}

func (d *demo) connected() {
	if d.drops > 0 {
		d.resumes++
		d.view.resumed(d.seq)
	}
}

// event shows an event.
func (d *demo) event(e client.Event) {
	d.seq = e.Seq
	text := "the job has started"
	switch {
	case e.End != nil:
		text = "the job has ended: " + string(e.End.Outcome)
	case e.Started == nil:
		d.output.Write(e.Data)
		lines := strings.Split(strings.TrimSuffix(string(e.Data), "\n"), "\n")
		text = strings.Join(lines, ", ")
	}
	d.view.event(e.Seq, printable.Line(text))
}

// count compares the received events with the output of the job.
func (d *demo) count() error {
	var want strings.Builder
	for i := range d.Lines {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	right := d.output.String() == want.String()
	d.view.count(d, strings.Count(d.output.String(), "\n"), right)
	if !right {
		return &exit{code: exitFailed, err: errors.New("demo: the received events differ from the output of the job")}
	}
	return nil
}
