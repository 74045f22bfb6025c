package natsstore

import (
	"context"
	"errors"
	"fmt"

	"reprise"
)

// Check reads everything and returns what is wrong, a sentence each: checksums that do not hold, streams whose
// batches have a hole or do not reach the tail. It may take long. Appends go on meanwhile.
func (s *Store) Check(ctx context.Context) (wrong []string, err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	q := reprise.ListQuery{AllNamespaces: true, Limit: 1000}
	for {
		page, err := s.list(ctx, q, func(err error) { wrong = append(wrong, err.Error()) })
		if err != nil {
			return wrong, err
		}
		for i := range page.Streams {
			fault, err := s.checkStream(ctx, page.Streams[i].Key)
			if err != nil {
				return wrong, err
			}
			if fault != "" {
				wrong = append(wrong, fault)
			}
		}
		if q.After = page.Next; q.After == "" {
			return wrong, nil
		}
	}
}

// checkStream reads all batches of a stream. fault says what is wrong.
func (s *Store) checkStream(ctx context.Context, key reprise.StreamKey) (fault string, err error) {
	for after := uint64(0); ; {
		page, err := s.Read(ctx, key, after, 1<<20)
		switch {
		case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
			return "", nil // removed meanwhile
		case isDamage(err), errors.Is(err, errBehind):
			return err.Error(), nil
		case err != nil:
			return "", err
		}
		if len(page.Batches) == 0 {
			if want := max(after+1, page.Info.Earliest); want <= page.Info.Tail {
				return fmt.Sprintf("stream %s: events %d to %d are missing", key, want, page.Info.Tail), nil
			}
			return "", nil
		}
		after = page.Batches[len(page.Batches)-1].Last()
	}
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
