package mcpstore_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcpstore"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

// contenders are the event stores that are measured beside each other. All hold as much as is put in.
var contenders = []struct {
	name string
	open func(*testing.B) mcp.EventStore
}{
	{"store=sdk-memory", func(*testing.B) mcp.EventStore {
		s := mcp.NewMemoryEventStore(nil)
		s.SetMaxBytes(1 << 30)
		return s
	}},
	{"store=memory", func(b *testing.B) mcp.EventStore { return benchStore(b, memstore.New(nil)) }},
	{"store=sqlite", func(b *testing.B) mcp.EventStore {
		store, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "events.db"), nil)
		check(b, err)
		return benchStore(b, store)
	}},
}

func benchStore(b *testing.B, store reprise.Store) mcp.EventStore {
	log := openLog(b, closed(b, store),
		&reprise.Options{SweepEvery: -1, Retention: reprise.Retention{MaxEvents: 1 << 40, MaxBytes: 1 << 40}})
	s := mcpstore.New(log, nil)
	b.Cleanup(func() { check(b, s.Close()) })
	return s
}

// benchMessage has the size of a usual message of progress.
var benchMessage = bytes.Repeat([]byte("x"), 200)

func BenchmarkAppend(b *testing.B) {
	for _, c := range contenders {
		b.Run(c.name, func(b *testing.B) {
			s := c.open(b)
			check(b, s.Open(b.Context(), "s1", "a"))
			for b.Loop() {
				check(b, s.Append(context.Background(), "s1", "a", benchMessage))
			}
		})
	}
}

// BenchmarkAppendBesideQuietStreams: the SDK's own is also measured at its cap, where it is slow.
func BenchmarkAppendBesideQuietStreams(b *testing.B) {
	for _, streams := range []int{10_000, 1_000_000} {
		for _, c := range contenders {
			if c.name == "store=sqlite" && streams > 10_000 {
				continue // a million commits of one stream each
			}
			for _, atCap := range []bool{false, true} {
				if atCap && c.name != "store=sdk-memory" {
					continue
				}
				b.Run(fmt.Sprintf("streams=%d/%s/cap=%v", streams, c.name, atCap), func(b *testing.B) {
					s := c.open(b)
					for i := range streams {
						session, stream := fmt.Sprint(i/10), fmt.Sprint(i)
						check(b, s.Open(b.Context(), session, stream))
						check(b, s.Append(context.Background(), session, stream, []byte("{}")))
					}
					if own, ok := s.(*mcp.MemoryEventStore); ok && atCap {
						own.SetMaxBytes(1000) // so that the quiet ones have long been purged
					}
					check(b, s.Open(b.Context(), "s1", "a"))
					for b.Loop() {
						check(b, s.Append(context.Background(), "s1", "a", benchMessage))
					}
				})
			}
		}
	}
}

const benchEvents = 50_000

func filled(b *testing.B, s mcp.EventStore) {
	check(b, s.Open(b.Context(), "s1", "a"))
	for range benchEvents {
		check(b, s.Append(context.Background(), "s1", "a", benchMessage))
	}
}

func BenchmarkReplay(b *testing.B) {
	for _, c := range contenders {
		b.Run(c.name, func(b *testing.B) {
			s := c.open(b)
			filled(b, s)
			n := 0
			for b.Loop() {
				for _, err := range s.After(context.Background(), "s1", "a", -1) {
					check(b, err)
					n++
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkFirstReplayed(b *testing.B) {
	for _, c := range contenders {
		b.Run(c.name, func(b *testing.B) {
			s := c.open(b)
			filled(b, s)
			for b.Loop() {
				for _, err := range s.After(context.Background(), "s1", "a", 99) {
					check(b, err)
					break
				}
			}
		})
	}
}
