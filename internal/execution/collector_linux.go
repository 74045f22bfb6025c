package execution

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync/atomic"
	"time"

	"reprise/internal/artifact"
	"reprise/internal/execution/supervisor"
	"reprise/internal/isolation"
	"reprise/internal/spawn"
)

// collectorName is the first argument of a collector: a process with the user and the isolation of a command that has
// ended, which reads the command's artifacts. So it finds what the command would find, and nothing that the command has
// left behind holds up the server.
const collectorName = "reprise-collector"

// collectorPatience limits how long a collector may be silent. It ends its search for files by itself before.
var collectorPatience = artifact.Patience + 2*time.Second // longer in a test

// canCollect is set if this program makes itself a collector when it is started as one.
var canCollect atomic.Bool

var errCannotCollect = errors.New("this program does not call Supervise")

// gather is Collect of r.artifacts in a collector, which ends with ctx.
func (r *Run) gather(ctx context.Context, keep func(chunk []byte) error) ([]artifact.File, []string, error) {
	dir, err := r.artifacts.Now()
	if none, ok := errors.AsType[*artifact.NoDirectoryError](err); ok {
		return nil, []string{none.Reason}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	plan, err := r.isolation.Again(r.host.opts.Isolation.Masks, dir)
	if err != nil {
		return nil, nil, err
	}
	process, conn, err := startCollector(r.host.system.Spawner, plan, dir)
	if missing, ok := errors.AsType[*fs.PathError](err); ok && missing.Op == "chdir" {
		return nil, []string{fmt.Sprintf("the working directory cannot be entered: %v", missing.Err)}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	end := func() {
		_ = process.Kill()
		_ = conn.Close()
	}
	defer func() {
		end()
		go func() { _, _ = process.Wait() }() // it may sleep in the kernel
	}()
	defer context.AfterFunc(ctx, end)()
	c := supervisor.NewConn(conn)
	if err := c.Send(r.artifacts); err != nil {
		return nil, nil, err
	}
	return r.artifacts.Receive(func(report any) error {
		_ = conn.SetReadDeadline(time.Now().Add(collectorPatience))
		return c.Receive(report)
	}, keep)
}

// startCollector starts a collector in a directory.
func startCollector(s *spawn.Spawner, plan *isolation.Plan, dir string) (*os.Process, net.Conn, error) {
	if !canCollect.Load() {
		return nil, nil, errCannotCollect
	}
	return supervisor.StartSelf(s, plan.StartSelf, "", collectorName, os.ProcAttr{
		Dir: dir, Env: []string{"GOMEMLIMIT=64MiB"}, Sys: spawn.Session(),
	})
}

// collectAll makes this process a collector.
func collectAll() error {
	if err := isolation.Undumpable(); err != nil {
		return err
	}
	raw, err := net.FileConn(os.Stdin)
	if err != nil {
		return err
	}
	conn := supervisor.NewConn(raw)
	var c artifact.Collection
	if err := conn.Receive(&c); err != nil {
		return err
	}
	return c.Serve(context.Background(), conn.Send)
}

// Supervise makes this process a supervisor or a collector of artifacts if a Host has started it as one, and does not
// return then. Every program whose Hosts have an Options.RunsDir, or keep artifacts, calls it first in main.
func Supervise() {
	canCollect.Store(true)
	if len(os.Args) != 1 {
		return
	}
	serve := map[string]func() error{supervisor.Name: supervisor.Serve, collectorName: collectAll}[os.Args[0]]
	if serve == nil {
		return
	}
	if err := serve(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
