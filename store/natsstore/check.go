package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"reprise"
	"reprise/internal/storecheck"
)

// Check reads everything and returns one sentence for each fault: a checksum mismatch, or a stream whose batches have a
// gap or do not reach the tail, or that no list shows. It may take long. Appends may continue meanwhile.
func (s *Store) Check(ctx context.Context) (wrong []string, err error) {
	defer func(caller context.Context) { err = storeError(caller, err) }(ctx)
	listed := map[reprise.StreamKey]bool{}
	list := func(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
		page, err := s.list(ctx, q, func(err error) { wrong = append(wrong, err.Error()) })
		for i := range page.Streams {
			listed[page.Streams[i].Key] = true
		}
		return page, err
	}
	faults, err := storecheck.Streams(ctx, list, s.checkStream)
	if wrong = append(wrong, faults...); err != nil {
		return wrong, err
	}
	faults, err = s.checkUnlisted(ctx, listed)
	return append(wrong, faults...), err
}

// checkUnlisted returns a sentence for each stream that has no record in the index. Streams that were listed have one.
func (s *Store) checkUnlisted(ctx context.Context, listed map[reprise.StreamKey]bool) (wrong []string, err error) {
	unlisted, err := s.unlisted(ctx, listed)
	if err != nil {
		return nil, err
	}
	for _, key := range unlisted {
		switch has, err := s.hasRecord(ctx, key); {
		case err != nil:
			return wrong, err
		case !has:
			wrong = append(wrong,
				fmt.Sprintf("stream %s: %v: its record is lost, so that no list shows it", key, ErrDamaged))
		}
	}
	return wrong, nil
}

// unlisted returns the streams that are not in listed, in the order of their keys.
func (s *Store) unlisted(ctx context.Context, listed map[reprise.StreamKey]bool) ([]reprise.StreamKey, error) {
	patience, err := s.patience(ctx)
	if err != nil {
		return nil, err
	}
	ctx, leave, err := s.enterFor(ctx, patience)
	if err != nil {
		return nil, err
	}
	defer leave()
	var keys []reprise.StreamKey
	err = s.eachState(ctx, func(key reprise.StreamKey, st *state) {
		if !st.gone && !listed[key] {
			keys = append(keys, key)
		}
	})
	slices.SortFunc(keys, func(a, b reprise.StreamKey) int { return cmp.Compare(a.String(), b.String()) })
	return keys, err
}

// patience is how long it may take to read the states of all streams: a hundred times as long as it usually does.
func (s *Store) patience(ctx context.Context) (time.Duration, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	info, err := s.streamInfo(ctx, s.name, "")
	if err != nil {
		return 0, err
	}
	return s.timeout + time.Duration(info.State.NumSubjects)*time.Millisecond, nil
}

// hasRecord reports whether the index has the record of a stream, or the stream has been removed meanwhile.
func (s *Store) hasRecord(ctx context.Context, key reprise.StreamKey) (bool, error) {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	for missing := uint64(0); ; {
		last, err := s.last(ctx, key)
		if err != nil || last == nil || last.gone {
			return err == nil, err
		}
		msg, err := s.present(ctx, s.index, last.index)
		if !errors.Is(err, errGone) {
			return err == nil && msg.Header.Get(headerSubject) == s.subjects.index(key), err
		}
		if last.index == missing {
			return false, nil
		}
		missing = last.index // unless the stream was removed after last was read
	}
}

// checkStream reads all batches of a stream, and mends nothing. fault describes what is wrong; it is empty if nothing
// is.
func (s *Store) checkStream(ctx context.Context, key reprise.StreamKey) (fault string, err error) {
	leave := func(context.Context, reprise.StreamKey, *entry) (mended bool, err error) { return false, nil }
	damaged := func(err error) bool { return isDamage(err) || errors.Is(err, errBehind) }
	read := func(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
		return s.read(ctx, key, after, maxBytes, leave)
	}
	return storecheck.Batches(ctx, read, key, damaged, func(page reprise.Page, after uint64) string {
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
	// IndexMessages and IndexBytes count the index.
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
