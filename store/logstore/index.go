package logstore

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
)

// The index of a segment says where in it the batches of each stream lie. That of the newest segment is in memory. When
// the segment has a successor, its index is written behind its end, and read from there in blocks through a cache. It
// says nothing that the segment does not say: it is not synced, and an index that is missing or damaged is made again.
//
//	block   sum, entry, ...
//	entry   id, length, chunk (see places)          ascending by id and first event
//	top     number of blocks, (id, first event, at) of each, where they end
//	foot    magic, length of the blocks, length of the top, sum of the top
//
// Each sum is of the salt of the segment as well, of its end, and of where in the index a block lies.
type index struct {
	blocks []blockHead
	size   int64 // of all blocks
}

// blockHead is the first entry of a block.
type blockHead struct {
	id, first uint64
	at        int64
}

// noIndex is the index of a segment behind whose end none was found.
var noIndex = &index{}

const (
	indexMagic = "reprind\x01"
	footBytes  = 8 + 3*sumBytes
	maxIndex   = 1 << 31 // bytes of an index that is read
)

func (seg *segment) sum(at int64, b []byte) uint32 {
	return batchSum(seg.salt, uint64(seg.end), uint64(at), b)
}

// encodeIndex returns the bytes of the index that is in memory.
func (seg *segment) encodeIndex(blockBytes int) ([]byte, *index) {
	x := &index{}
	var file []byte
	block := -1 // where the current one begins
	seal := func() {
		if block >= 0 {
			le.PutUint32(file[block:], seg.sum(int64(block), file[block+sumBytes:]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(seg.batches)) {
		p := seg.batches[id]
		for chunk := range p.chunks() {
			if block < 0 || len(file)-block >= blockBytes {
				seal()
				block = len(file)
				x.blocks = append(x.blocks, blockHead{id, firstOf(chunk), int64(block)})
				file = append(file, 0, 0, 0, 0)
			}
			file = appendBytes(appendUints(file, id), chunk)
		}
	}
	seal()
	x.size = int64(len(file))
	file = appendUints(file, uint64(len(x.blocks)))
	for _, b := range x.blocks {
		file = appendUints(file, b.id, b.first, uint64(b.at))
	}
	file = appendUints(file, uint64(x.size))
	top := file[x.size:]
	sum := seg.sum(x.size, top)
	file = append(file, indexMagic...)
	file = le.AppendUint32(le.AppendUint32(file, uint32(x.size)), uint32(len(top)))
	return le.AppendUint32(file, sum), x
}

// readIndex reads the top of the index behind the end of a segment. Damage is an error that wraps ErrDamaged.
func (seg *segment) readIndex() (*index, error) {
	size, err := seg.file.size()
	if err != nil {
		return nil, err
	}
	foot := make([]byte, footBytes)
	if size < seg.end+footBytes {
		return nil, damaged("no index")
	}
	if err := readAll(seg.file, foot, size-footBytes); err != nil {
		return nil, err
	}
	blocks, length := int64(le.Uint32(foot[8:])), int64(le.Uint32(foot[12:]))
	if string(foot[:8]) != indexMagic || seg.end+blocks+length+footBytes != size || blocks+length > maxIndex {
		return nil, damaged("no index")
	}
	top := make([]byte, length)
	if err := readAll(seg.file, top, seg.end+blocks); err != nil {
		return nil, err
	}
	if le.Uint32(foot[16:]) != seg.sum(blocks, top) {
		return nil, damaged("the top of the index")
	}
	c := cutter{b: top}
	x := &index{blocks: make([]blockHead, c.length()), size: blocks}
	for i := range x.blocks {
		x.blocks[i] = blockHead{c.uint(), c.uint(), int64(c.uint())}
	}
	if c.uint(); c.bad || len(c.b) > 0 {
		return nil, damaged("the top of the index")
	}
	return x, nil
}

// places yields the batches of a stream from the one that holds the event seq on.
func (x *index) places(seg *segment, cache *blockCache, id, seq uint64, yield func(batch) bool) error {
	i := sort.Search(len(x.blocks), func(i int) bool {
		b := &x.blocks[i]
		return b.id > id || b.id == id && b.first > seq
	})
	for i = max(0, i-1); i < len(x.blocks) && x.blocks[i].id <= id; i++ {
		block, err := cache.get(seg, x, i)
		if err != nil {
			return err
		}
		for c := (cutter{b: block[sumBytes:]}); len(c.b) > 0; {
			found, chunk := c.uint(), c.bytes()
			switch {
			case c.bad || len(chunk) == 0:
				return damaged("block %d of the index", i)
			case found > id:
				return nil
			case found < id:
				continue
			}
			for b := range in(chunk) {
				if b.last() >= seq && !yield(b) {
					return nil
				}
			}
		}
	}
	return nil
}

// blockCache has the blocks of indexes that were read last.
type blockCache struct {
	most int64

	mu     sync.Mutex
	bytes  int64
	recent list.List // of *cachedBlock, the newest first
	byKey  map[blockKey]*list.Element
}

type blockKey struct {
	index *index
	block int
}

type cachedBlock struct {
	key   blockKey
	bytes []byte
}

func newBlockCache(most int64) *blockCache {
	return &blockCache{most: most, byKey: map[blockKey]*list.Element{}}
}

// get returns a block, whose sum is right.
func (c *blockCache) get(seg *segment, x *index, i int) ([]byte, error) {
	key := blockKey{x, i}
	c.mu.Lock()
	e := c.byKey[key]
	if e != nil {
		c.recent.MoveToFront(e)
	}
	c.mu.Unlock()
	if e != nil {
		return e.Value.(*cachedBlock).bytes, nil
	}
	at, end := x.blocks[i].at, x.size
	if i+1 < len(x.blocks) {
		end = x.blocks[i+1].at
	}
	block := make([]byte, max(end-at, sumBytes))
	if err := readAll(seg.file, block, seg.end+at); err != nil {
		return nil, err
	}
	if le.Uint32(block) != seg.sum(at, block[sumBytes:]) {
		return nil, damaged("block %d of the index", i)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[key] == nil {
		c.byKey[key] = c.recent.PushFront(&cachedBlock{key, block})
		for c.bytes += int64(len(block)); c.bytes > c.most && c.recent.Len() > 1; {
			oldest := c.recent.Remove(c.recent.Back()).(*cachedBlock)
			c.bytes -= int64(len(oldest.bytes))
			delete(c.byKey, oldest.key)
		}
	}
	return block, nil
}

// places yields the batches of a stream in a segment, which the caller has pinned, from the one that holds the event
// seq on. begin is called before the first, and again if it begins again, since the index was damaged.
func (s *Store) places(seg *segment, id, seq uint64, begin func(), yield func(batch) bool) error {
	for {
		begin()
		x := s.placesInMemory(seg, id, seq, yield)
		if x == nil {
			return nil
		}
		if x != noIndex {
			err := x.places(seg, s.blocks, id, seq, yield)
			if !errors.Is(err, ErrDamaged) {
				return err
			}
			s.opts.Logger.Warn("the index of a segment is made again", "file", seg.name, "error", err)
		}
		if err := s.restoreIndex(seg, x); err != nil {
			return err
		}
	}
}

// placesInMemory is places if the index is in memory. Otherwise it returns the index.
func (s *Store) placesInMemory(seg *segment, id, seq uint64, yield func(batch) bool) *index {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if seg.batches == nil {
		return seg.index
	}
	p := seg.batches[id]
	for b := range p.from(seq) {
		if !yield(b) {
			break
		}
	}
	return nil
}

// restoreIndex reads the commits of a segment whose index old is damaged, and has the index in memory then. What is
// damaged in the segment is not in it, so that a read of that says so.
func (s *Store) restoreIndex(seg *segment, old *index) error {
	seg.restoring.Lock()
	defer seg.restoring.Unlock()
	s.mu.RLock()
	done := seg.batches != nil || seg.index != old
	s.mu.RUnlock()
	if done {
		return nil
	}
	found := map[uint64]*places{}
	whole, err := seg.scan(func(r *record, b *batch) {
		placesOf(found, r.id).add(b)
	})
	if err != nil {
		return fmt.Errorf("segment %d: %w", seg.number, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seg.batches, seg.index = found, nil
	seg.unwritten = !whole
	s.keeper.ask()
	return nil
}

// scan yields the batches of a segment. Commits that are damaged are left out, and whole is false.
func (seg *segment) scan(yield func(*record, *batch)) (whole bool, err error) {
	whole = true
	var frame []byte
	for at := int64(headerBytes); at < seg.end; {
		var ok bool
		frame, _, ok, err = readFrame(seg.file, at, seg.end, seg.salt, frame)
		if err != nil {
			return false, err
		}
		if ok {
			err = records(frame, at, func(r *record) error {
				if r.kind == kindAppend || r.kind == kindMove {
					b := r.place()
					yield(r, &b)
				}
				return nil
			})
		}
		size := int64(len(frame))
		if !ok || err != nil {
			whole = false
			if size, err = seg.skip(at); err != nil || size == 0 {
				return false, err
			}
		}
		at += size
	}
	return whole, nil
}

// skip returns the size of a damaged commit, as its head says, and 0 if no other commit follows there.
func (seg *segment) skip(at int64) (size int64, err error) {
	var head [frameBytes]byte
	if at+frameBytes > seg.end {
		return 0, nil
	}
	if err := readAll(seg.file, head[:], at); err != nil {
		return 0, err
	}
	size = frameBytes + int64(le.Uint32(head[4:]))
	if at+size+frameBytes > seg.end {
		return 0, nil
	}
	if err := readAll(seg.file, head[:], at+size); err != nil {
		return 0, err
	}
	if !bytes.Equal(head[16:], le.AppendUint64(nil, seg.salt)) {
		return 0, nil
	}
	return size, nil
}

// writeIndexes writes the indexes that are in memory, but that of the newest segment.
func (s *Store) writeIndexes() {
	s.turn <- struct{}{}
	active := s.active
	<-s.turn
	s.mu.RLock()
	var ready []*segment
	for _, seg := range s.segments {
		if seg != active && seg.batches != nil && !seg.failed && !seg.unwritten {
			ready = append(ready, seg)
		}
	}
	s.mu.RUnlock()
	for _, seg := range ready {
		if s.keeper.stopped() {
			return
		}
		file, x := seg.encodeIndex(s.opts.blockBytes) // nothing is added any more
		_, err := seg.file.WriteAt(file, seg.end)
		if err == nil { // what was reserved may still be behind it
			err = seg.file.Truncate(seg.end + int64(len(file)))
		}
		if err != nil {
			_ = seg.file.Truncate(seg.end)
		}
		s.mu.Lock()
		if err == nil {
			seg.batches, seg.index = nil, x
		} else { // it stays in memory
			seg.unwritten = !isFull(err)
		}
		s.mu.Unlock()
	}
}

// adoptIndex takes the index behind the end of a segment in place of the one in memory, if it is there.
func (seg *segment) adoptIndex() {
	x, err := seg.readIndex()
	switch {
	case err == nil:
		seg.batches, seg.index = nil, x
	case seg.batches == nil:
		seg.index = noIndex
	}
}
