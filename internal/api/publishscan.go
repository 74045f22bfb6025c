package api

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"reprise"
	"reprise/internal/jsonscan"
	"reprise/internal/web"
)

// scanEvents reads the events of a publish in one pass over body. Their data shares memory with body, unless white
// space has to be removed. ok is false for every invalid body and for some rare valid ones: these are left to
// decodeEvents, which also determines the error.
func scanEvents(mediaType string, body []byte) (events []reprise.Event, ok bool) {
	if !utf8.Valid(body) {
		return nil, false
	}
	s := eventScanner{body: body}
	switch mediaType {
	case web.NDJSON:
		events, ok = s.lines(nil)
		return events, ok && len(events) > 0
	case web.JSON:
		return s.batch()
	}
	return nil, false
}

type eventScanner struct {
	body []byte
	i    int
	// lastType is the type of the previous event, which usually is the type of the next one too.
	lastType string
}

// next passes over white space and then over c, or reports that something else stands there.
func (s *eventScanner) next(c byte) bool {
	s.i = jsonscan.Space(s.body, s.i)
	if s.i >= len(s.body) || s.body[s.i] != c {
		return false
	}
	s.i++
	return true
}

// name scans the name of a member and the colon after it. Names with escapes are left out.
func (s *eventScanner) name() (name []byte, ok bool) {
	name, ok = s.string()
	return name, ok && s.next(':')
}

// string scans a string without escapes.
func (s *eventScanner) string() (text []byte, ok bool) {
	s.i = jsonscan.Space(s.body, s.i)
	end, plain, ok := jsonscan.String(s.body, s.i)
	if !ok || !plain {
		return nil, false
	}
	text = s.body[s.i+1 : end-1]
	s.i = end
	return text, true
}

// eventType scans the type of an event.
func (s *eventScanner) eventType() (string, bool) {
	text, ok := s.string()
	if string(text) != s.lastType { // which allocates nothing
		s.lastType = string(text)
	}
	return s.lastType, ok
}

// batch scans {"events":[...]}, or one event that stands alone.
func (s *eventScanner) batch() (events []reprise.Event, ok bool) {
	if !s.next('{') {
		return nil, false
	}
	start := s.i
	if name, ok := s.name(); !ok || string(name) != "events" {
		s.i = start
		e, ok := s.members()
		return []reprise.Event{e}, ok && s.atEnd()
	}
	if !s.next('[') {
		return nil, false
	}
	for more := true; more; more = s.next(',') {
		from := s.i
		if !s.next('{') {
			return nil, false
		}
		e, ok := s.members()
		if !ok {
			return nil, false
		}
		if events == nil {
			events = eventsOf(len(s.body)-from, s.i-from)
		}
		events = append(events, e)
	}
	return events, s.next(']') && s.next('}') && s.atEnd()
}

// eventsOf returns a slice with room for as many events as there are in size bytes if all are as long as the first.
func eventsOf(size, first int) []reprise.Event {
	return make([]reprise.Event, 0, min(size/first+1, 1000))
}

func (s *eventScanner) atEnd() bool { return jsonscan.Space(s.body, s.i) == len(s.body) }

// lines scans one event a line and appends them to events; empty lines are passed over.
func (s *eventScanner) lines(events []reprise.Event) (_ []reprise.Event, ok bool) {
	for line := range bytes.Lines(s.body) {
		one := eventScanner{body: line, lastType: s.lastType}
		if one.atEnd() {
			continue
		}
		if !one.next('{') {
			return nil, false
		}
		e, ok := one.members()
		if !ok || !one.atEnd() {
			return nil, false
		}
		s.lastType = one.lastType
		if events == nil {
			events = eventsOf(len(s.body), len(line))
		}
		events = append(events, e)
	}
	return events, true
}

// nullData is the data of an event that has none.
var nullData = []byte("null")

// members scans the members of an event and the brace after them.
func (s *eventScanner) members() (e reprise.Event, ok bool) {
	e = reprise.Event{Data: nullData, Format: reprise.FormatJSON}
	if s.next('}') {
		return e, true
	}
	var typed, given bool
	for more := true; more; more = s.next(',') {
		name, ok := s.name()
		switch {
		case !ok:
			return e, false
		case string(name) == "type" && !typed:
			typed = true
			if e.Type, ok = s.eventType(); !ok {
				return e, false
			}
		case string(name) == "data" && !given:
			given = true
			if e.Data, ok = s.value(); !ok {
				return e, false
			}
		default:
			return e, false
		}
	}
	return e, s.next('}')
}

// value scans any value and returns it without white space.
func (s *eventScanner) value() ([]byte, bool) {
	s.i = jsonscan.Space(s.body, s.i)
	end, compact, ok := jsonscan.Value(s.body, s.i)
	if !ok {
		return nil, false
	}
	text := s.body[s.i:end:end]
	s.i = end
	if compact {
		return text, true
	}
	var packed bytes.Buffer
	err := json.Compact(&packed, text)
	return packed.Bytes(), err == nil
}
