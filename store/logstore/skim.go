package logstore

import (
	"encoding/binary"

	"reprise"
)

// skimmed is what is needed of a stream or mark of a snapshot to find and to count it. Reading it allocates nothing.
type skimmed struct {
	id             uint64
	mark, ended    bool
	tenant, name   []byte
	due            due // of a mark, or of a stream that has ended
	earliest, tail uint64
	bytes          int64
	overhead       int64
	labels         []byte // name and value of each
	runs           []byte
}

// skim is stream, without its values. It fails where stream does.
func (c *cutter) skim() (s skimmed) {
	s.id = c.uint()
	if s.mark = c.uint() == 1; s.mark {
		s.due = c.due(s.id)
		s.tenant, s.name = c.bytes(), c.bytes()
		c.bad = c.bad || len(s.name) > maxName
		return s
	}
	s.tenant, s.name = c.bytes(), c.bytes()
	s.overhead = reprise.StreamOverhead + int64(len(s.name))
	c.bytes() // epoch
	c.due(0)  // creation
	c.uints(3)
	labels := c.b
	for range c.length() {
		s.overhead += int64(len(c.bytes()) + len(c.bytes()))
	}
	s.labels = labels[:len(labels)-len(c.b)]
	s.overhead += int64(len(c.bytes()))
	c.bytes() // owner
	c.uint()
	s.earliest, s.tail, s.bytes = c.uint(), c.uint(), int64(c.uint())
	flags := c.uint()
	if s.ended = flags&infoHasEnd != 0; s.ended {
		c.bytes()
		c.due(0)
		s.due = c.due(s.id)
		c.bytes()
	}
	if flags&infoHasRevision != 0 {
		c.uint()
	}
	c.bad = c.bad || flags > infoHasEnd|infoHasRevision || len(s.name) > maxName
	for range c.length() { // producers
		c.bytes()
		c.uints(4)
	}
	for range c.length() { // lineage
		c.bytes()
		c.uint()
	}
	runs := c.b
	c.uints(3 * c.length())
	s.runs = runs[:len(runs)-len(c.b)]
	return s
}

// skimSize returns how many of the bytes belong to the first stream.
func skimSize(bytes []byte) int {
	c := cutter{b: bytes}
	c.skim()
	return len(bytes) - len(c.b)
}

func (c *cutter) uints(n int) {
	for range n {
		c.uint()
	}
}

func (c *cutter) due(id uint64) due {
	seconds, n := binary.Varint(c.b)
	if n <= 0 {
		c.fail()
		return due{}
	}
	c.b = c.b[n:]
	return due{seconds, id, uint32(c.uint())}
}

// key cuts the beginning of a stream or mark off, up to and with the key.
func (c *cutter) key() (tenant, name []byte) {
	if c.uint(); c.uint() == 1 {
		c.due(0)
	}
	return c.bytes(), c.bytes()
}

// takes is reprise.ListQuery.Takes.
func (s *skimmed) takes(q *reprise.ListQuery) bool {
	if q.Open && s.ended {
		return false
	}
	for name, value := range q.Labels {
		if has, ok := s.label(name); !ok || string(has) != value {
			return false
		}
	}
	return true
}

// label returns the value of a label.
func (s *skimmed) label(name string) (value []byte, ok bool) {
	c := cutter{b: s.labels}
	for range c.length() {
		found, value := c.bytes(), c.bytes()
		if string(found) == name {
			return value, true
		}
	}
	return nil, false
}

// each yields the runs of a stream that rests, as runs.all does without the first event after each.
func (s *skimmed) each(yield func(run) bool) {
	c := cutter{b: s.runs}
	first := uint64(0)
	for range c.length() {
		first += c.uint()
		if !yield(run{first, uint32(c.uint()), uint32(c.uint())}) {
			return
		}
	}
}
