package relay

import (
	"bytes"

	"reprise"
)

// The types of the events of a recording.
const (
	typeHead  = "head"
	typeBlock = "block"
	typeOwn   = "own"
	typePart  = "part"
)

// maxBlock is the size from which on an event of the backend is kept in parts.
const maxBlock = 256 << 10

// splitter cuts the bytes of an answer into events of a recording.
type splitter struct {
	lines   bool   // NDJSON: the bytes are kept as they come
	pending []byte // of an event that is not complete
	line    int    // where its last line begins
	own     bool   // it has an id
	afterCR bool   // an LF that comes first ends no line
	inLine  bool   // the beginning of the line was kept as a part
}

// feed returns the events that data completes. Their data are valid until the next call.
func (s *splitter) feed(data []byte) (events []reprise.Event) {
	if s.lines {
		if len(data) == 0 {
			return nil
		}
		return []reprise.Event{event(typePart, data)}
	}
	for len(data) > 0 {
		if s.afterCR && data[0] == '\n' { // belongs to the CR, which has ended the line
			s.afterCR = false
			s.pending, data = append(s.pending, '\n'), data[1:]
			s.line = len(s.pending)
			continue
		}
		s.afterCR = false
		end := bytes.IndexAny(data, "\r\n")
		if end < 0 {
			s.pending = append(s.pending, data...)
			break
		}
		s.pending = append(s.pending, data[:end]...)
		line := s.pending[s.line:]
		s.afterCR = data[end] == '\r'
		s.pending, data = append(s.pending, data[end]), data[end+1:]
		if s.afterCR && len(data) > 0 && data[0] == '\n' {
			s.afterCR = false
			s.pending, data = append(s.pending, '\n'), data[1:]
		}
		blank := len(line) == 0 && !s.inLine
		s.own = s.own || !s.inLine && (bytes.HasPrefix(line, []byte("id:")) || bytes.Equal(line, []byte("id")))
		s.line, s.inLine = len(s.pending), false
		if blank {
			events = append(events, s.block())
		}
	}
	if len(s.pending) > maxBlock {
		events = append(events, event(typePart, bytes.Clone(s.pending)))
		s.inLine = s.line < len(s.pending)
		s.pending, s.line = s.pending[:0], 0
	}
	return events
}

// block returns the complete event.
func (s *splitter) block() reprise.Event {
	kind := typeBlock
	if s.own {
		kind = typeOwn
	}
	e := event(kind, bytes.Clone(s.pending))
	s.pending, s.line, s.own = s.pending[:0], 0, false
	return e
}

// rest returns what is left when the answer has ended.
func (s *splitter) rest() []reprise.Event {
	if len(s.pending) == 0 {
		return nil
	}
	return []reprise.Event{event(typePart, s.pending)}
}

func event(kind string, data []byte) reprise.Event {
	return reprise.Event{Type: kind, Format: reprise.FormatBytes, Data: data}
}

// withLine returns a block with a line in front of its blank one.
func withLine(dst, block []byte, field, value string) []byte {
	end := len(block) - 1
	if end > 0 && block[end] == '\n' && block[end-1] == '\r' {
		end--
	}
	dst = append(append(append(dst, block[:end]...), field...), value...)
	return append(append(dst, '\n'), block[end:]...)
}

// ownID returns the last id in a block that has one.
func ownID(block []byte) (id string, ok bool) {
	for _, line := range bytes.FieldsFunc(block, func(r rune) bool { return r == '\r' || r == '\n' }) {
		if value, has := bytes.CutPrefix(line, []byte("id:")); has {
			id, ok = string(bytes.TrimPrefix(value, []byte(" "))), true
		}
	}
	return id, ok
}
