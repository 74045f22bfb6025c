package logstore

import (
	"context"
	"fmt"
	"time"

	"reprise"
)

// maxGap is the largest gap between two batches of a stream that are read together: the heads of a record and of a
// frame. The gap stays in memory as long as the batches.
const maxGap = 64

// Read returns a page; see reprise.Store. It reads adjacent batches at once and verifies their checksums.
func (s *Store) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (
	_ reprise.Page, err error,
) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return reprise.Page{}, err
	}
	defer s.use.Leave()
	v, err := s.view(key, after, maxBytes)
	if err != nil {
		return reprise.Page{}, err
	}
	defer v.release(s)
	page := reprise.Page{Info: v.info}
	page.Batches, err = v.read()
	if err != nil {
		return reprise.Page{}, fmt.Errorf("stream %s: %w", key, err)
	}
	return page, nil
}

// view is a snapshot of a stream with the places of the requested batches. It pins their segments until it is released.
type view struct {
	id       uint64
	info     reprise.StreamInfo
	start    uint64 // the first event that is wanted
	parts    []part
	batches  []batch
	segments map[uint32]*segment
}

// part is a part of a view: the batches that lie in a segment, of the events from first on and before next.
type part struct {
	seg         *segment
	first, next uint64
	inMemory    bool // batches are those that are wanted
	batches     []batch
	bytes       int
}

// adder returns a function that adds batches until they have so many bytes.
func (p *part) adder(most int) func(batch) bool {
	return func(b batch) bool {
		if b.first >= p.next {
			return false
		}
		b.segment = p.seg.number
		p.batches = append(p.batches, b)
		p.bytes += int(b.size)
		return p.bytes < most
	}
}

// view returns the view of a page. Places that are not in memory are read when their segments are pinned. If these
// have less than was expected, there is another try with more.
func (s *Store) view(key reprise.StreamKey, after uint64, maxBytes int) (*view, error) {
	for spare := 0; ; spare = 4*spare + maxBytes {
		v, more, err := s.pin(key, after, maxBytes, spare)
		if err != nil {
			return nil, err
		}
		bytes, err := v.fill(s, maxBytes)
		if err == nil && (bytes >= maxBytes || !more) {
			return v, nil
		}
		if v.release(s); err != nil {
			return nil, fmt.Errorf("stream %s: %w", key, err)
		}
	}
}

// pin returns a view of the runs that have maxBytes and spare bytes together. more reports that there are more runs.
func (s *Store) pin(key reprise.StreamKey, after uint64, maxBytes, spare int) (v *view, more bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	st, err := s.find(key, time.Now())
	if err != nil {
		return nil, false, err
	}
	v = &view{id: st.id, info: st.info()}
	if after >= st.tail || maxBytes <= 0 {
		return v, false, nil
	}
	v.start = max(after+1, st.earliest)
	v.segments = map[uint32]*segment{}
	least := -int64(spare)
	for r, next := range st.runs.from(v.start) {
		if least >= int64(maxBytes) {
			return v, true, nil
		}
		seg := s.segments[r.segment]
		if v.segments[r.segment] == nil {
			seg.users.Add(1)
			v.segments[r.segment] = seg
		}
		p := part{seg: seg, first: max(r.first, v.start), next: min(next, st.tail+1), inMemory: seg.batches != nil}
		if p.inMemory {
			add, places := p.adder(maxBytes), seg.batches[st.id]
			for b := range places.from(p.first) {
				if !add(b) {
					break
				}
			}
			least += int64(p.bytes)
		} else if r.first >= v.start {
			least += max(0, int64(r.space)-sumBytes*int64(p.next-r.first))
		}
		v.parts = append(v.parts, p)
	}
	return v, false, nil
}

