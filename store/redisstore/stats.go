package redisstore

import (
	"context"
	"strconv"

	"reprise"
)

// Stats holds counts and sizes of a Store.
type Stats struct {
	// Nodes is the number of servers to which the store is connected. In a Redis Cluster it includes replicas.
	Nodes int `json:"nodes"`
	// MemoryBytes is the memory that the servers use, including data of other programs. MaxMemoryBytes is the sum of
	// their limits, or 0 if one of them has no limit.
	MemoryBytes    int64 `json:"memory_bytes"`
	MaxMemoryBytes int64 `json:"max_memory_bytes"`
	// Streams is the number of streams that can be read.
	Streams int64 `json:"streams"`
	// Events and KeptBytes are sums over the windows of all streams.
	Events    int64 `json:"events"`
	KeptBytes int64 `json:"kept_bytes"`
	// Ends is the number of streams that wait to expire.
	Ends int64 `json:"ends"`
}

// Stats measures the store. It reads the state of each stream.
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
