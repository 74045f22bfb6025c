package reprise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// lane is one queue of commits. Each stream belongs to one lane, and a lane has one commit under way at a time, which
// keeps the order of each stream. A Log has as many lanes as its Store accepts concurrent commits.
//
// A lane works only on memory, except for Store.Append. A call that needs information from the store is returned to its
// caller with errStale, errUnmeasured or errHeld. The caller obtains it, while the lane continues with other calls, and
// submits the call again. See Log.submit.
//
// A commit serves several callers, so no caller's context can cancel it; stores bound its time.
type lane struct {
	committer
	log     *Log
	batches []staged
	reqs    []AppendRequest // of batches
	clock   clock
	traced
}

// Verdicts of a lane after which the caller acts and submits the call again.
var (
	errStale      = errors.New("the state of the stream is to be read")
	errUnmeasured = errors.New("the oldest events are to be measured")
	errHeld       = errors.New("the stream is held")
)

// staged is the batch that the current commit adds to a stream.
type staged struct {
	live      *live
	first     uint64
	count     int
	block     *block
	from      int      // start of the batch in buf
	buf       []byte   // block.buf with the batch
	ends      []uint32 // block.ends with the batch
	earliest  uint64
	kept      int64
	owner     Owner
	end       *End
	producers []Producer // all of the stream, with the new ones
	fresh     []Producer // the new ones
	err       error
}

func (m *lane) init(l *Log) {
	m.log, m.timed = l, l.opts.Hooks.Committed != nil
	m.committer.lane = m
}

// exclusively runs f while no commit of the lane is under way. f must only touch memory.
func (m *lane) exclusively(ctx context.Context, f func() error) error {
	return m.do(ctx, &call{fn: func() error {
		if err := m.log.usable(); err != nil {
			return err
		}
		return f()
	}})
}

// run decides the calls of a group: first the calls that are not appends, since they may evict streams that must then
// not be staged, and after that all appends in one commit.
func (m *lane) run(group []*call) {
	m.clock.ms = 0
	for _, c := range group {
		if c.fn != nil && !c.left {
			c.verdict.decide(Appended{}, c.fn())
		}
	}
	for _, c := range group {
		if c.isOpen() {
			m.stageOrDecide(c)
		}
	}
	m.commit()
	if m.wanted {
		m.tell(group)
		m.traced = traced{}
	}
	for _, c := range group {
		if c.isOpen() {
			c.settle(m.batches[c.live.staged-1].err)
		}
	}
	m.unstage()
	m.log.coolIfFull()
}

// isOpen reports whether c is an append without a verdict.
func (c *call) isOpen() bool { return c.fn == nil && !c.left && !c.verdict.decided }

// stageOrDecide stages an append. A refusal is its verdict at once, unless it depends on the commit.
func (m *lane) stageOrDecide(c *call) {
	c.joined = false
	c.refusal = m.stage(c)
	m.wanted = m.wanted || c.opts.Trace != nil
	if !c.joined || c.refusal == errStale || c.refusal == errUnmeasured { //nolint:errorlint // ours, never wrapped
		c.verdict.decide(c.found, c.refusal)
	}
}

// settle decides a call by err, the store's result for its batch.
func (c *call) settle(err error) {
	switch {
	case err == nil:
		c.verdict.decide(c.found, c.refusal)
	case isOvertaken(err):
		c.verdict.decide(Appended{}, errStale)
	default:
		c.verdict.decide(Appended{}, err)
	}
}

// abort decides the remaining calls of a group after a panic. The state of the store is then uncertain.
func (m *lane) abort(group []*call) {
	err := fmt.Errorf("%w: the commit panicked", ErrUnavailable)
	for _, c := range group {
		if c.live != nil && !c.left {
			m.fail(c.live)
		}
		if !c.left {
			c.verdict.decide(Appended{}, err)
		}
	}
	m.unstage()
	m.traced = traced{}
}

// unstage resets the lane for the next commit.
func (m *lane) unstage() {
	for i := range m.batches {
		m.batches[i].live.staged = 0
	}
	if n := len(m.reqs); n > 1 { // a single one is overwritten by the next commit
		clear(m.batches[:min(n+1, cap(m.batches))]) // a refused append may have begun one more
		clear(m.reqs)
	}
	m.batches, m.reqs = m.batches[:0], m.reqs[:0]
}

// isOvertaken reports whether the store has refused a batch because of another replica's append, or because the stream
// has another epoch. The stream must be read again before the call can be decided.
func isOvertaken(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrEnded) || errors.Is(err, ErrNotFound) ||
		errors.Is(err, ErrExpired)
}

