package redisstore

import (
	"context"
	"strconv"

	"reprise"
)

// Stats says how large things are.
type Stats struct {
	// Nodes counts the servers that the store is connected to, their replicas included in a Redis Cluster.
	Nodes int `json:"nodes"`
	// MemoryBytes is what the servers use, whoever else's data they hold; MaxMemoryBytes is the sum of their
	// bounds, 0 where one has none.
	MemoryBytes    int64 `json:"memory_bytes"`
	MaxMemoryBytes int64 `json:"max_memory_bytes"`
	// Streams counts those that can be read.
	Streams int64 `json:"streams"`
	// Events and KeptBytes add up the windows of the streams.
	Events    int64 `json:"events"`
	KeptBytes int64 `json:"kept_bytes"`
	// Ends counts the streams that wait to expire.
	Ends int64 `json:"ends"`
}

// Stats measures the store. It looks at each stream.
func (s *Store) Stats(ctx context.Context) (_ Stats, err error) {
	defer func() { err = storeError(ctx, err) }()
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return Stats{}, err
	}
	defer leave()
	stats, err := s.stats(bounded)
	if err != nil {
		return Stats{}, storeError(ctx, err)
	}
	sizes, err := s.sizes(ctx)
	if err != nil {
		return Stats{}, storeError(ctx, err)
	}
	stats.add(sizes)
	return stats, nil
}

func (s *Store) stats(ctx context.Context) (stats Stats, err error) {
	unbounded := false
	for _, node := range s.client.Nodes() {
		text, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			return stats, err
		}
		info := parseInfo(text)
		stats.Nodes++
		used, _ := strconv.ParseInt(info["used_memory"], 10, 64) // absent in what is only like Redis: 0
		most, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
		stats.MemoryBytes += used
		stats.MaxMemoryBytes += most
		unbounded = unbounded || most == 0
	}
	if unbounded {
		stats.MaxMemoryBytes = 0
	}
	if stats.Ends, err = s.client.Do(ctx, s.client.B().Zcard().Key(s.keys.ends()).Build()).AsInt64(); err != nil {
		return stats, err
	}
	return stats, nil
}

func (s *Stats) add(sizes map[reprise.Tenant]reprise.Size) {
	for _, size := range sizes {
		s.Streams += size.Streams
		s.Events += size.Events
		s.KeptBytes += size.Bytes
	}
}
