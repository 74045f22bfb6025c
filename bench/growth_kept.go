package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"reprise"
	"reprise/internal/storeurl"
)

const (
	matching   = 100 // executions that a search finds: the oldest ones
	perTenant  = 10  // kept executions for each stream of a further tenant
	mostTenant = 10_000
)

// keptGrowth is G1 to G6: what a server costs that keeps so many ended executions, and a stream in a tenant of its own
// for each ten of them.
func keptGrowth(most int) Growth {
	return newGrowth("Kept", "kept executions", sizesTo(most), []Cost{
		{Target: "G1", What: "append to one stream, one writer", Unit: "us/append", Times: 1.3},
		{Target: "G2", What: "create, append, read, end and remove a stream", Unit: "ms/stream", Times: 1.5},
		{Target: "G3", What: "first page of 100 of the list", Unit: "first-ms", Most: 2},
		{Target: "G3", What: "page of 100 in the middle", Unit: "deep-ms", Most: 2},
		{Target: "G3", What: "the 100 oldest, by label and status", Unit: "search-ms", Most: 2},
		{Target: "G4", What: "start after a kill, to the first answer", Unit: "start-ms", Most: 2000},
		{Target: "G5", What: "sweep of 1 in 1,000", Unit: "sweep-ms"},
		{Target: "G6", What: "`/metrics`, 1 to 10,000 tenants", Unit: "metrics-ms", Most: 20},
		{Target: "", What: "memory after the start", Unit: "MiB"},
	}, startKept)
}

// kept is a server with kept things.
type kept struct {
	p    *product
	size int
	deep string // the cursor in the middle of the list
	// settles is how long a server that was started is left alone: it counts what its accounts use in the background.
	settles time.Duration
	n       int // numbers the streams that are made
}

func startKept(ctx context.Context, scale Scale, store string, size int) (Runner, error) {
	p, err := startProduct(ctx, store, "--max-streams", strconv.Itoa(2*size+10_000))
	if err != nil {
		return nil, err
	}
	k := &kept{p: p, size: size, settles: 3 * time.Second}
	if scale.Quick {
		k.settles = 0
	}
	err = p.whileStopped(ctx, store, func(log *reprise.Log) error {
		return atOnce(size, func(n int) error { return keepOne(ctx, log, n) })
	})
	if err == nil {
		err = k.begin()
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return closing{k.lap, p.Close}, nil
}

// whileStopped works on the store of a server in this process, which is faster than over HTTP. The server stands still.
func (p *product) whileStopped(ctx context.Context, store string, work func(*reprise.Log) error) error {
	if err := p.stop(); err != nil {
		return err
	}
	opened, err := storeurl.OpenIn(ctx, p.dir, store, &storeurl.Options{MaxStreams: math.MaxInt})
	if err != nil {
		return err
	}
	log, err := reprise.Open(ctx, opened, &reprise.Options{Keys: reprise.NewKeyset()})
	if err == nil {
		err = errors.Join(work(log), log.Close())
	}
	if err = errors.Join(err, opened.Close()); err != nil {
		return err
	}
	return p.start(ctx)
}

// atOnce calls work with each number below size, 64 at once.
func atOnce(size int, work func(n int) error) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	failures := make([]error, min(size, 64))
	for i := range failures {
		workers.Go(func() {
			for failures[i] == nil {
				n := int(next.Add(1)) - 1
				if n >= size {
					return
				}
				failures[i] = work(n)
			}
		})
	}
	workers.Wait()
	return errors.Join(failures...)
}

// keepOne makes the nth execution, and the stream of a further tenant that belongs to it.
func keepOne(ctx context.Context, log *reprise.Log, n int) error {
	config := reprise.StreamConfig{Meta: []byte(`{"argv":["true"]}`), Labels: map[string]string{"=build": "7"}}
	if n < matching {
		config.Labels["=wanted"] = "yes"
	}
	ended := []reprise.Event{
		{Type: "started", Data: []byte(`{}`), Format: reprise.FormatMembers},
		{Data: []byte(`{"exit_code":0}`), Format: reprise.FormatMembers},
	}
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprintf("execution:kept%07d", n)}
	_, _, err := log.CreateWith(ctx, reprise.CreateOptions{Events: ended, Outcome: "exited"}, key, config)
	if err != nil || n%perTenant != 0 {
		return err
	}
	key = reprise.StreamKey{
		Tenant: reprise.Tenant(fmt.Sprintf("tenant%d", n/perTenant%mostTenant)), Name: fmt.Sprintf("kept%07d", n),
	}
	_, _, err = log.CreateWith(ctx, reprise.CreateOptions{Events: ended[:1]}, key, reprise.StreamConfig{})
	return err
}

