package logstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// keeper reclaims space and bounds the log that Open must read, while appends continue.
type keeper struct {
	wake chan struct{}
	stop chan struct{}
	work sync.WaitGroup

	mu          sync.Mutex
	asked, done uint64        // passes that were asked for, and those of them that are done
	passed      chan struct{} // closed when a pass is done
}

func (k *keeper) init() {
	k.wake, k.stop, k.passed = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
}

// ask asks for a pass that begins from now on.
func (k *keeper) ask() {
	k.mu.Lock()
	k.asked++
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// await waits until all passes that were asked for are done. It returns false if they were.
func (k *keeper) await(ctx context.Context) bool {
	k.mu.Lock()
	asked := k.asked
	for k.done < asked {
		passed := k.passed
		k.mu.Unlock()
		select {
		case <-passed:
		case <-k.stop:
			return false
		case <-ctx.Done():
			return false
		}
		k.mu.Lock()
		if k.done >= asked {
			k.mu.Unlock()
			return true
		}
	}
	k.mu.Unlock()
	return false
}

// pass makes a pass.
func (k *keeper) pass(work func() error) error {
	k.mu.Lock()
	asked := k.asked
	k.mu.Unlock()
	err := work()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done = asked
	close(k.passed)
	k.passed = make(chan struct{})
	return err
}

func (k *keeper) stopped() bool {
	select {
	case <-k.stop:
		return true
	default:
		return false
	}
}

// wakeIfNeeded wakes the keeper if it has work to do. The caller holds mu.
func (s *Store) wakeIfNeeded(removed bool) {
	if removed || s.snapshotDue() {
		s.keeper.ask()
	}
}

// tryAgain is how long the keeper waits after a failure.
const tryAgain = 10 * time.Second

func (s *Store) keep() {
	var again <-chan time.Time
	told := ""
	for {
		select {
		case <-s.keeper.stop:
			return
		case <-s.keeper.wake:
		case <-again:
		}
		again = nil
		err := s.keeper.pass(s.tidySafely)
		switch {
		case err == nil:
			told = ""
		case !s.keeper.stopped():
			again = time.After(tryAgain)
			if told != err.Error() {
				told = err.Error()
				s.opts.Logger.Warn("the log could not be made shorter; it is tried again", "error", err)
			}
		}
	}
}

// tidySafely is tidy, and returns an error if that panics: the keeper may commit the changes of callers too.
func (s *Store) tidySafely() (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Logger.Error("the keeper of the log panicked", "panic", p, "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	return s.tidy()
}

// tidy writes a snapshot if one is due, or pays on a full disk, and removes segments without live batches. While the
// log takes too much space or the disk is full, it copies the live batches out of other segments.
func (s *Store) tidy() (err error) {
	s.mu.RLock()
	due, newest := s.snapshotDue(), s.active.number
	s.mu.RUnlock()
	tight, _ := s.tight()
	if tight || s.settled != newest {
		err = s.settleTrimmed()
		s.settled = newest
	}
	s.dropDead()
	if !tight {
		s.writeIndexes()
	}
	pays := tight && s.snapshotPays()
	if due || pays {
		saved := s.saveSnapshot(pays)
		if isFull(saved) && pays && s.releaseReserve() {
			saved = s.saveSnapshot(true)
		}
		if saved != nil {
			s.postponeSnapshot()
			err = errors.Join(err, fmt.Errorf("snapshot: %w", saved))
		}
		s.dropDead()
	}
	err = errors.Join(err, s.evacuateAll())
	s.turn <- struct{}{}
	s.tidied = s.nextCommit
	<-s.turn
	return err
}

// settleTrimmed counts what trims have left of the oldest runs of streams.
func (s *Store) settleTrimmed() (err error) {
	s.mu.Lock()
	ids := s.trimmed
	s.trimmed = nil
	for _, id := range ids {
		if st := s.streams.awake[id]; st != nil { // it does not rest
			st.trimmed = false
		}
	}
	s.mu.Unlock()
	for _, id := range ids {
		if e := s.settleOne(id); e != nil && !errors.Is(e, ErrDamaged) { // a reader of the stream reports damage
			err = e
		}
	}
	return err
}

// settleOne is settleTrimmed for a stream.
func (s *Store) settleOne(id uint64) error {
	s.mu.RLock()
	st := s.streams.awake[id]
	if st == nil {
		s.mu.RUnlock()
		return nil
	}
	oldest, ok := st.runs.oldest()
	seg, before := s.segments[oldest.segment], trimming{earliest: st.earliest}
	if !ok || oldest.first >= st.earliest {
		s.mu.RUnlock()
		return nil
	}
	seg.users.Add(1)
	s.mu.RUnlock()
	defer s.release(seg)
	begin := func() { before = trimming{earliest: before.earliest} }
	if err := s.places(seg, id, oldest.first, begin, before.add); err != nil {
		return fmt.Errorf("segment %d: %w", seg.number, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := st.runs.oldest(); ok && now == oldest && s.streams.awake[id] == st {
		s.settle(st, &before)
	}
	return nil
}

func (s *Store) releaseReserve() bool {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.reserve.Release()
}

// evacuateAll copies the live batches out of segments while the log takes too much space or the disk is full, and makes
// the reserve whole.
func (s *Store) evacuateAll() error {
	unread := map[*segment]error{}
	for !s.keeper.stopped() {
		tight, room := s.tight()
		seg := s.victim(unread, tight, room)
		if seg == nil {
			break
		}
		err := s.evacuate(seg)
		// Skip a damaged segment until the store is opened again.
		seg.stuck = err == nil && !s.isDead(seg) || errors.Is(err, ErrDamaged)
		if err != nil {
			err = fmt.Errorf("segment %d: %w", seg.number, err)
		}
		switch {
		case errors.Is(err, errUnread): // others may be readable
			unread[seg] = err
		case err != nil:
			return err
		}
		s.dropDead()
	}
	return errors.Join(slices.Collect(maps.Values(unread))...)
}

// errUnread is the error of a segment that cannot be read.
var errUnread = errors.New("cannot be read")

// dropDead removes the segments before the base that hold no live batch. Their records will not be read again.
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

// victim returns a segment to evacuate, or nil. Candidates exist if all segments together take more than twice the live
// bytes plus two segments. The victim is the segment before the base with the smallest part of live bytes, which must
// be less than half. Those in except are no candidates. When the disk is tight, there are always candidates, whose live
// bytes are less than seven eighths and fit into room with the heads of their records.
func (s *Store) victim(except map[*segment]error, tight bool, room int64) (least *segment) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var total, live int64
	for _, seg := range s.segments {
		total, live = total+seg.end, live+seg.live
		pays := seg.live < seg.end/2
		if tight {
			pays = seg.live < seg.end-seg.end/8 && min(seg.end, 2*seg.live) <= room
		}
		if uint64(seg.number) >= s.base || seg.stuck || except[seg] != nil || !pays {
			continue
		}
		if least == nil || float64(seg.live)/float64(seg.end) < float64(least.live)/float64(least.end) {
			least = seg
		}
	}
	if !tight && total <= 2*live+2*s.step {
		return nil
	}
	return least
}

// evacuateBytes is the amount of live batches that one commit copies.
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
		if err == nil && !ok {
			err = damaged("the commit at %d", at)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errUnread, err)
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
		if err != nil {
			return fmt.Errorf("%w: %w", errUnread, err)
		}
		if size >= evacuateBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		if s.keeper.stopped() {
			return errStopped
		}
	}
	return flush()
}

// livesAt reports whether the place of r in seg is still the place of its batch.
func (s *Store) livesAt(r *record, seg *segment) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lives(r, seg)
}

// lives is livesAt for a caller that holds mu or has the turn.
func (s *Store) lives(r *record, seg *segment) bool {
	st := s.streams.peek(r.id, s.tenants)
	if st == nil {
		return false
	}
	in, ok := st.runs.holder(r.first)
	return ok && in.segment == seg.number && r.first+r.count > st.earliest && r.first <= st.tail
}

// moveBatches commits copies of the batches that are still live in seg.
func (s *Store) moveBatches(moves []record, seg *segment) error {
	if len(moves) == 0 {
		return nil
	}
	slices.SortFunc(moves, func(a, b record) int { // those of a stream come together
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.first, b.first))
	})
	return s.commit(context.Background(), &change{purpose: toMove, stage: func(g *group) error {
		for i := range moves {
			if st := s.rouse(moves[i].id); st != nil && st.group == g.number {
				return errLater
			}
		}
		for i := range moves {
			if s.lives(&moves[i], seg) {
				s.rouse(moves[i].id).group = g.number
				g.add(moves[i])
			}
		}
		return nil
	}})
}
