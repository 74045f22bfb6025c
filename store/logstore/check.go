package logstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"reprise"
	"reprise/internal/storecheck"
)

// Check reads everything and returns one sentence for each fault. It reads all commits, including those whose batches
// are no longer needed, the snapshot, and the batches of each stream. It may take long. Appends may continue meanwhile.
func (s *Store) Check(ctx context.Context) (wrong []string, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return nil, err
	}
	wrong, err = s.checkFiles(ctx)
	s.use.Leave()
	if err != nil {
		return wrong, err
	}
	faults, err := storecheck.Streams(ctx, s.List, func(ctx context.Context, key reprise.StreamKey) (string, error) {
		return storecheck.Batches(ctx, s.Read, key, isDamage, nil)
	})
	return append(wrong, faults...), err
}

func isDamage(err error) bool { return errors.Is(err, ErrDamaged) }

// checkFiles reads all commits and the snapshot.
func (s *Store) checkFiles(ctx context.Context) (wrong []string, err error) {
	segments, ends := s.pinAll()
	defer func() {
		for _, seg := range segments {
			s.release(seg)
		}
	}()
	for i, seg := range segments {
		switch err := s.checkSegment(ctx, seg, ends[i]); {
		case errors.Is(err, ErrDamaged):
			wrong = append(wrong, fmt.Sprintf("segment %d: %v", seg.number, err))
		case err != nil:
			return wrong, err
		}
	}
	fault, err := s.checkSnapshot()
	if fault != "" {
		wrong = append(wrong, fault)
	}
	return wrong, err
}

// pinAll returns the segments, oldest first, and their current ends. The caller must release each segment.
func (s *Store) pinAll() (segments []*segment, ends []int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, seg := range s.segments {
		seg.users.Add(1)
		segments = append(segments, seg)
	}
	slices.SortFunc(segments, func(a, b *segment) int { return int(int64(a.number) - int64(b.number)) })
	for _, seg := range segments {
		ends = append(ends, seg.end)
	}
	return segments, ends
}

func (s *Store) checkSegment(ctx context.Context, seg *segment, end int64) error {
	head := make([]byte, headerBytes)
	if err := readAll(seg.file, head, 0); err != nil {
		return err
	}
	if h, err := parseHeader(head); err != nil || h != seg.header {
		return damaged("its header")
	}
	var frame []byte
	for at := int64(headerBytes); at < end; at += int64(len(frame)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var ok bool
		var err error
		if frame, _, ok, err = readFrame(seg.file, at, end, seg.salt, frame); err != nil {
			return err
		}
		if !ok {
			return damaged("the commit at %d", at)
		}
		if err := records(frame, at, func(*record) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// checkSnapshot reads the newest snapshot. It ignores one that is replaced meanwhile.
func (s *Store) checkSnapshot() (fault string, err error) {
	current := func() uint64 {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.base
	}
	base := current()
	if base == 0 {
		return "", nil
	}
	f, err := s.disk.open(snapshotName(base))
	if err == nil {
		defer f.Close()
		state := newState()
		_, err = state.readSnapshot(f, base)
	}
	switch {
	case current() != base || err == nil:
		return "", nil
	case errors.Is(err, ErrDamaged):
		return fmt.Sprintf("snapshot %d: %v", base, err), nil
	}
	return "", err
}

// Stats holds counts and sizes of a Store.
type Stats struct {
	// Segments is the number of log files. LogBytes is the number of bytes written to them. LiveBytes is the part of
	// LogBytes that is batches which are still kept.
	Segments  int   `json:"segments"`
	LogBytes  int64 `json:"log_bytes"`
	LiveBytes int64 `json:"live_bytes"`
	// SnapshotBytes is the size of the newest snapshot. ReplayBytes is the size of the log after it, which Open must
	// read.
	SnapshotBytes int64 `json:"snapshot_bytes"`
	ReplayBytes   int64 `json:"replay_bytes"`
	// Streams is the number of streams that can be read. Marks is the number of swept streams that are remembered.
	Streams int64 `json:"streams"`
	Marks   int64 `json:"marks"`
	// Events and KeptBytes are sums over the windows of all streams.
	Events    int64 `json:"events"`
	KeptBytes int64 `json:"kept_bytes"`
}

// Stats measures the store. It does not read from the disk.
func (s *Store) Stats(ctx context.Context) (_ Stats, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return Stats{}, err
	}
	defer s.use.Leave()
	s.mu.RLock()
	defer s.mu.RUnlock()
	stats := Stats{Segments: len(s.segments), SnapshotBytes: s.snapshotBytes, ReplayBytes: s.sinceSnapshot}
	for _, seg := range s.segments {
		stats.LogBytes += seg.end
		stats.LiveBytes += seg.live
	}
	for _, tenant := range s.tenants {
		stats.Streams += tenant.size.Streams
		stats.Events += tenant.size.Events
		stats.KeptBytes += tenant.size.Bytes
	}
	stats.Marks = int64(s.streams.len()) - stats.Streams
	return stats, nil
}
