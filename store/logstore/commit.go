package logstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"reprise"
)

// change is a call that changes the state. Calls that arrive during a commit share the next one.
type change struct {
	// stage checks the call against the state and adds its records to the group. An error rejects the call, except
	// errLater, which defers it to the next group.
	stage func(*group) error
	// purpose is what the call needs room on the disk for.
	purpose purpose

	done chan struct{}
	err  error // valid once done is closed
}

// errLater is returned by a change whose stream is already changed by the group.
var errLater = errors.New("later")

// queued holds the changes that wait. The goroutine that gets the turn commits all of them.
type queued struct {
	mu      sync.Mutex
	changes []*change
}

// group is the commit being built.
type group struct {
	s       *Store
	number  uint32
	frame   []byte
	records []record
	created map[reprise.StreamKey]struct{}
	forgot  int // marks that the group removes to make room for streams
	purpose purpose
}

// maxGroupBytes is the size at which a group accepts no further change.
const maxGroupBytes = 4 << 20

// touch reserves st for the change that is being staged.
func (g *group) touch(st *stream) error {
	if st.group == g.number {
		return errLater
	}
	st.group = g.number
	return nil
}

// rouse is wake for the goroutine that has the turn.
func (s *Store) rouse(id uint64) *stream {
	if st := s.streams.awake[id]; st != nil || id == 0 {
		return st
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wake(id)
}

func (g *group) add(r record) {
	g.frame = r.encode(g.frame)
	g.records = append(g.records, r)
}

// commit executes a change. It returns when the change is durable and applied to the state, when the change was
// rejected, or when ctx is done before a group has taken it. A change that finds the disk full is tried again as long
// as the keeper is making room.
func (s *Store) commit(ctx context.Context, c *change) error {
	for {
		err := s.tryCommit(ctx, c)
		if !isFull(err) || c.purpose != toAdd || s.opts.idle || !s.keeper.await(ctx) {
			return err
		}
	}
}

// tryCommit is commit of a change that a full disk ends.
func (s *Store) tryCommit(ctx context.Context, c *change) error {
	c.done = make(chan struct{})
	s.queued.mu.Lock()
	s.queued.changes = append(s.queued.changes, c)
	s.queued.mu.Unlock()
	for {
		select {
		case <-c.done:
			return c.err
		case <-ctx.Done():
			if s.withdraw(c) {
				return context.Cause(ctx)
			}
			select { // a group has taken it, and may put it back
			case <-c.done:
				return c.err
			case s.turn <- struct{}{}:
				<-s.turn // no group is under way: it is done, or can be withdrawn
			}
		case s.turn <- struct{}{}:
			s.commitInTurn()
		}
	}
}

// commitInTurn is commitQueued, after which it passes the turn on, even if that panics.
func (s *Store) commitInTurn() {
	defer func() { <-s.turn }()
	s.commitQueued()
}

// errPanicked is the result of changes whose group has panicked.
var errPanicked = fmt.Errorf("%w: the commit panicked", reprise.ErrUnavailable)

// errUncertain is the result of all changes after a panic that may have left the state half changed.
var errUncertain = fmt.Errorf("%w: a commit panicked; open the store again", reprise.ErrUnavailable)

// withdraw removes a change from the queue unless a group has taken it.
func (s *Store) withdraw(c *change) bool {
	s.queued.mu.Lock()
	defer s.queued.mu.Unlock()
	i := slices.Index(s.queued.changes, c)
	if i < 0 {
		return false
	}
	s.queued.changes = slices.Delete(s.queued.changes, i, i+1)
	return true
}

// commitQueued commits a group of the queued changes. The caller has the turn.
func (s *Store) commitQueued() {
	s.queued.mu.Lock()
	waiting := s.queued.changes
	s.queued.changes = nil
	s.queued.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	done := false
	defer func() {
		if !done { // nobody may wait for what will not come
			finish(waiting, errPanicked)
		}
	}()
	if s.uncertain { // no call may be judged by a state that may be half changed
		finish(waiting, errUncertain)
		done = true
		return
	}
	g := s.newGroup()
	g.purpose = waiting[0].purpose
	var staged, later []*change
	for _, c := range waiting {
		err := errLater
		if c.purpose == g.purpose && len(g.frame) < maxGroupBytes {
			err = c.stage(g)
		}
		switch {
		case err == nil:
			staged = append(staged, c)
		case err == errLater: //nolint:errorlint // never wrapped
			later = append(later, c)
		default:
			c.err = err
			close(c.done)
		}
	}
	if len(later) > 0 {
		s.queued.mu.Lock()
		s.queued.changes = append(later, s.queued.changes...)
		s.queued.mu.Unlock()
	}
	waiting = staged
	finish(staged, s.write(g))
	done = true
}

// finish gives changes their result, except those that have one.
func finish(changes []*change, err error) {
	for _, c := range changes {
		select {
		case <-c.done:
		default:
			c.err = err
			close(c.done)
		}
	}
}

func (s *Store) newGroup() *group {
	s.groups++
	frame := s.frame
	if frame == nil || cap(frame) > 2*maxGroupBytes {
		frame = make([]byte, 0, 4<<10)
	}
	clear(s.records)
	return &group{s: s, number: s.groups, frame: frame[:frameBytes], records: s.records[:0]}
}

// write writes the frame of a group, syncs it and applies it to the state. The caller has the turn.
func (s *Store) write(g *group) error {
	s.frame, s.records = g.frame, g.records
	switch {
	case s.uncertain:
		return errUncertain
	case len(g.records) == 0:
		return nil
	}
	s.uncertain = true // until there was no panic
	err := s.writeFrame(g)
	s.uncertain = false
	return err
}

// writeFrame is write of a group that is not empty.
func (s *Store) writeFrame(g *group) error {
	if err := s.makeRoom(int64(len(g.frame)), g.purpose); err != nil {
		return err
	}
	seg := s.active
	sealFrame(g.frame, s.nextCommit, seg.salt)
	_, err := seg.file.WriteAt(g.frame, seg.end)
	if isFull(err) && s.cut(seg) {
		s.foundFull(err)
		return fmt.Errorf("commit %d: %w", s.nextCommit, err)
	}
	if err == nil {
		err = seg.file.sync()
	}
	if err != nil {
		// The content of the file from here on is unknown. A second sync would not help: the system may have dropped
		// the pages. The header of the next segment decides whether this commit is part of the log.
		seg.failed = true
		return fmt.Errorf("commit %d: %w", s.nextCommit, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range g.records {
		r := &g.records[i]
		r.at += seg.end
		if err := s.apply(r, seg); err != nil {
			panic(err) // the record was checked against this very state
		}
	}
	seg.end += int64(len(g.frame))
	s.sinceSnapshot += int64(len(g.frame))
	s.nextCommit++
	s.wakeIfNeeded(g.purpose == toRemove)
	return nil
}

// cut takes back a write of which the disk had no room for a part. It was never synced, so it is no more than what a
// crash may leave there, and the next commit takes its place. cut reports whether seg can still be written to.
func (s *Store) cut(seg *segment) bool {
	return seg.file.Truncate(seg.end) == nil && seg.file.Allocate(seg.room) == nil
}
