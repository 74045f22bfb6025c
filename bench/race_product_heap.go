package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// shape is how the kept events of a heap race are spread.
type shape struct {
	streams, batch, rounds int
}

func (s shape) String() string { return fmt.Sprintf("streams=%d/batch=%d", s.streams, s.batch) }
func (s shape) events() int    { return s.streams * s.batch * s.rounds }

// The shapes of Q9: many streams with single appends, and one stream.
func heapShapes(scale Scale) (many, one shape) {
	return shape{scale.Of(1000, 50), 1, 100}, shape{1, 100, scale.Of(2000, 100)}
}

// productHeapRace is Q9: what a kept event takes in the heap of the server, whatever the shape. The limit and the
// library run in processes of their own, whose heap is measured from inside.
func productHeapRace() Race {
	const least = "limit=bytelog/size=200"
	const many, one = "streams=1000/batch=1", "streams=1/batch=100"
	row := func(ours, what string) Row {
		return Row{
			Target: "Q9", What: "heap per kept event, " + what, Unit: "B/event", Ours: ours, Limit: least,
			Goal: Bound{Most: 240},
		}
	}
	isMany := func(scale Scale) shape { s, _ := heapShapes(scale); return s }
	isOne := func(scale Scale) shape { _, s := heapShapes(scale); return s }
	return Race{
		Name: "ProductHeap",
		Contenders: []Contender{
			{least, heapByteLog, true},
			{"library/store=memory/" + many, heapSpread, true},
			{"store=memory/" + many, productHeap("memory:", isMany), false},
			{"store=memory/" + one, productHeap("memory:", isOne), false},
			{"store=log/" + many, productHeap("log:", isMany), false},
		},
		Rows: []Row{
			row("library/store=memory/"+many, "1,000 streams with single appends, library, memory"),
			row("store=memory/"+many, "1,000 streams with single appends, server, memory"),
			row("store=memory/"+one, "one stream, server, memory"),
			row("store=log/"+many, "1,000 streams with single appends, server, embedded log"),
		},
	}
}

// heapSpread keeps single appends to many streams of the library.
func heapSpread(_ context.Context, scale Scale) (Runner, error) {
	many, _ := heapShapes(scale)
	return lapFunc(func(ctx context.Context) (Sample, error) {
		before := heap()
		log, err := reprise.Open(ctx, memstore.New(nil), nil)
		if err != nil {
			return nil, err
		}
		defer log.Close()
		if err := appendSpread(ctx, log, many); err != nil {
			return nil, err
		}
		return Sample{"B/event": (heap() - before) / float64(many.events())}, nil
	}), nil
}

func appendSpread(ctx context.Context, log *reprise.Log, s shape) error {
	streams := make([]*reprise.Stream, s.streams)
	for i := range streams {
		var err error
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: strconv.Itoa(i)}
		if streams[i], _, err = log.Create(ctx, key, reprise.StreamConfig{Retention: keepAll}); err != nil {
			return err
		}
	}
	payload := newPayload()
	for range s.rounds {
		for _, stream := range streams {
			if _, err := stream.Append(ctx, reprise.Event{Data: payload}); err != nil {
				return err
			}
		}
	}
	return nil
}

// productHeap publishes to a new server, and measures by how much that makes its heap and its memory grow.
func productHeap(store string, of func(Scale) shape) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		return once(func(ctx context.Context) (sample Sample, err error) {
			p, err := startProduct(ctx, store)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, p.Close()) }()
			return p.heapLap(ctx, of(scale))
		}), nil
	}
}

func (p *product) heapLap(ctx context.Context, s shape) (Sample, error) {
	heapBefore, err := p.liveHeap(ctx)
	if err != nil {
		return nil, err
	}
	before, err := p.memory()
	if err != nil {
		return nil, err
	}
	if err := p.publishSpread(s); err != nil {
		return nil, err
	}
	heapAfter, err := p.liveHeap(ctx)
	if err != nil {
		return nil, err
	}
	after, err := p.memory()
	n := float64(s.events())
	return Sample{"B/event": (heapAfter - heapBefore) / n, "rss-B/event": float64(after-before) / n}, err
}

// publishSpread publishes over 32 connections at once, each to streams of its own.
func (p *product) publishSpread(s shape) error {
	connections := min(s.streams, 32)
	failures := make([]error, connections)
	var all sync.WaitGroup
	for c := range connections {
		all.Go(func() { failures[c] = p.publishTurns(s, c, connections) })
	}
	all.Wait()
	return errors.Join(failures...)
}

// publishTurns publishes to the streams of one connection in turn: each connections-th from the first.
func (p *product) publishTurns(s shape, first, connections int) error {
	w, err := dialWire(p.addr)
	if err != nil {
		return err
	}
	defer w.Close()
	retention := fmt.Appendf(nil, `{"retention":{"max_events":%d,"max_bytes":%d}}`, s.events(), 1<<40)
	var requests [][]byte
	for i := first; i < s.streams; i += connections {
		if err := w.do(newRequest("PUT", streamPath(i), p.token, "application/json", retention)); err != nil {
			return err
		}
		requests = append(requests,
			newRequest("POST", streamPath(i)+"/events", p.token, "application/x-ndjson", publishBody(s.batch)))
	}
	for range s.rounds {
		for _, r := range requests {
			if err := w.do(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// liveHeap is the size of the objects in the heap of the server just after a collection, from its metrics. The server
// cannot be told to collect, so it is asked for its metrics, which makes garbage, until it has done so three times.
func (p *product) liveHeap(ctx context.Context) (float64, error) {
	const cycles, size = "go_gc_cycles_total_gc_cycles_total", "go_memstats_heap_alloc_bytes"
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errHangs)
	defer cancel()
	var least, first float64
	for {
		values, err := p.metrics(ctx, cycles, size)
		if err != nil {
			return 0, err
		}
		if least == 0 {
			least, first = values[size], values[cycles]
		}
		least = min(least, values[size])
		if values[cycles] >= first+3 {
			return least, nil
		}
	}
}

// metrics reads values of metrics that have no labels.
func (p *product) metrics(ctx context.Context, names ...string) (map[string]float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	values := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(response.Body, 1<<20))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		for _, wanted := range names {
			if name != wanted {
				continue
			}
			if values[name], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, err
			}
		}
	}
	if len(values) != len(names) {
		return nil, fmt.Errorf("%w: metrics %q, %s", errLost, names, response.Status)
	}
	return values, lines.Err()
}