// begin makes the stream of the appends and finds the middle of the list.
func (k *kept) begin() error {
	w, err := dialWire(k.p.addr)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.do(k.request("PUT", streamPath(0), "{}")); err != nil {
		return err
	}
	for left := k.size / 2; left >= 1000; left -= 1000 {
		var page struct {
			Next string `json:"next_cursor"`
		}
		body, err := w.ask(k.request("GET", "/v1/executions?limit=1000&cursor="+url.QueryEscape(k.deep), ""))
		if err == nil {
			err = json.Unmarshal(body, &page)
		}
		if err != nil {
			return err
		}
		k.deep = page.Next
	}
	return nil
}

func (k *kept) request(method, path, body string) []byte {
	return newRequest(method, path, k.p.token, "application/json", []byte(body))
}

// lap measures everything once, on a server that was just started again.
func (k *kept) lap(ctx context.Context) (Sample, error) {
	s := Sample{}
	if err := k.restart(ctx, s); err != nil {
		return nil, err
	}
	time.Sleep(k.settles)
	w, err := dialWire(k.p.addr)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	for _, part := range []func(*wire, Sample) error{k.append, k.lives, k.lists, k.metrics, k.sweep} {
		if err := part(w, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// restart kills the server and starts it again.
func (k *kept) restart(ctx context.Context, s Sample) error {
	if err := k.p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_ = k.p.cmd.Wait() // it was killed
	start := time.Now()
	if err := k.p.start(context.WithoutCancel(ctx)); err != nil { // it outlives the lap
		return err
	}
	w, err := dialWire(k.p.addr)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.do(k.request("GET", streamPath(0), "")); err != nil {
		return err
	}
	s["start-ms"] = time.Since(start).Seconds() * 1000
	bytes, err := k.p.memory()
	s["MiB"] = float64(bytes) / (1 << 20)
	return err
}

// timed is the median time of several calls of work.
func timed(times int, unit time.Duration, work func() error) (float64, error) {
	var took []float64
	for range times {
		start := time.Now()
		if err := work(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(start))/float64(unit))
	}
	return median(took), nil
}

func (k *kept) append(w *wire, s Sample) (err error) {
	request := newRequest("POST", streamPath(0)+"/events", k.p.token, "application/x-ndjson", publishBody(1))
	s["us/append"], err = timed(200, time.Microsecond, func() error { return w.do(request) })
	return err
}

func (k *kept) lives(w *wire, s Sample) (err error) {
	s["ms/stream"], err = timed(30, time.Millisecond, func() error { return k.life(w, "") })
	return err
}

// life creates a stream, publishes, reads, ends, and removes it, unless it expires after maxAge.
func (k *kept) life(w *wire, maxAge string) error {
	k.n++
	path, config := fmt.Sprintf("/v1/streams/life%d", k.n), "{}"
	if maxAge != "" {
		config = `{"retention":{"max_age":"` + maxAge + `"}}`
	}
	requests := [][]byte{
		k.request("PUT", path, config), k.request("POST", path+"/events", `{"data":1}`),
		k.request("GET", path+"/events?limit=10", ""), k.request("POST", path+"/end", `{"outcome":"completed"}`),
	}
	if maxAge == "" {
		requests = append(requests, k.request("DELETE", path, ""))
	}
	for _, r := range requests {
		if err := w.do(r); err != nil {
			return err
		}
	}
	return nil
}

func (k *kept) lists(w *wire, s Sample) error {
	for unit, query := range map[string]string{
		"first-ms":  "",
		"deep-ms":   "&cursor=" + url.QueryEscape(k.deep),
		"search-ms": "&status=ended&label=wanted%3Dyes",
	} {
		request := k.request("GET", "/v1/executions?limit=100"+query, "")
		var err error
		if s[unit], err = timed(5, time.Millisecond, func() error { return w.do(request) }); err != nil {
			return err
		}
	}
	return nil
}

func (k *kept) metrics(w *wire, s Sample) (err error) {
	request := k.request("GET", "/metrics", "")
	s["metrics-ms"], err = timed(5, time.Millisecond, func() error { return w.do(request) })
	return err
}

// sweep sweeps when one in a thousand has expired.
func (k *kept) sweep(w *wire, s Sample) (err error) {
	for range max(1, k.size/1000) {
		if err := k.life(w, "1ms"); err != nil {
			return err
		}
	}
	time.Sleep(2 * time.Millisecond) // until the last one has expired
	request := k.request("POST", "/v1/store/sweep", "{}")
	s["sweep-ms"], err = timed(1, time.Millisecond, func() error { return w.do(request) })
	return err
}