// fill sets the batches of v, up to the one with which they have maxBytes, and returns the bytes they have.
func (v *view) fill(s *Store, maxBytes int) (bytes int, err error) {
	for i := range v.parts {
		p := &v.parts[i]
		if !p.inMemory {
			begin := func() { p.batches, p.bytes = nil, 0 }
			if err := s.places(p.seg, v.id, p.first, begin, p.adder(maxBytes-bytes)); err != nil {
				return 0, err
			}
		}
		for next, i := p.first, 0; next < p.next && bytes < maxBytes; i++ {
			if i == len(p.batches) || p.batches[i].first > next {
				return 0, damaged("event %d has no place in segment %d", next, p.seg.number)
			}
			bytes += int(p.batches[i].size)
			v.batches = append(v.batches, p.batches[i])
			next = p.batches[i].last() + 1
		}
		if bytes >= maxBytes {
			break
		}
	}
	return bytes, nil
}

func (v *view) release(s *Store) {
	for _, seg := range v.segments {
		s.release(seg)
	}
}

// span returns the number of batches, from the first on, that can be read at once. bytes is their extent from the
// checksum of the first to the end of the last.
func span(batches []batch) (n int, bytes int64) {
	first := &batches[0]
	n = 1
	for n < len(batches) {
		gap := int64(batches[n].at) - batches[n-1].end()
		if batches[n].segment != first.segment || gap < 0 || gap > maxGap {
			break
		}
		n++
	}
	return n, batches[n-1].end() - int64(first.at)
}

// read reads all batches into one block of memory.
func (v *view) read() ([]reprise.Batch, error) {
	total := int64(0)
	for rest := v.batches; len(rest) > 0; {
		n, size := span(rest)
		total += size
		rest = rest[n:]
	}
	memory := make([]byte, total)
	pages := make([]reprise.Batch, 0, len(v.batches))
	for rest := v.batches; len(rest) > 0; {
		n, size := span(rest)
		seg, start := v.segments[rest[0].segment], int64(rest[0].at)
		if err := readAll(seg.file, memory[:size], start); err != nil {
			return nil, fmt.Errorf("segment %d at %d: %w", seg.number, start, err)
		}
		for _, b := range rest[:n] {
			bytes := memory[int64(b.at)-start : b.end()-start : b.end()-start]
			if le.Uint32(bytes) != batchSum(v.id, b.first, uint64(b.count), bytes[sumBytes:]) {
				return nil, damaged("the batch at %d of segment %d", b.at, seg.number)
			}
			pages = append(pages, reprise.Batch{First: b.first, Count: int(b.count), Bytes: bytes[sumBytes:]})
		}
		memory, rest = memory[size:], rest[n:]
	}
	return pages, nil
}

// List returns streams; see reprise.Store. It takes O(log n) time in the number of streams, and O(1) for each stream
// that it returns.
func (s *Store) List(ctx context.Context, q reprise.ListQuery) (_ reprise.ListPage, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return reprise.ListPage{}, err
	}
	defer s.use.Leave()
	s.mu.RLock()
	defer s.mu.RUnlock()
	index := &s.index
	if q.Open {
		index = &s.open
	}
	ids, next, err := index.Page(q, s.lastID, func(id uint64) bool {
		return s.streams.takes(id, &q)
	})
	if err != nil {
		return reprise.ListPage{}, err
	}
	page := reprise.ListPage{Next: next}
	for _, id := range ids {
		info := s.streams.peek(id, s.tenants).info()
		info.Producers = nil
		page.Streams = append(page.Streams, info)
	}
	return page, nil
}

// Sizes returns the size of each tenant; see reprise.Sizer. It takes O(1) time for each tenant.
func (s *Store) Sizes(ctx context.Context) (_ map[reprise.Tenant]reprise.Size, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return nil, err
	}
	defer s.use.Leave()
	s.mu.RLock()
	defer s.mu.RUnlock()
	sizes := make(map[reprise.Tenant]reprise.Size, len(s.tenants))
	for name, tenant := range s.tenants {
		if tenant.size.Streams > 0 { // there may be only marks
			sizes[name] = tenant.size
		}
	}
	return sizes, nil
}
