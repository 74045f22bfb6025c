package logstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// keeper gives space back and keeps what is to be read when the store is opened short, while appends go on.
type keeper struct {
	wake chan struct{}
	stop chan struct{}
	work sync.WaitGroup
}

func (k *keeper) init() {
	k.wake, k.stop = make(chan struct{}, 1), make(chan struct{})
}

func (k *keeper) stopped() bool {
	select {
	case <-k.stop:
		return true
	default:
		return false
	}
}

// wakeIfNeeded wakes the keeper when it has something to do. The caller holds mu.
func (s *Store) wakeIfNeeded(removed bool) {
	if !removed && !s.snapshotDue() {
		return
	}
	select {
	case s.keeper.wake <- struct{}{}:
	default:
	}
}

func (s *Store) keep() {
	for {
		select {
		case <-s.keeper.stop:
			return
		case <-s.keeper.wake:
		}
		if err := s.tidy(); err != nil && !s.keeper.stopped() {
			s.opts.Logger.Warn("the log could not be made shorter; it is tried again", "error", err)
		}
	}
}

// tidy makes a snapshot if one is due, removes segments without live batches, and copies the live batches out of others
// while the log takes too much space.
func (s *Store) tidy() error {
	s.mu.RLock()
	due := s.snapshotDue()
	s.mu.RUnlock()
	if due {
		if err := s.saveSnapshot(); err != nil {
			s.postponeSnapshot()
			return fmt.Errorf("snapshot: %w", err)
		}
	}
	s.dropDead()
	for !s.keeper.stopped() {
		seg := s.victim()
		if seg == nil {
			break
		}
		err := s.evacuate(seg)
		// One that is damaged is left alone until the store is opened again.
		seg.stuck = err == nil && !s.isDead(seg) || errors.Is(err, ErrDamaged)
		if err != nil {
			return fmt.Errorf("segment %d: %w", seg.number, err)
		}
		s.dropDead()
	}
	return nil
}

// dropDead removes the segments before the base that hold no live batch. No record of theirs is read again.
func (s *Store) dropDead() {
	s.mu.Lock()
	var dead []*segment
	for number, seg := range s.segments {
		if uint64(number) < s.base && seg.live == 0 {
			dead = append(dead, seg)
			delete(s.segments, number)
		}
	}
	s.mu.Unlock()
	for _, seg := range dead {
		s.release(seg)
	}
}

func (s *Store) isDead(seg *segment) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return seg.live == 0
}

// victim returns the segment before the base with the least part of live bytes if all segments together take more than
// twice the live bytes and two segments, nil otherwise or if each of them is half live.
func (s *Store) victim() (least *segment) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var total, live int64
	for _, seg := range s.segments {
		total, live = total+seg.end, live+seg.live
		if uint64(seg.number) >= s.base || seg.stuck || seg.live >= seg.end/2 {
			continue
		}
		if least == nil || float64(seg.live)/float64(seg.end) < float64(least.live)/float64(least.end) {
			least = seg
		}
	}
	if total <= 2*live+2*s.opts.SegmentBytes {
		return nil
	}
	return least
}

// evacuateBytes is how much of live batches one commit copies.
const evacuateBytes = 1 << 20

// evacuate copies the live batches of a segment to the end of the log.
func (s *Store) evacuate(seg *segment) error {
	var moves []record
	size := 0
	flush := func() error {
		err := s.moveBatches(moves, seg)
		moves, size = nil, 0
		return err
	}
	var frame []byte
	for at := int64(headerBytes); at < seg.end; at += int64(len(frame)) {
		var ok bool
		var err error
		frame, _, ok, err = readFrame(seg.file, at, seg.end, seg.salt, frame)
		if err != nil {
			return err
		}
		if !ok {
			return damaged("the commit at %d", at)
		}
		err = records(frame, at, func(r *record) error {
			if (r.kind == kindAppend || r.kind == kindMove) && s.livesAt(r, seg) {
				size += len(r.bytes)
				moves = append(moves, record{
					kind: kindMove, id: r.id, first: r.first, count: r.count, bytes: slices.Clone(r.bytes), at: r.at,
				})
			}
			return nil
		})
		if err == nil && size >= evacuateBytes {
			err = flush()
		}
		if err != nil {
			return err
		}
		if s.keeper.stopped() {
			return errStopped
		}
	}
	return flush()
}

// livesAt reports whether the batch of r is still read from where r lies.
func (s *Store) livesAt(r *record, seg *segment) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lives(r, seg)
}

// lives is livesAt for who holds mu or has the turn.
func (s *Store) lives(r *record, seg *segment) bool {
	st := s.byID[r.id]
	if st == nil {
		return false
	}
	b := st.batch(r.first)
	return b != nil && b.segment == seg.number && int64(b.at) == r.at
}

// moveBatches commits the copies of batches that still live in seg.
func (s *Store) moveBatches(moves []record, seg *segment) error {
	if len(moves) == 0 {
		return nil
	}
	return s.commit(context.Background(), &change{stage: func(g *group) error {
		for i := range moves {
			if st := s.byID[moves[i].id]; st != nil && st.group == g.number {
				return errLater
			}
		}
		for i := range moves {
			if s.lives(&moves[i], seg) {
				s.byID[moves[i].id].group = g.number
				g.add(moves[i])
			}
		}
		return nil
	}})
}
