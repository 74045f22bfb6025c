package bench

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	sse "github.com/tmaxmax/go-sse"

	"reprise"
	"reprise/bench/limit"
	"reprise/store/memstore"
)

// appendKept is how many events every contender keeps of what is appended.
const appendKept = 10_000

// appendRace is P1: one event after the other into memory, bounded.
func appendRace() Race {
	return Race{
		Name: "Append",
		Contenders: []Contender{
			{"limit=bytelog/size=200", appendByteLog, true},
			{"store=memory/size=200", appendReprise(0), true},
			{"store=memory/size=200/quiet=1000000", appendReprise(1_000_000), true},
			{"peer=mcp-go-sdk/size=200", appendMCP, true},
			{"peer=go-sse-finite/size=200", appendFinite, true},
			{"peer=go-sse-valid/size=200", appendValid, true},
		},
		Rows: []Row{
			{
				Target: "P1", What: "append in memory", Unit: "ns/event",
				Ours: "store=memory/size=200", Limit: "limit=bytelog/size=200",
				Peers: []string{"peer=mcp-go-sdk/size=200"},
				First: Bound{Than: "peer=mcp-go-sdk/size=200", Most: 1},
				Goal:  Bound{Than: "limit=bytelog/size=200", Most: 2, Also: &Bound{Unit: "allocs/event", Most: 0.05}},
			},
			{
				Target: "P1", What: "beside 1,000,000 quiet streams", Unit: "ns/event",
				Ours: "store=memory/size=200/quiet=1000000", Limit: "limit=bytelog/size=200",
				Peers: []string{"peer=mcp-go-sdk/size=200"},
				First: Bound{Than: "store=memory/size=200", Most: 2},
			},
		},
	}
}

// appendLap times n calls of appendOne.
func appendLap(scale Scale, appendOne func() error) lapFunc {
	n := scale.Of(500_000, 20_000)
	return func(context.Context) (Sample, error) {
		runtime.GC() // what the contender before has left is not this one's
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := cpuTime()
		for range n {
			if err := appendOne(); err != nil {
				return nil, err
			}
		}
		took := cpuTime() - start
		runtime.ReadMemStats(&after)
		return Sample{
			"ns/event":     float64(took.Nanoseconds()) / float64(n),
			"allocs/event": float64(after.Mallocs-before.Mallocs) / float64(n),
			"B/event":      float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
		}, nil
	}
}

func appendByteLog(_ context.Context, scale Scale) (Runner, error) {
	log := limit.NewByteLog(appendKept, eventSize)
	payload := newPayload()
	return appendLap(scale, func() error {
		log.Append(payload)
		return nil
	}), nil
}

// appendReprise appends to one stream beside quiet ones, each of which holds an event.
func appendReprise(quiet int) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		log, err := reprise.Open(ctx, memstore.New(nil), nil)
		if err != nil {
			return nil, err
		}
		for i := range quiet / scale.Of(1, 100) {
			key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "quiet/" + strconv.Itoa(i)}
			s, _, err := log.Create(ctx, key, reprise.StreamConfig{})
			if err != nil {
				return nil, err
			}
			if _, err := s.Append(ctx, reprise.Event{Data: []byte("x")}); err != nil {
				return nil, err
			}
		}
		s, _, err := log.Create(ctx, fanKey, reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: appendKept}})
		if err != nil {
			return nil, err
		}
		payload := newPayload()
		return closing{appendLap(scale, func() error {
			_, err := s.Append(ctx, reprise.Event{Data: payload})
			return err
		}), log.Close}, nil
	}
}

// appendMCP is the event store of the official MCP SDK for Go.
func appendMCP(ctx context.Context, scale Scale) (Runner, error) {
	store := mcp.NewMemoryEventStore(nil)
	store.SetMaxBytes(appendKept * eventSize)
	if err := store.Open(ctx, "session", "stream"); err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	payload := newPayload()
	return appendLap(scale, func() error { return store.Append(ctx, "session", "stream", payload) }), nil
}

func appendFinite(_ context.Context, scale Scale) (Runner, error) {
	r, err := sse.NewFiniteReplayer(appendKept, true)
	return appendGoSSE(r, scale), err
}

// appendValid keeps by time, not by number: with a millisecond, at most as many as the others.
func appendValid(_ context.Context, scale Scale) (Runner, error) {
	r, err := sse.NewValidReplayer(2*time.Millisecond, true)
	return appendGoSSE(r, scale), err
}

func appendGoSSE(r sse.Replayer, scale Scale) Runner {
	payload := string(newPayload())
	return appendLap(scale, func() error {
		m := &sse.Message{}
		m.AppendData(payload)
		_, err := r.Put(m, []string{sse.DefaultTopic})
		return err
	})
}
