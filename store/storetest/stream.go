package storetest

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"reprise"
)

// eventBytes is the size of an event in the batches of a stream.
const eventBytes = 16

// stream is a stream together with the state that the Store must have. The bytes of each event identify it.
type stream struct {
	e              *env
	key            reprise.StreamKey
	epoch          reprise.Epoch
	first          reprise.Epoch // that it was created in, which its bytes name
	owner          reprise.Owner
	earliest, tail uint64
	info           reprise.StreamInfo // as it was created
	end            *reprise.End
	// doubtful says that the tail in the Store may differ.
	doubtful bool
	// lost says that the Store has lost events after the tail, and must be in another epoch.
	lost bool
}

// on returns s as another replica sees it.
func (s *stream) on(other *env) *stream {
	its := *s
	its.e = other
	return &its
}

// appendEvent appends the bytes of the event seq of a stream.
func appendEvent(dst []byte, k reprise.StreamKey, epoch reprise.Epoch, seq uint64) []byte {
	h := fnv.New64a()
	h.Write([]byte(k.String()))
	h.Write([]byte(epoch))
	dst = binary.BigEndian.AppendUint64(dst, h.Sum64())
	return binary.BigEndian.AppendUint64(dst, seq)
}

// batch returns the bytes of count events, starting with first.
func (s *stream) batch(first uint64, count int) []byte {
	b := appendEvent(make([]byte, 0, count*eventBytes), s.key, s.first, first)
	for i := 1; i < count; i++ {
		b = append(b, b[:8]...)
		b = binary.BigEndian.AppendUint64(b, first+uint64(i))
	}
	return b
}

// isBatch reports whether b has the bytes of its events.
func (s *stream) isBatch(b reprise.Batch) bool {
	if b.Count < 1 || len(b.Bytes) != b.Count*eventBytes {
		return false
	}
	head := string(appendEvent(nil, s.key, s.first, 0)[:8])
	for i := range b.Count {
		event := b.Bytes[i*eventBytes:][:eventBytes]
		if string(event[:8]) != head || binary.BigEndian.Uint64(event[8:]) != b.First+uint64(i) {
			return false
		}
	}
	return true
}

// keptBytes returns the value of StreamInfo.Bytes that a window must have.
func keptBytes(earliest, tail uint64) int64 { return int64(tail+1-earliest) * eventBytes }

// request returns the append of the next count events.
func (s *stream) request(count int) reprise.AppendRequest {
	first := s.tail + 1
	return reprise.AppendRequest{
		Key: s.key, Epoch: s.epoch, Owner: s.owner, Revision: s.info.Revision, First: first, Count: count,
		Bytes: s.batch(first, count), Earliest: s.earliest, Kept: keptBytes(s.earliest, s.tail+uint64(count)),
	}
}

// accepted records that the Store has stored req.
func (s *stream) accepted(req reprise.AppendRequest) {
	s.tail = req.First + uint64(req.Count) - 1
	s.earliest = req.Earliest
	s.owner = req.Owner
	s.end = req.End
}

// send appends req, which must succeed.
func (s *stream) send(req reprise.AppendRequest) {
	errs := s.e.store.Append(s.e.ctx, []reprise.AppendRequest{req})
	if errs != nil {
		s.e.failf("append events %d to %d to %s: %v, want nil", req.First, req.First+uint64(req.Count)-1, s.key, errs)
	}
	s.accepted(req)
}

// append appends batches with the given numbers of events.
func (s *stream) append(counts ...int) *stream {
	for _, n := range counts {
		s.send(s.request(n))
	}
	return s
}

// finish appends the end event.
func (s *stream) finish(expires time.Time) *stream {
	req := s.request(1)
	req.End = &reprise.End{Outcome: "completed", Time: now(), Expires: expires, Data: []byte(`{"code":0}`)}
	s.send(req)
	return s
}