// stage checks an append against the stream and adds its events to the batch.
func (m *lane) stage(c *call) error {
	lv := c.live
	if err := lv.appendable(); err != nil {
		return err
	}
	st := m.batchOf(lv)
	// A refusal that depends on appends of this commit holds only if the commit succeeds.
	c.joined = lv.staged != 0
	if c.opts.Owner != st.owner && c.opts.Owner.Fence <= st.owner.Fence {
		return fmt.Errorf("%w: it belongs to %q", ErrFenced, st.owner.Name)
	}
	if done, err := c.repeats(st.producers); done || c.skip > 0 || err != nil {
		// The producer may have appended at another replica, or a promotion may have taken back its appends: a
		// duplicate of a lost append would be an event that is stored nowhere.
		if !c.asked && m.log.Shared() {
			c.asked = true
			return errStale
		}
		if done || err != nil {
			return err
		}
	}
	if st.end != nil || lv.info.End != nil {
		return ErrEnded
	}
	if err := c.isExpected(st.first+uint64(st.count), m.log); err != nil {
		return err
	}
	if err := c.isGuarded(st.producers, m.log); err != nil {
		return err
	}
	if c.unmoved != nil && (lv.info.Epoch != c.unmoved.epoch || st.first+uint64(st.count) != c.unmoved.tail+1) {
		return errInUse
	}
	if err := m.makeRoom(st, c); err != nil {
		return err
	}
	st.add(c, &m.clock)
	if lv.staged == 0 {
		n := len(m.batches) + 1
		m.batches, m.reqs = m.batches[:n], slices.Grow(m.reqs, 1)[:n]
		lv.staged = n
	}
	st.fill(&m.reqs[lv.staged-1])
	return nil
}

// batchOf returns the staged batch of a stream. An empty one is not part of m.batches yet.
func (m *lane) batchOf(lv *live) *staged {
	if lv.staged != 0 {
		return &m.batches[lv.staged-1]
	}
	n := len(m.batches)
	m.batches = slices.Grow(m.batches, 1)
	st := &m.batches[:n+1][n]
	st.begin(lv)
	return st
}

// appendable returns the error of an append to a stream that cannot be staged now.
func (lv *live) appendable() error {
	switch { // only the lane writes these, so reading them here needs no lock
	case lv.gone != nil:
		return lv.gone
	case lv.isStale():
		return errStale
	case lv.held != nil:
		return errHeld
	}
	return nil
}

// begin resets st for a new batch. Here and in fill, fields are set one by one: for a lone append, copying whole
// structs with their pointers would take longer than the rest. In a row of appends to one stream, st still has the
// buffers of the last one: pointers that stay are not written, which the collector would notice.
func (st *staged) begin(lv *live) {
	st.first, st.count = lv.info.Tail+1, 0
	st.earliest, st.kept = lv.info.Earliest, lv.info.Bytes
	if len(st.producers) != 0 || len(lv.info.Producers) != 0 {
		st.producers, st.fresh = lv.info.Producers, nil
	}
	if st.owner != lv.info.Owner {
		st.owner = lv.info.Owner
	}
	if st.end != nil || st.err != nil {
		st.end, st.err = nil, nil
	}
	b := lv.newest.Load()
	switch {
	case b == nil:
		st.live, st.block, st.buf, st.ends = lv, nil, nil, nil
	case b != st.block || len(b.buf) != len(st.buf) || lv != st.live:
		st.live, st.block, st.buf, st.ends = lv, b, b.buf, b.ends
	}
	st.from = len(st.buf)
}

// add encodes the events of c into the batch, behind the staged ones.
func (st *staged) add(c *call, clock *clock) {
	lv := st.live
	c.joined = true
	if st.owner != c.opts.Owner {
		st.owner = c.opts.Owner
	}
	st.reserve(c.size, len(c.events)-c.skip)
	next := st.first + uint64(st.count)
	events := c.events[c.skip:]
	c.found = Appended{First: next, Last: next + uint64(len(events)) - 1, Epoch: lv.info.Epoch}
	ms := int64(0)
	buf, ends := st.buf, st.ends
	for i := range events {
		if ms == 0 && events[i].Time.IsZero() {
			ms = clock.milliseconds()
		}
		buf = appendRecord(buf, &events[i], ms)
		ends = append(ends, uint32(len(buf)))
	}
	st.count += len(events)
	st.kept += int64(len(buf) - len(st.buf))
	st.buf, st.ends = st.buf[:len(buf)], st.ends[:len(ends)] // reserve has made room, so the memory is the same
	if c.end != nil {
		end := *c.end
		end.Expires = end.Time.Add(lv.retention.MaxAge)
		st.end = &end
	}
	if p := c.opts.Producer; p != nil {
		st.remember(&Producer{ID: p.ID, Epoch: p.Epoch, Seq: p.last(len(c.events))}, &c.found)
	}
	if g := c.opts.Guard; g != nil {
		st.remember(&Producer{ID: g.ID, Epoch: g.Epoch, Seq: g.Seq}, &c.found)
	}
	if bound := uint64(lv.retention.MaxEvents); c.found.Last > bound {
		st.trim(c.found.Last - bound + 1)
	}
}

