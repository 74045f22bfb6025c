package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const replayEvents = 100_000

// replayRace is P3: a whole history over one connection.
func replayRace() Race {
	const ready, bare, gosse = "limit=ready-bytes/size=200", "limit=ready-bytes-bare/size=200", "peer=go-sse/size=200"
	ours := func(store string) Row {
		return Row{
			Target: "P3", What: "replay of 100,000 over HTTP, " + store, Unit: "events/s",
			Ours: "store=" + store + "/size=200", Limit: ready, Peers: []string{gosse},
			First: Bound{Than: ready, Least: 0.5, Also: &Bound{Unit: "first-ms", Most: 2}},
			Goal: Bound{Than: ready, Least: 0.65, Also: &Bound{
				Than: gosse, Least: 5, Also: &Bound{Unit: "first-ms", Most: 1},
			}},
		}
	}
	return Race{
		Name: "Replay",
		Contenders: []Contender{
			{ready, replay("ready", "ended"), false},
			{bare, replay("bare", "ended"), false},
			{"store=memory/size=200", replay("history", "ended"), false},
			{"store=sqlite/size=200", replay("history", "ended", onDisk), false},
			{gosse, replay("gosse", "open"), false},
			{"limit=flush-per-event/size=200", replay("flush", "ended"), false},
		},
		Rows: []Row{ours("memory"), ours("sqlite")},
	}
}

// onDisk stands for the folder of a store among the arguments of a server.
const onDisk = "on disk"

// startServer starts a server with a folder of its own in place of onDisk.
func startServer(name string, args ...string) (p *process, stop func() error, err error) {
	remove := func() error { return nil }
	for i, arg := range args {
		if arg == onDisk {
			if args[i], remove, err = tempDir(); err != nil {
				return nil, nil, err
			}
		}
	}
	p, err = startProcess(name, args...)
	if err != nil {
		_ = remove()
		return nil, nil, err
	}
	return p, func() error {
		err := p.Close()
		_ = remove()
		return err
	}, nil
}

// replay reads the whole history of a server over one connection.
func replay(name string, args ...string) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		n := scale.Of(replayEvents, 5000)
		p, stop, err := startServer(name, append([]string{strconv.Itoa(n)}, args...)...)
		if err != nil {
			return nil, err
		}
		after := "earliest"
		if name == "gosse" { // which replays nothing where no id is shown
			if after, err = p.ask("cursor 1"); err != nil {
				return nil, err
			}
			n--
		}
		return closing{replayOnce(p.addr, request(after), n), stop}, nil
	}
}

// replayOnce reads n events over a new connection in each lap.
func replayOnce(addr string, request []byte, n int) lapFunc {
	buf := make([]byte, 256<<10)
	return func(context.Context) (Sample, error) {
		start := time.Now()
		first, err := readEvents(addr, request, n, buf)
		took := time.Since(start)
		return Sample{"events/s": float64(n) / took.Seconds(), "first-ms": first.Seconds() * 1000}, err
	}
}

// readEvents opens a connection, sends a request, reads n events and closes
// it. It returns how long the first event took.
func readEvents(addr string, request []byte, n int, buf []byte) (first time.Duration, err error) {
	start := time.Now()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		return 0, err
	}
	for n > 0 {
		k, err := conn.Read(buf)
		if err != nil && (err != io.EOF || k == 0) {
			return 0, fmt.Errorf("%d events before the end: %w", n, err)
		}
		got := bytes.Count(buf[:k], []byte{mark})
		if got > 0 && first == 0 {
			first = time.Since(start)
		}
		n -= got
	}
	if n < 0 {
		return 0, fmt.Errorf("%d events too many", -n)
	}
	return first, nil
}

// resumeRace is P4: readers that come back, 32 at once, for the last ten events.
func resumeRace() Race {
	const ready, gosse = "limit=ready-bytes/events=10", "peer=go-sse/events=100000"
	const short, long = "store=memory/events=100", "store=memory/events=1000000"
	row := func(what, ours string) Row {
		return Row{
			Target: "P4", What: "resume storm, " + what, Unit: "resumes/s", Ours: ours, Limit: ready,
			Peers: []string{gosse},
			First: Bound{Than: ready, Least: 0.8}, Goal: Bound{Than: ready, Least: 0.9},
		}
	}
	return Race{
		Name: "Resume",
		Contenders: []Contender{
			{ready, resume("ready", 10), false},
			{short, resume("history", 100), false},
			{long, resume("history", 1_000_000), false},
			{gosse, resume("gosse", 100_000), false},
		},
		Rows: []Row{row("10 of 100", short), row("10 of 1,000,000", long)},
	}
}

const (
	resumeAtOnce = 32
	resumeEvents = 10
)

func resume(name string, events int) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		events := events
		if scale.Quick {
			events = min(events, 1000)
		}
		n := scale.Of(10_000, 320)
		p, stop, err := startServer(name, strconv.Itoa(events), "open")
		if err != nil {
			return nil, err
		}
		after, err := p.ask("cursor " + strconv.Itoa(events-resumeEvents))
		if err != nil {
			return nil, err
		}
		return closing{func(context.Context) (Sample, error) { return resumeLap(p, p.addr, request(after), n) }, stop},
			nil
	}
}

// resumeLap resumes n times. server tells what CPU time it has used.
func resumeLap(server interface{ cpu() (time.Duration, error) }, addr string, request []byte, n int) (Sample, error) {
	before, err := server.cpu()
	if err != nil {
		return nil, err
	}
	var left atomic.Int64
	var failed atomic.Pointer[error]
	left.Store(int64(n))
	start := time.Now()
	var readers sync.WaitGroup
	for range resumeAtOnce {
		readers.Go(func() {
			buf := make([]byte, 16<<10)
			for left.Add(-1) >= 0 {
				if _, err := readEvents(addr, request, resumeEvents, buf); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	readers.Wait()
	took := time.Since(start)
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	cpu, err := server.cpu()
	return Sample{
		"resumes/s":     float64(n) / took.Seconds(),
		"cpu-us/resume": float64((cpu - before).Microseconds()) / float64(n),
	}, err
}
