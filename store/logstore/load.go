package logstore

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"reprise"
)

// loader makes the streams of a snapshot findable, and lets them rest in its frames.
type loader struct {
	*state
	head *snapshotHead
	// found is the number of streams and marks. Of the streams, listed has those that rest, and old those of a snapshot
	// of an earlier version.
	found  uint64
	listed []listed
	old    []*stream

	tenant *tenant // of the stream before
	scope  reprise.StreamKey
	scopes map[reprise.StreamKey]uint32
	keys   []reprise.StreamKey // by number
}

// listed is a stream that is to be listed.
type listed struct {
	id    uint64
	scope uint32 // its tenant and namespace
	ended bool
}

// bytesPerStream is about what a stream takes in a snapshot, with what is most often kept of one.
const bytesPerStream = 128

func (s *state) loader(head *snapshotHead) *loader {
	n := int(head.size / bytesPerStream)
	s.streams.ids, s.streams.resting = make(map[uint64]uint64, n), make(map[uint64]resting, n)
	return &loader{state: s, head: head, scopes: map[reprise.StreamKey]uint32{}}
}

// frame takes the streams and marks of a frame. done reports that it was the last one.
func (l *loader) frame(frame []byte) (done, ok bool) {
	content := frame[frameBytes:]
	b := &bed{bytes: content}
	if l.head.batches == nil {
		l.streams.use(b)
	}
	for c := (cutter{b: content}); len(c.b) > 0; l.found++ {
		before := c.b
		id := c.uint()
		if id == 0 {
			return true, c.uint() == l.found && l.found == uint64(len(l.streams.resting)+len(l.old)) &&
				len(c.b) == 0 && !c.bad
		}
		if l.head.batches != nil {
			st := c.stream(id, l.head, &l.shared)
			l.old = append(l.old, st)
			if c.bad || !l.place(id, st.mark, st.earliest, st.tail, st.runs.each) {
				return false, false
			}
			continue
		}
		c.b = before
		s := c.skim()
		if c.bad || !l.place(id, s.mark, s.earliest, s.tail, s.each) {
			return false, false
		}
		b.used += len(before) - len(c.b)
		l.streams.resting[id] = resting{l.streams.newest, uint32(len(content) - len(before))}
		l.enter(&s)
	}
	return false, true
}

// place counts the runs of a stream. It returns false if they do not fit its window.
func (l *loader) place(id uint64, mark bool, earliest, tail uint64, runs iter.Seq[run]) bool {
	oldest := tail + 1
	for r := range runs {
		if r.first > tail {
			return false
		}
		oldest = min(oldest, r.first)
		l.count(r.segment, int64(r.space))
		l.placed++
	}
	if !mark && oldest < earliest {
		l.trimmed = append(l.trimmed, id)
	}
	return mark || oldest <= earliest
}

// enter makes a stream or mark that rests findable.
func (l *loader) enter(s *skimmed) {
	l.streams.name(s.id, s.tenant, s.name)
	l.lastID = max(l.lastID, s.id)
	if l.tenant == nil || string(s.tenant) != string(l.tenant.name) {
		l.tenant = l.shared.tenant(reprise.Tenant(s.tenant))
	}
	l.tenant.held++
	if s.mark {
		l.marks.add(s.due)
		return
	}
	if s.ended {
		l.queue.add(s.due)
	}
	size := &l.tenant.size
	size.Streams++
	size.Events += int64(s.tail + 1 - s.earliest)
	size.Bytes += s.bytes
	size.Overhead += s.overhead
	l.listed = append(l.listed, listed{s.id, l.scopeOf(s), s.ended})
}

// scopeOf returns the number of the key with the tenant and the namespace of a stream, which is listed as that key is.
func (l *loader) scopeOf(s *skimmed) uint32 {
	namespace := s.name[:bytes.IndexByte(s.name, ':')+1]
	if l.scope.Tenant != l.tenant.name || l.scope.Name != string(namespace) || len(l.keys) == 0 {
		l.scope = reprise.StreamKey{Tenant: l.tenant.name, Name: string(namespace)}
	}
	number, ok := l.scopes[l.scope]
	if !ok {
		number = uint32(len(l.keys))
		l.scopes[l.scope] = number
		l.keys = append(l.keys, l.scope)
	}
	return number
}

// finish lists the streams in the order of their ids.
func (l *loader) finish() {
	slices.SortFunc(l.listed, func(a, b listed) int { return cmp.Compare(a.id, b.id) })
	for _, s := range l.listed {
		l.index.Add(l.keys[s.scope], s.id)
		if !s.ended {
			l.open.Add(l.keys[s.scope], s.id)
		}
	}
	slices.SortFunc(l.old, func(a, b *stream) int { return cmp.Compare(a.id, b.id) })
	for _, st := range l.old {
		l.add(st)
	}
}