// refused sends req, which must be rejected with want and change nothing.
func (s *stream) refused(req reprise.AppendRequest, want error, what string) {
	errs := s.e.store.Append(s.e.ctx, []reprise.AppendRequest{req})
	if len(errs) != 1 {
		s.e.failf("append %s: got %d errors for 1 request, want %v", what, len(errs), want)
	}
	s.e.wantError(errs[0], want, "append %s", what)
}

// trim removes the events before a seq.
func (s *stream) trim(before uint64) *stream {
	spec := reprise.RemoveSpec{Trim: before, Kept: keptBytes(before, s.tail)}
	s.e.noError(s.e.store.Remove(s.e.ctx, s.key, spec), "trim %s before %d", s.key, before)
	s.earliest = before
	return s
}

// remove removes all of s.
func (s *stream) remove(spec reprise.RemoveSpec) {
	s.e.noError(s.e.store.Remove(s.e.ctx, s.key, spec), "remove %s", s.key)
}

// state returns the StreamInfo that the Store must have.
func (s *stream) state() reprise.StreamInfo {
	info := s.info
	info.Owner = s.owner
	info.Earliest, info.Tail, info.Bytes, info.End = s.earliest, s.tail, keptBytes(s.earliest, s.tail), s.end
	return info
}

// read reads a page and checks its consistency, even while others change the stream.
func (s *stream) read(after uint64, maxBytes int) reprise.Page {
	page, err := s.e.store.Read(s.e.ctx, s.key, after, maxBytes)
	s.e.noError(err, "read %s after %d, %d bytes", s.key, after, maxBytes)
	s.consistent(&page, after, maxBytes)
	return page
}

// consistent checks that a page holds everything that it must hold according to its own window, and nothing else.
func (s *stream) consistent(page *reprise.Page, after uint64, maxBytes int) {
	failf := func(format string, args ...any) {
		s.e.failf("read %s after %d, %d bytes, kept are %d to %d: "+format,
			append([]any{s.key, after, maxBytes, page.Info.Earliest, page.Info.Tail}, args...)...)
	}
	info := &page.Info
	switch {
	case info.Key != s.key || info.Epoch != s.epoch:
		failf("got stream %s, epoch %s", info.Key, info.Epoch)
	case info.Earliest < 1 || info.Earliest > info.Tail+1:
		failf("no window")
	case info.Bytes != keptBytes(info.Earliest, info.Tail):
		failf("Bytes is %d, want %d", info.Bytes, keptBytes(info.Earliest, info.Tail))
	}
	if after >= info.Tail || info.Earliest > info.Tail || maxBytes == 0 {
		if len(page.Batches) > 0 {
			failf("got %d batches, want none", len(page.Batches))
		}
		return
	}
	if len(page.Batches) == 0 {
		failf("got no batches")
	}
	from := max(after+1, info.Earliest)
	if b := page.Batches[0]; b.First > from || b.Last() < from {
		failf("the first batch holds %d to %d, want the one that holds %d", b.First, b.Last(), from)
	}
	next, size := page.Batches[0].First, 0
	for i, b := range page.Batches {
		switch {
		case b.First != next:
			failf("batch %d begins with %d, want %d", i, b.First, next)
		case !s.isBatch(b):
			failf("the bytes of batch %d, with the events %d to %d, are not those that were appended",
				i, b.First, b.Last())
		case size >= maxBytes:
			failf("%d bytes were reached before batch %d of %d", maxBytes, i, len(page.Batches))
		}
		next = b.Last() + 1
		size += len(b.Bytes)
	}
	if last := next - 1; last > info.Tail || last < info.Tail && size < maxBytes {
		failf("the last batch ends with %d, the page has %d bytes", last, size)
	}
}

// same checks that the Store has exactly the expected state of s.
func (s *stream) same() {
	page := s.read(0, 1<<30)
	s.e.sameInfo(page.Info, s.state())
}

// gone checks that s cannot be found, with want as the error of Read.
func (s *stream) gone(want error) {
	_, err := s.e.store.Read(s.e.ctx, s.key, 0, 1<<20)
	s.e.wantError(err, want, "read %s", s.key)
	s.refused(s.request(1), reprise.ErrNotFound, "to a stream that is gone")
}
