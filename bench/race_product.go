package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// eventRequest asks the product for a stream of events.
func (p *product) eventRequest(method, path, body string) []byte {
	head := method + " " + path +
		" HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nAuthorization: Bearer " +
		p.token + "\r\n"
	if body != "" {
		head += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return []byte(head + "\r\n" + body)
}

// cpu is the time that the process of the server has used.
func (p *product) cpu() (time.Duration, error) { return cpuTimeOf(p.cmd.Process.Pid) }

// publish makes a stream with n events, which is ended if that is asked for.
func (p *product) publish(path string, n int, ended bool) error {
	w, err := dialWire(p.addr)
	if err != nil {
		return err
	}
	defer w.Close()
	const batch = 100
	retention := fmt.Sprintf(`{"retention":{"max_events":%d,"max_bytes":%d}}`, n+batch, 1<<30)
	requests := [][]byte{newRequest("PUT", path, p.token, "application/json", []byte(retention))}
	for range n / batch {
		requests = append(requests,
			newRequest("POST", path+"/events", p.token, "application/x-ndjson", publishBody(batch)))
	}
	if ended {
		outcome := []byte(`{"outcome":"completed"}`)
		requests = append(requests, newRequest("POST", path+"/end", p.token, "application/json", outcome))
	}
	for _, r := range requests {
		if err := w.do(r); err != nil {
			return err
		}
	}
	return nil
}

// memory is what the process of the server holds, in bytes.
func (p *product) memory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// productReplayRace is Q5: the whole history of a stream of the product over one connection.
func productReplayRace() Race {
	const ready, gosse = "limit=ready-bytes/size=200", "peer=go-sse/size=200"
	row := func(store, name string, goal Bound) Row {
		return Row{
			Target: "Q5", What: "replay of 100,000 by the server, " + name, Unit: "events/s", Ours: "store=" + store,
			Limit: ready, Peers: []string{durableStreams, gosse}, Goal: goal,
		}
	}
	goal := func(least float64) Bound {
		return Bound{Than: ready, Least: least, Also: &Bound{
			Unit: "first-ms", Most: 1, Also: &Bound{Than: durableStreams, Least: 2},
		}}
	}
	return Race{
		Name: "ProductReplay",
		Contenders: []Contender{
			{ready, replay("ready", "ended"), false},
			{"store=memory", productReplay("memory:"), false},
			{"store=log", productReplay("log:"), false},
			{"store=sqlite", productReplay("sqlite:"), false},
			{durableStreams, replayDurableStreams, false},
			{gosse, replay("gosse", "open"), false},
		},
		Rows: []Row{
			row("memory", "memory", goal(0.6)), row("log", "embedded log", goal(0.5)), row("sqlite", "SQLite", Bound{}),
		},
	}
}

func productReplay(store string) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		n := scale.Of(replayEvents, 5000)
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, err
		}
		if err := p.publish(streamPath(0), n, true); err != nil {
			return nil, errors.Join(err, p.Close())
		}
		asked := p.eventRequest("GET", streamPath(0)+"/events?after=earliest", "")
		return closing{replayOnce(p.addr, asked, n), p.Close}, nil
	}
}

// productIdleRace is Q8: the memory of the server per reader that waits.
func productIdleRace() Race {
	const raw, gosse, ours = fanLimitRaw, fanPeer, "store=memory"
	idle := func(name string) func(context.Context, Scale) (Runner, error) {
		return func(_ context.Context, scale Scale) (Runner, error) {
			n := scale.Of(9000, 200)
			return lapFunc(func(context.Context) (Sample, error) { return idleLap(name, n) }), nil
		}
	}
	return Race{
		Name: "ProductIdle",
		Contenders: []Contender{
			{raw, idle("fan-raw"), false},
			{ours, productIdle(), false},
			{"store=memory/park", productIdle("--park"), false},
			{gosse, idle("fan-gosse"), false},
		},
		Rows: []Row{{
			Target: "Q8", What: "memory per idle reader of the server, 9,000 readers", Unit: "KiB/reader", Ours: ours,
			Limit: raw, Peers: []string{gosse}, Goal: Bound{Most: 2},
		}},
	}
}

func productIdle(flags ...string) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		return lapFunc(func(ctx context.Context) (Sample, error) {
			return productIdleLap(ctx, scale.Of(9000, 200), flags)
		}), nil
	}
}

// idleFor is how long the readers of the server are idle. With --park it parks them after a second, and returns the
// memory to the system a second later.
const idleFor = 5 * time.Second

