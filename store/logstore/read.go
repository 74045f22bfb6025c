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
	batches  []batch
	segments map[uint32]*segment
}

func (s *Store) view(key reprise.StreamKey, after uint64, maxBytes int) (*view, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	st, err := s.find(key, time.Now())
	if err != nil {
		return nil, err
	}
	v := &view{id: st.id, info: st.info()}
	if after >= st.tail || maxBytes <= 0 {
		return v, nil
	}
	start, size := max(after+1, st.earliest), 0
	for b := range st.places.from(start) {
		if v.batches == nil { // as if the others had the size of the first one, and an event each
			v.batches = make([]batch, 0, min(st.tail+1-start, uint64(maxBytes)/uint64(b.size+1)+1, 1024))
		}
		v.batches = append(v.batches, b)
		if size += int(b.size); size >= maxBytes {
			break
		}
	}
	v.segments = map[uint32]*segment{}
	for _, b := range v.batches {
		if v.segments[b.segment] == nil {
			seg := s.segments[b.segment]
			seg.users.Add(1)
			v.segments[b.segment] = seg
		}
	}
	return v, nil
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
	ids, next, err := s.index.Page(q, s.lastID)
	if err != nil {
		return reprise.ListPage{}, err
	}
	page := reprise.ListPage{Next: next}
	for _, id := range ids {
		info := s.byID[id].info()
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
