package natsstore

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/internal/storecheck"
)

// Check reads everything and returns what is wrong, a sentence each: checksums that do not hold, streams whose
// batches have a hole or do not reach the tail. It may take long. Appends go on meanwhile.
func (s *Store) Check(ctx context.Context) (wrong []string, err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	list := func(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
		return s.list(ctx, q, func(err error) { wrong = append(wrong, err.Error()) })
	}
	faults, err := storecheck.Streams(ctx, list, s.checkStream)
	return append(wrong, faults...), err
}

// checkStream reads all batches of a stream. fault says what is wrong.
func (s *Store) checkStream(ctx context.Context, key reprise.StreamKey) (fault string, err error) {
	damaged := func(err error) bool { return isDamage(err) || errors.Is(err, errBehind) }
	return storecheck.Batches(ctx, s.Read, key, damaged, func(page reprise.Page, after uint64) string {
		if fault := storecheck.Missing(page, after); fault != "" {
			return fmt.Sprintf("stream %s: %s", key, fault)
		}
		return ""
	})
}

// Stats says how large things are.
type Stats struct {
	// Messages and Bytes are what JetStream keeps of events, with what is behind the windows and not yet
	// purged; Bytes counts one of the replicas.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	// IndexMessages and IndexBytes are those of the index.
	IndexMessages uint64 `json:"index_messages"`
	IndexBytes    uint64 `json:"index_bytes"`
	// Replicas is how many servers keep each message.
	Replicas int `json:"replicas"`
	// Streams counts those that can be read, Marks the swept ones that are remembered.
	Streams int64 `json:"streams"`
	Marks   int64 `json:"marks"`
	// Events and KeptBytes add up the windows of the streams.
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
