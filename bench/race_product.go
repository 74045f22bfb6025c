package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
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
func (p *product) memory() (int64, error) { return memoryOf(p.cmd.Process.Pid) }

// memoryOf is what a process holds, in bytes.
func memoryOf(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
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
	if err := w.write(request); err != nil {
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
