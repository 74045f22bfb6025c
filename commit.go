package reprise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// commits is the writing half of a Log. All of it but the committer is touched by one
// goroutine at a time, the one whose turn it is. What it asks of the store is asked for
// several callers together, so no caller's context can cancel it; stores bound the
// time that they take.
type commits struct {
	committer committer
	log       *Log
	usage     usage
	reqs      []AppendRequest
	lives     []*live // whose batches reqs are
	unsure    bool    // a call is in doubt
}

// staged is what the commit under way will add to a stream.
type staged struct {
	index     int // in commits.reqs, plus 1; 0 if nothing is staged
	first     uint64
	count     int
	block     *block
	from      int      // where the batch begins in buf
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

func (m *commits) init(l *Log) {
	m.log = l
	m.committer.run = m.run
	m.usage.init(&l.opts)
}

// exclusively runs f while no commit is under way.
func (m *commits) exclusively(ctx context.Context, f func() error) error {
	return m.committer.do(ctx, &call{fn: func() error {
		if err := m.log.usable(); err != nil {
			return err
		}
		return f()
	}})
}

// run carries out the calls of a group: what is not an append first, since it may
// put streams out of memory that must not be staged then, and after that all
// appends in one commit. Those that another replica was ahead of are tried again.
func (m *commits) run(group []*call) {
	for _, c := range group {
		if c.fn != nil && !c.left {
			c.err = c.fn()
		}
	}
	for _, c := range group {
		if c.fn == nil && !c.left {
			c.err = m.stage(c)
		}
	}
	if len(m.reqs) == 0 && !m.unsure {
		return
	}
	for try := 1; m.commit() && try < maxTries; try++ {
		m.stageAgain(group)
	}
	m.settle(group)
	m.log.coolIfFull()
}

// maxTries is how often an append is tried that other replicas are ahead of.
const maxTries = 32

// settle tells the calls what has become of their batches.
func (m *commits) settle(group []*call) {
	for _, c := range group {
		if c.joined && c.live.staged.err != nil {
			c.err = c.live.staged.err
		}
		if c.joined && errors.Is(c.live.staged.err, ErrConflict) {
			c.err = fmt.Errorf("%w: other replicas were ahead %d times", ErrUnavailable, maxTries)
		}
	}
	m.unstage()
}

// unstage makes room for the next commit.
func (m *commits) unstage() {
	for _, lv := range m.lives {
		lv.staged.index = 0
	}
	if len(m.reqs) > 1 { // one is overwritten by the next commit
		clear(m.reqs)
		clear(m.lives)
	}
	m.reqs, m.lives = m.reqs[:0], m.lives[:0]
}

// isOvertaken reports whether the store has refused a batch because of what another replica has appended. Only
// when that has been read can an append be told from one that is there already.
func isOvertaken(err error) bool { return errors.Is(err, ErrConflict) || errors.Is(err, ErrEnded) }

// stageAgain stages the calls whose streams another replica has appended to meanwhile, or may have.
func (m *commits) stageAgain(group []*call) {
	m.unstage()
	m.unsure = false
	for _, c := range group {
		switch {
		case c.doubt == toBeAsked:
			c.doubt = asked
			c.live.stale = true
		case !c.joined || !isOvertaken(c.live.staged.err):
			continue
		}
		c.joined = false
		c.again = true
	}
	for _, c := range group {
		if c.again {
			c.again = false
			c.err = m.stage(c)
		}
	}
}

// stage checks an append against the stream and adds its events to the batch.
func (m *commits) stage(c *call) error {
	lv := c.live
	if err := m.ready(lv); err != nil {
		return err
	}
	st := &lv.staged
	if st.index == 0 {
		st.begin(lv)
	}
	// What is judged by the appends of this very commit stands and falls with them.
	c.joined = st.index != 0
	if c.opts.Owner != st.owner && c.opts.Owner.Fence <= st.owner.Fence {
		return fmt.Errorf("%w: it belongs to %q", ErrFenced, st.owner.Name)
	}
	if done, err := c.repeats(st.producers); done || err != nil {
		if err != nil && c.doubt == 0 && m.log.Shared() { // the producer may have gone on at another replica
			c.doubt, m.unsure = toBeAsked, true
		}
		return err
	}
	if st.end != nil || lv.info.End != nil {
		return ErrEnded
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

// ready makes sure that what is known of the stream is what the store has.
func (m *commits) ready(lv *live) error {
	// Only the one whose turn it is writes gone, so that reading it here takes no lock.
	if lv.gone != nil || !lv.stale {
		return lv.gone
	}
	page, err := m.log.store.Read(context.Background(), lv.key, 1<<63, 0)
	if err != nil {
		m.forgetIfLost(lv, err)
		return err
	}
	if err := m.sameLife(lv, lv.info.Tail, &page.Info); err != nil {
		return err
	}
	lv.stale = false
	lv.sizes.reset(&page.Info)
	lv.mu.Lock()
	defer lv.mu.Unlock()
	m.usage.add(lv.tenant, page.Info.Bytes-lv.info.Bytes)
	m.log.hotBytes.Add(-lv.cool())
	lv.info = page.Info
	lv.wakeAll()
	return nil
}

// repeats checks the producer of c. done is true if the events are there already.
func (c *call) repeats(known []Producer) (done bool, err error) {
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
	next := uint64(0) // for one that is not known, or at a new epoch
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
	c.appended = Appended{Duplicate: true}
	if p.Seq == newest.Seq {
		c.appended.First, c.appended.Last = newest.First, newest.Last
	}
	return true, nil
}

// begin stages nothing yet. Here and in fill, fields are set one by one: for a lone
// append, copying whole structs with their pointers would take longer than the rest.
func (st *staged) begin(lv *live) {
	st.first, st.count = lv.info.Tail+1, 0
	st.earliest, st.kept = lv.info.Earliest, lv.info.Bytes
	st.producers, st.fresh = lv.info.Producers, nil
	st.owner, st.end, st.err = lv.info.Owner, nil, nil
	st.block, st.from, st.buf, st.ends = nil, 0, nil, nil
	if n := len(lv.blocks); n > 0 {
		b := lv.blocks[n-1]
		st.block, st.from, st.buf, st.ends = b, len(b.buf), b.buf, b.ends
	}
}

// add encodes the events of c into the batch, behind those that are staged.
func (st *staged) add(lv *live, c *call) {
	c.joined = true
	st.owner = c.opts.Owner
	st.reserve(c.size)
	next := st.first + uint64(st.count)
	c.appended = Appended{First: next, Last: next + uint64(len(c.events)) - 1}
	before := len(st.buf)
	ms := time.Now().UnixMilli()
	for i := range c.events {
		st.buf = appendRecord(st.buf, &c.events[i], ms)
		st.ends = append(st.ends, uint32(len(st.buf)))
	}
	st.count += len(c.events)
	st.kept += int64(len(st.buf) - before)
	if c.end != nil {
		end := *c.end
		end.Expires = end.Time.Add(lv.retention.MaxAge)
		st.end = &end
	}
	if p := c.opts.Producer; p != nil {
		newest := Producer{ID: p.ID, Epoch: p.Epoch, Seq: p.Seq, First: c.appended.First, Last: c.appended.Last}
		st.producers = withProducer(st.producers, newest)
		st.fresh = withProducer(st.fresh, newest)
	}
	if bound := uint64(lv.retention.MaxEvents); c.appended.Last > bound {
		st.trim(lv, c.appended.Last-bound+1)
	}
}

// withProducer returns a copy of list with p in place of the one of the same
// ID, at the end, and without the oldest if there are too many.
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

// reserve makes room for size bytes in one block. A batch lies in one piece, so
// what was staged moves along to a new block, of twice its size so that a long batch
// does not move with each append; the old one stays as it was published.
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

// fill makes the request of what is staged.
func (st *staged) fill(r *AppendRequest, lv *live) {
	r.Key, r.Epoch = lv.key, lv.epoch
	r.First, r.Count = st.first, st.count
	r.Bytes = st.buf[st.from:len(st.buf)] // with the room behind it, so that a store can tell what follows in memory
	r.Earliest, r.Kept = st.earliest, st.kept
	r.Owner, r.End, r.Producers = st.owner, st.end, st.fresh
}

// commit hands the batches to the store and publishes those that it has kept. overtaken is true if
// another replica was ahead of one, or may have been ahead of what was refused.
func (m *commits) commit() (overtaken bool) {
	overtaken = m.unsure
	if len(m.reqs) == 0 {
		return overtaken
	}
	var start time.Time
	hook := m.log.opts.Hooks.Committed
	if hook != nil {
		start = time.Now()
	}
	errs := m.log.store.Append(context.Background(), m.reqs)
	m.noteHealth(errs)
	for i, lv := range m.lives {
		if errs != nil && errs[i] != nil {
			m.fail(lv, errs[i])
			overtaken = overtaken || isOvertaken(errs[i])
			continue
		}
		m.publish(lv)
	}
	if hook != nil {
		hook(m.info(errs, time.Since(start)))
	}
	return overtaken
}

func (m *commits) info(errs []error, took time.Duration) CommitInfo {
	info := CommitInfo{Streams: len(m.reqs), Duration: took}
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

// publish shows the batch to readers.
func (m *commits) publish(lv *live) {
	st := &lv.staged
	m.usage.add(lv.tenant, st.kept-lv.info.Bytes)
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
	lv.trimHot(m.log.opts.TailBytes)
	m.log.hotBytes.Add(int64(lv.hotBytes - before))
	lv.wakeAll()
}

// fail keeps the batch from readers. What the store then has is uncertain, so
// it is asked before the next append; and since it may keep the bytes, nothing is written
// over them.
func (m *commits) fail(lv *live, err error) {
	st := &lv.staged
	st.err = err
	lv.stale = true
	m.forgetIfLost(lv, err)
	lv.mu.Lock()
	defer lv.mu.Unlock()
	m.log.hotBytes.Add(-lv.cool())
}

// forgetIfLost drops a stream that the store no longer has.
func (m *commits) forgetIfLost(lv *live, err error) {
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired) {
		m.log.forget(lv.key, err)
	}
}