// reserve makes room for size bytes of count events in one block. A batch must be contiguous, so staged events are
// copied to a new block. It has twice the size, so that a long batch is not copied at each append. The old block stays
// as it was published.
func (st *staged) reserve(size, count int) {
	if st.block != nil && cap(st.buf)-len(st.buf) >= size {
		if cap(st.ends)-len(st.ends) < count {
			st.ends = slices.Grow(st.ends, count)
		}
		return
	}
	batch := st.buf[st.from:]
	before := st.block
	base := uint32(st.from)
	lengths := st.ends[len(st.ends)-st.count:]
	st.block = newBlock(st.first, len(batch)+max(size, len(batch)), before)
	st.from = 0
	st.buf = append(st.block.buf, batch...)
	expected := cap(st.buf) * count / size // if all are as these
	if before != nil {
		expected = min(expected, 2*len(before.ends))
	}
	st.ends = make([]uint32, 0, max(expected, len(lengths)+count))
	for _, end := range lengths {
		st.ends = append(st.ends, end-base)
	}
}

// fill sets r to the request of the staged batch.
func (st *staged) fill(r *AppendRequest) {
	r.Key, r.Epoch = st.live.key, st.live.info.Epoch
	r.Revision, r.First, r.Count = st.live.info.Revision, st.first, st.count
	r.Bytes = st.buf[st.from:len(st.buf)] // with capacity: it tells a store which batches are adjacent
	r.Earliest, r.Kept = st.earliest, st.kept
	if r.Owner != st.owner {
		r.Owner = st.owner
	}
	r.End, r.Producers = st.end, st.fresh
}

// commit passes the batches to the store and publishes those that it has kept.
func (m *lane) commit() {
	if len(m.reqs) == 0 {
		return
	}
	var start time.Time
	hook := m.log.opts.Hooks.Committed
	if hook != nil || m.wanted {
		start = time.Now()
	}
	errs := m.log.store.Append(context.Background(), m.reqs)
	if m.wanted {
		m.began, m.stored = start, time.Now()
	}
	m.noteHealth(errs)
	for i := range m.batches {
		st := &m.batches[i]
		if errs != nil && errs[i] != nil {
			st.err = errs[i]
			m.fail(st.live)
			continue
		}
		m.publish(st)
	}
	if hook != nil {
		hook(m.info(errs, time.Since(start)))
	}
}

func (m *lane) info(errs []error, took time.Duration) CommitInfo {
	info := CommitInfo{Streams: len(m.reqs), Duration: took, Waited: m.waited}
	for i := range m.reqs {
		info.Events += m.reqs[i].Count
		info.Bytes += len(m.reqs[i].Bytes)
		switch {
		case errs == nil || errs[i] == nil:
		case isOvertaken(errs[i]):
			info.Overtaken++
		default:
			info.Failed++
		}
	}
	return info
}

// publish makes the batch visible to readers.
func (m *lane) publish(st *staged) {
	lv := st.live
	more := int64(st.count) - int64(st.earliest-lv.info.Earliest)
	m.log.usage.add(lv.charged, amount{events: more, bytes: st.kept - lv.info.Bytes})
	lv.sizes.add(st.first+uint64(st.count)-1, int64(len(st.buf)-st.from))
	lv.mu.Lock()
	defer lv.mu.Unlock()
	before := lv.hotBytes
	if lv.newest.Load() != st.block {
		lv.push(st.block)
	}
	st.block.extend(st.buf, st.ends)
	lv.info.Tail = st.first + uint64(st.count) - 1
	lv.info.Earliest, lv.info.Bytes = st.earliest, st.kept
	if lv.info.Owner != st.owner {
		lv.info.Owner = st.owner
	}
	if st.fresh != nil {
		lv.info.Producers = st.producers
	}
	lv.used = true
	if st.end != nil {
		lv.info.End = st.end
		if lv.info.Config.Expires().IsZero() {
			m.log.idle.forget(lv.key)
		}
		m.log.ended.note(&lv.info, lv.charged)
	}
	lv.trimHot(m.log.opts.TailBytes)
	if lv.hotBytes != before {
		m.log.hotBytes.Add(int64(lv.hotBytes - before))
	}
	lv.wakeAll()
}

// fail hides the batch from readers. The state of the store is uncertain, so the store is asked before the next append.
// The store may retain the bytes, so nothing is written over them.
func (m *lane) fail(lv *live) {
	lv.mu.Lock()
	defer lv.mu.Unlock()
	lv.doubts++
	m.log.hotBytes.Add(-lv.cool())
}

// traced is the information of a lane about the current commit, for traced appends.
type traced struct {
	wanted        bool // whether an append of the group is traced
	began, stored time.Time
}

// tell fills in the traces of the appends of a commit.
func (m *lane) tell(group []*call) {
	var sum AppendTrace
	for i := range m.reqs {
		sum.Events += m.reqs[i].Count
		sum.Bytes += len(m.reqs[i].Bytes)
	}
	for _, c := range group {
		if t := c.opts.Trace; t != nil && c.isOpen() {
			t.Began, t.Stored = m.traced.began, m.traced.stored
			t.Streams, t.Events, t.Bytes = len(m.reqs), sum.Events, sum.Bytes
		}
	}
}