func productIdleLap(ctx context.Context, n int, flags []string) (sample Sample, err error) {
	p, err := startProduct(ctx, "memory:", flags...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.publish(streamPath(0), 100, false); err != nil {
		return nil, err
	}
	before, err := p.memory()
	if err != nil {
		return nil, err
	}
	s, err := newSwarm(p.addr, p.eventRequest("GET", streamPath(0)+"/events?after=tail", ""), n)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	time.Sleep(idleFor)
	after, err := p.memory()
	return Sample{"KiB/reader": float64(after-before) / 1024 / float64(n)}, err
}

// productTrueRace is Q10: /bin/true from the request that starts it to the event that tells its end.
func productTrueRace() Race {
	const limit = "limit=exec"
	row := func(store, name string, goal Bound) Row {
		return Row{
			Target: "Q10", What: "POST to end of /bin/true, " + name, Unit: "ms", Ours: "store=" + store, Limit: limit,
			Goal: goal,
		}
	}
	goal := Bound{Than: limit, Most: 2}
	return Race{
		Name: "ProductTrue",
		Contenders: []Contender{
			{limit, func(_ context.Context, scale Scale) (Runner, error) {
				return commandLap(scale, nil, "/bin/true"), nil
			}, false},
			{"store=memory", productTrue("memory:"), false},
			{"store=log", productTrue("log:"), false},
			{"store=sqlite", productTrue("sqlite:"), false},
		},
		Rows: []Row{row("memory", "memory", goal), row("log", "embedded log", goal), row("sqlite", "SQLite", Bound{})},
	}
}

func productTrue(store string) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, err
		}
		n := scale.Of(50, 3)
		asked := p.eventRequest("POST", "/v1/executions", `{"argv":["/bin/true"]}`)
		return closing{func(context.Context) (Sample, error) {
			w, err := dialWire(p.addr)
			if err != nil {
				return nil, err
			}
			defer w.Close()
			start := time.Now()
			for range n {
				if err := w.doEvents(asked); err != nil {
					return nil, err
				}
			}
			return Sample{"ms": time.Since(start).Seconds() * 1000 / float64(n)}, nil
		}, p.Close}, nil
	}
}

// doEvents sends a request and reads events to the end of the response, which must tell the end of a stream.
func (w *wire) doEvents(request []byte) error {
	if _, err := w.conn.Write(request); err != nil {
		return err
	}
	ended := false
	for {
		line, err := w.line()
		if err != nil {
			return err
		}
		ended = ended || bytes.Equal(line, []byte("event: end"))
		if bytes.Equal(line, []byte("0")) { // the chunk after the last
			break
		}
	}
	if _, err := w.line(); err != nil {
		return err
	}
	if !ended {
		return fmt.Errorf("%w: no end of the command", errLost)
	}
	return nil
}

// productOutputRace is Q11: what a command prints, from the start of the command until a follower has all of it.
func productOutputRace() Race {
	const limit = "limit=cat-to-file-synced"
	row := func(store, name string, goal Bound) Row {
		return Row{
			Target: "Q11", What: "reprise run -- cat of 200 MB, " + name, Unit: "s/run", Ours: "store=" + store,
			Limit: limit, Goal: goal,
		}
	}
	return Race{
		Name: "ProductOutput",
		Contenders: []Contender{
			{limit, outputCat(" && sync %s.copy"), false},
			{"store=memory", productOutput("memory:"), false},
			{"store=log", productOutput("log:"), false},
			{"store=sqlite", productOutput("sqlite:"), false},
		},
		Rows: []Row{
			row("log", "embedded log", Bound{Than: limit, Most: 1.5}), row("sqlite", "SQLite", Bound{}),
			row("memory", "memory", Bound{}),
		},
	}
}

func productOutput(store string) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		path, text, remove, err := outputSource(scale)
		if err != nil {
			return nil, err
		}
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, errors.Join(err, remove())
		}
		return closing{func(ctx context.Context) (Sample, error) {
			counted := &comparing{left: text}
			cmd := exec.CommandContext(ctx, p.binary, "run", "--", "cat", path)
			cmd.Env, cmd.Stdout, cmd.Stderr = p.environ(), counted, os.Stderr
			start := time.Now()
			err := cmd.Run()
			took := time.Since(start)
			if err == nil && len(counted.left) > 0 {
				err = fmt.Errorf("%w: the last %d bytes that were printed", errLost, len(counted.left))
			}
			return Sample{"s/run": took.Seconds()}, err
		}, func() error { return errors.Join(p.Close(), remove()) }}, nil
	}
}

// comparing is a Writer that takes a text and nothing else.
type comparing struct{ left []byte }

func (c *comparing) Write(b []byte) (int, error) {
	if !bytes.HasPrefix(c.left, b) {
		return 0, fmt.Errorf("%w: what comes is not what was printed", errLost)
	}
	c.left = c.left[len(b):]
	return len(b), nil
}
