package natsstore

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/internal/storecheck"
)

// Check reads everything and returns one sentence for each fault: a checksum mismatch, or a stream whose batches have a
// gap or do not reach the tail. It may take long. Appends may continue meanwhile.
func (s *Store) Check(ctx context.Context) (wrong []string, err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	list := func(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
		return s.list(ctx, q, func(err error) { wrong = append(wrong, err.Error()) })
	}
	faults, err := storecheck.Streams(ctx, list, s.checkStream)
	return append(wrong, faults...), err
}

// checkStream reads all batches of a stream. fault describes what is wrong; it is empty if nothing is.
func (s *Store) checkStream(ctx context.Context, key reprise.StreamKey) (fault string, err error) {
	damaged := func(err error) bool { return isDamage(err) || errors.Is(err, errBehind) }
	return storecheck.Batches(ctx, s.Read, key, damaged, func(page reprise.Page, after uint64) string {
		if fault := storecheck.Missing(page, after); fault != "" {
			return fmt.Sprintf("stream %s: %s", key, fault)
		}
		return ""
	})
}

// Stats holds counts and sizes of a Store.
type Stats struct {
	// Messages and Bytes are the messages with events that JetStream stores, including those before the windows that
	// are not purged yet. Bytes counts one replica.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	// IndexMessages and IndexBytes are those of the index.
	IndexMessages uint64 `json:"index_messages"`
	IndexBytes    uint64 `json:"index_bytes"`
	// Replicas is the number of servers that store each message.
	Replicas int `json:"replicas"`
	// Streams is the number of streams that can be read. Marks is the number of swept streams that are remembered.
	Streams int64 `json:"streams"`
	Marks   int64 `json:"marks"`
	// Events and KeptBytes are sums over the windows of all streams.
	Events    int64 `json:"events"`
	KeptBytes int64 `json:"kept_bytes"`
}

// Stats measures the store.
func (s *Store) Stats(ctx context.Context) (_ Stats, err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return Stats{}, err
	}
	defer leave()
	var stats Stats
	events, err := s.streamInfo(ctx, s.name, "")
	if err != nil {
		return Stats{}, err
	}
	index, err := s.streamInfo(ctx, s.index, "")
	if err != nil {
		return Stats{}, err
	}
	stats.Messages, stats.Bytes = events.State.Msgs, events.State.Bytes
	stats.IndexMessages, stats.IndexBytes = index.State.Msgs, index.State.Bytes
	stats.Replicas = max(1, events.Config.Replicas)
	err = s.eachState(ctx, func(_ reprise.StreamKey, st *state) {
		switch {
		case !st.gone:
			stats.Streams++
			stats.Events += int64(st.tail + 1 - st.earliest)
			stats.KeptBytes += st.kept
		case st.remember != 0:
			stats.Marks++
		}
	})
	return stats, err
}
