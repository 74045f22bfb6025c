package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"reprise/bench/limit"
)

// shortRace is C2: short commands, so many at a time, each from the request to its end event. The limit starts the same
// program and waits for it, as often at a time. The peer also syncs a record before each start and another one after
// each end, as whoever must not lose them has to.
func shortRace(parallel int) Race {
	const limit, synced = "limit=exec", "peer=exec-synced"
	row := func(store string, peers ...string) Row {
		return Row{
			Target: "C2", What: fmt.Sprintf("/bin/true by the server, %d at a time, %s", parallel, store),
			Unit: "commands/s", Ours: "store=" + store, Limit: limit, Peers: peers,
			Goal: Bound{Than: limit, Least: 0.5},
		}
	}
	return Race{
		Name: fmt.Sprintf("CommandsShort%d", parallel),
		Contenders: []Contender{
			{limit, func(_ context.Context, scale Scale) (Runner, error) {
				return shortLap(scale, parallel, runTrue), nil
			}, false},
			{synced, shortSynced(parallel), false},
			{"store=memory", shortProduct("memory:", parallel), false},
			{"store=log", shortProduct("log:", parallel), false},
			{"store=sqlite", shortProduct("sqlite:", parallel), false},
		},
		Rows: []Row{row("memory"), row("log", synced), row("sqlite", synced)},
	}
}

func runTrue(int) error { return exec.Command("/bin/true").Run() }

// shortSynced runs commands between two records of a preallocated file, each synced together with those that wait at
// the same time. They are as long as those of the server.
func shortSynced(parallel int) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		dir, remove, err := tempDir()
		if err != nil {
			return nil, err
		}
		log, err := limit.CreateFileLog(filepath.Join(dir, "runs"), 64<<20)
		if err != nil {
			return nil, errors.Join(err, remove())
		}
		begun, ended := make([]byte, 1100), make([]byte, 200)
		lap := shortLap(scale, parallel, func(which int) error {
			if err := log.Append(begun); err != nil {
				return err
			}
			return errors.Join(runTrue(which), log.Append(ended))
		})
		return closing{lap, func() error { return errors.Join(log.Close(), remove()) }}, nil
	}
}

// shortLap runs a command again and again, so many at a time, for a while.
func shortLap(scale Scale, parallel int, run func(which int) error) lapFunc {
	lasts := time.Duration(scale.Of(2000, 100)) * time.Millisecond
	return func(context.Context) (Sample, error) {
		var done atomic.Int64
		var all sync.WaitGroup
		failures := make([]error, parallel)
		start := time.Now()
		for i := range parallel {
			all.Go(func() {
				for time.Since(start) < lasts && failures[i] == nil {
					failures[i] = run(i)
					done.Add(1)
				}
			})
		}
		all.Wait()
		return Sample{"commands/s": float64(done.Load()) / time.Since(start).Seconds()}, errors.Join(failures...)
	}
}

func shortProduct(store string, parallel int) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, err
		}
		wires := make([]*wire, parallel)
		for i := range wires {
			if wires[i], err = dialWire(p.addr); err != nil {
				return nil, errors.Join(err, closeWires(wires), p.Close())
			}
		}
		asked := p.eventRequest("POST", "/v1/executions", `{"argv":["/bin/true"]}`)
		lap := shortLap(scale, parallel, func(which int) error { return wires[which].doEvents(asked) })
		return closing{lap, func() error { return errors.Join(closeWires(wires), p.Close()) }}, nil
	}
}

func closeWires(wires []*wire) error {
	var failures []error
	for _, w := range wires {
		if w != nil {
			failures = append(failures, w.Close())
		}
	}
	return errors.Join(failures...)
}

// firstByteRace is C3: from the request to the first byte of the output. The limit starts the program itself and reads
// its pipe. Both alternate within a lap, because what is bounded is the difference.
func firstByteRace() Race {
	const limit = "limit=exec"
	row := func(store string) Row {
		return Row{
			Target: "C3", What: "start to first byte by the server, beyond exec, " + store, Unit: "ms-more",
			Ours: "store=" + store, Goal: Bound{Most: 15},
		}
	}
	contender := func(store string) Contender {
		return Contender{"store=" + store, firstByteProduct(store + ":"), false}
	}
	return Race{
		Name:       "CommandsFirstByte",
		Contenders: []Contender{contender("memory"), contender("log"), contender("sqlite")},
		Rows:       []Row{row("memory"), row("log"), row("sqlite")},
	}
}

func firstByteProduct(store string) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, err
		}
		asked := p.eventRequest("POST", "/v1/executions", `{"argv":["/bin/echo","printed"]}`)
		n := scale.Of(200, 5)
		return closing{func(context.Context) (Sample, error) {
			w, err := dialWire(p.addr)
			if err != nil {
				return nil, err
			}
			defer w.Close()
			var ours, limit []float64
			for range n {
				took, err := execFirstByte()
				if err != nil {
					return nil, err
				}
				limit = append(limit, took.Seconds()*1000)
				if took, err = w.firstByte(asked); err != nil {
					return nil, err
				}
				ours = append(ours, took.Seconds()*1000)
			}
			slices.Sort(ours)
			slices.Sort(limit)
			return Sample{
				"ms": ours[n/2], "p90-ms": ours[n*9/10], "exec-ms": limit[n/2], "ms-more": ours[n/2] - limit[n/2],
			}, nil
		}, p.Close}, nil
	}
}

// execFirstByte starts a program and returns when its first byte has come.
func execFirstByte() (took time.Duration, err error) {
	cmd := exec.Command("/bin/echo", "printed")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(out, make([]byte, 1))
	took = time.Since(start)
	return took, errors.Join(err, cmd.Wait())
}

// firstByte starts a command and returns when its first output has come. It reads the response to its end.
func (w *wire) firstByte(request []byte) (took time.Duration, err error) {
	start := time.Now()
	if err := w.write(request); err != nil {
		return 0, err
	}
	for {
		line, err := w.line()
		if err != nil {
			return 0, err
		}
		if took == 0 && bytes.Contains(line, []byte("printed")) && bytes.HasPrefix(line, []byte("data:")) &&
			!bytes.Contains(line, []byte("argv")) {
			took = time.Since(start)
		}
		if bytes.Equal(line, []byte("0")) { // the chunk after the last
			break
		}
	}
	if _, err := w.line(); err != nil {
		return 0, err
	}
	if took == 0 {
		return 0, fmt.Errorf("%w: no output of the command", errLost)
	}
	return took, nil
}
