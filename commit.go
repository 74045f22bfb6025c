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
	log   *Log
	reqs  []AppendRequest
	lives []*live // the streams of reqs
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
	index     int // in lane.reqs, plus 1; 0 if nothing is staged
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
	m.committer.run, m.committer.abort, m.committer.recovered = m.run, m.abort, l.recovered
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
			c.settle()
		}
	}
	m.unstage()
	m.log.coolIfFull()
}

// isOpen reports whether c is an append without a verdict.
func (c *call) isOpen() bool { return c.fn == nil && !c.left && !c.verdict.decided }

// stageOrDecide stages an append. A refusal is its verdict at once, unless it depends on the commit.
func (m *lane) stageOrDecide(c *call) {
	c.joined, c.found = false, Appended{}
	c.refusal = m.stage(c)
	m.wanted = m.wanted || c.opts.Trace != nil
	if !c.joined || c.refusal == errStale || c.refusal == errUnmeasured { //nolint:errorlint // ours, never wrapped
		c.verdict.decide(c.found, c.refusal)
	}
}

// settle decides a call by the store's result for its batch.
func (c *call) settle() {
	switch err := c.live.staged.err; {
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
			m.fail(c.live, err)
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
	for _, lv := range m.lives {
		lv.staged.index = 0
	}
	if len(m.reqs) > 1 { // a single one is overwritten by the next commit
		clear(m.reqs)
		clear(m.lives)
	}
	m.reqs, m.lives = m.reqs[:0], m.lives[:0]
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
	st := &lv.staged
	if st.index == 0 {
		st.begin(lv)
	}
	// A refusal that depends on appends of this commit holds only if the commit succeeds.
	c.joined = st.index != 0
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
	if c.unmoved != nil && (lv.info.Epoch != c.unmoved.epoch || st.first+uint64(st.count) != c.unmoved.tail+1) {
		return errInUse
	}
	if err := m.makeRoom(lv, c); err != nil {
		return err
	}
	st.add(lv, c)
	if st.index == 0 {
		m.reqs = slices.Grow(m.reqs, 1)[:len(m.reqs)+1]
		m.lives = append(m.lives, lv)
		st.index = len(m.reqs)
	}
	st.fill(&m.reqs[st.index-1], lv)
	return nil
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

// repeats checks the producer of c. done is true if all events are already stored; otherwise c.skip is the number of
// those that are.
func (c *call) repeats(known []Producer) (done bool, err error) {
	c.skip = 0
	p := c.opts.Producer
	if p == nil {
		return false, nil
	}
	var newest Producer
	for _, k := range known {
		if k.ID == p.ID {
			newest = k
		}
	}
	next := uint64(0) // of an unknown producer, or at a new epoch
	switch {
	case p.Epoch < newest.Epoch:
		return false, fmt.Errorf("%w: producer %q is at epoch %d", ErrFenced, p.ID, newest.Epoch)
	case newest.ID != "" && p.Epoch == newest.Epoch:
		next = newest.Seq + 1
	}
	switch {
	case p.Seq == next:
		return false, nil
	case p.Seq > next:
		return false, fmt.Errorf("%w: producer %q is to go on with %d, not %d", ErrConflict, p.ID, next, p.Seq)
	}
	if p.PerEvent && next-p.Seq < uint64(len(c.events)) {
		c.skip = int(next - p.Seq)
		return false, nil
	}
	c.found = Appended{Duplicate: true, Epoch: c.live.info.Epoch}
	switch {
	case p.last(len(c.events)) != newest.Seq:
	case p.PerEvent:
		c.found.First, c.found.Last = newest.Last, newest.Last
	default:
		c.found.First, c.found.Last = newest.First, newest.Last
	}
	return true, nil
}

// last returns the number of the last of so many events.
func (p *ProducerID) last(events int) uint64 {
	if p.PerEvent {
		return p.Seq + uint64(events) - 1
	}
	return p.Seq
}

// begin resets st for a new batch. Here and in fill, fields are set one by one: for a lone append, copying whole
// structs with their pointers would take longer than the rest.
func (st *staged) begin(lv *live) {
	st.first, st.count = lv.info.Tail+1, 0
	st.earliest, st.kept = lv.info.Earliest, lv.info.Bytes
	st.producers, st.fresh = lv.info.Producers, nil
	st.owner, st.end, st.err = lv.info.Owner, nil, nil
	st.block, st.from, st.buf, st.ends = nil, 0, nil, nil
	if b := lv.newestBlock(); b != nil {
		st.block, st.from, st.buf, st.ends = b, len(b.buf), b.buf, b.ends
	}
}

// add encodes the events of c into the batch, behind the staged ones.
func (st *staged) add(lv *live, c *call) {
	c.joined = true
	st.owner = c.opts.Owner
	st.reserve(c.size)
	next := st.first + uint64(st.count)
	events := c.events[c.skip:]
	c.found = Appended{First: next, Last: next + uint64(len(events)) - 1, Epoch: lv.info.Epoch}
	before := len(st.buf)
	ms := time.Now().UnixMilli()
	for i := range events {
		st.buf = appendRecord(st.buf, &events[i], ms)
		st.ends = append(st.ends, uint32(len(st.buf)))
	}
	st.count += len(events)
	st.kept += int64(len(st.buf) - before)
	if c.end != nil {
		end := *c.end
		end.Expires = end.Time.Add(lv.retention.MaxAge)
		st.end = &end
	}
	if p := c.opts.Producer; p != nil {
		newest := Producer{ID: p.ID, Epoch: p.Epoch, Seq: p.last(len(c.events))}
		newest.First, newest.Last = c.found.First, c.found.Last
		st.producers = withProducer(st.producers, newest)
		st.fresh = withProducer(st.fresh, newest)
	}
	if bound := uint64(lv.retention.MaxEvents); c.found.Last > bound {
		st.trim(lv, c.found.Last-bound+1)
	}
}

// withProducer returns a copy of list in which p replaces the producer of the same ID, at the end, and without the
// oldest if there are too many.
func withProducer(list []Producer, p Producer) []Producer {
	out := make([]Producer, 0, len(list)+1)
	for _, k := range list {
		if k.ID != p.ID {
			out = append(out, k)
		}
	}
	out = append(out, p)
	return out[max(0, len(out)-MaxProducers):]
}

// reserve makes room for size bytes in one block. A batch must be contiguous, so staged events are copied to a new
// block. It has twice the size, so that a long batch is not copied at each append. The old block stays as it was
// published.
func (st *staged) reserve(size int) {
	if st.block != nil && cap(st.buf)-len(st.buf) >= size {
		return
	}
	batch := st.buf[st.from:]
	before := 0
	if st.block != nil {
		before = cap(st.block.buf)
	}
	base := uint32(st.from)
	lengths := st.ends[len(st.ends)-st.count:]
	st.block = newBlock(st.first, len(batch)+max(size, len(batch)), before)
	st.from = 0
	st.buf = append(st.block.buf, batch...)
	st.ends = make([]uint32, 0, max(8, len(st.block.ends)))
	for _, end := range lengths {
		st.ends = append(st.ends, end-base)
	}
}

// fill sets r to the request of the staged batch.
func (st *staged) fill(r *AppendRequest, lv *live) {
	r.Key, r.Epoch = lv.key, lv.info.Epoch
	r.First, r.Count = st.first, st.count
	r.Bytes = st.buf[st.from:len(st.buf)] // with capacity: it tells a store which batches are adjacent
	r.Earliest, r.Kept = st.earliest, st.kept
	r.Owner, r.End, r.Producers = st.owner, st.end, st.fresh
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
	for i, lv := range m.lives {
		if errs != nil && errs[i] != nil {
			m.fail(lv, errs[i])
			continue
		}
		m.publish(lv)
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
func (m *lane) publish(lv *live) {
	st := &lv.staged
	more := int64(st.count) - int64(st.earliest-lv.info.Earliest)
	m.log.usage.add(lv.charged, amount{events: more, bytes: st.kept - lv.info.Bytes})
	lv.sizes.add(st.first+uint64(st.count)-1, int64(len(st.buf)-st.from))
	lv.mu.Lock()
	defer lv.mu.Unlock()
	before := lv.hotBytes
	if n := len(lv.blocks); n == 0 || lv.blocks[n-1] != st.block {
		lv.blocks = append(lv.blocks, st.block)
		lv.hotBytes += cap(st.block.buf)
	}
	st.block.buf, st.block.ends = st.buf, st.ends
	lv.info.Tail = st.first + uint64(st.count) - 1
	lv.info.Earliest, lv.info.Bytes, lv.info.End = st.earliest, st.kept, st.end
	lv.info.Owner, lv.info.Producers = st.owner, st.producers
	lv.used = true
	if st.end != nil {
		m.log.idle.forget(lv.key)
	}
	lv.trimHot(m.log.opts.TailBytes)
	m.log.hotBytes.Add(int64(lv.hotBytes - before))
	lv.wakeAll()
}

// fail hides the batch from readers. The state of the store is uncertain, so the store is asked before the next append.
// The store may retain the bytes, so nothing is written over them.
func (m *lane) fail(lv *live, err error) {
	lv.staged.err = err
	lv.mu.Lock()
	defer lv.mu.Unlock()
	lv.doubts++
	m.log.hotBytes.Add(-lv.cool())
}
