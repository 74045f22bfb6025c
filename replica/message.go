package replica

import (
	"encoding/json"
	"fmt"

	"reprise"
)

// MaxBody is the maximum size of a call or of its answer, in bytes.
const MaxBody = 1 << 20

// partBytes is the maximum data of one event of a message; every Log accepts at least this size.
const partBytes = 32 << 10

// The types of the events in an inbox. A message is one event with a header and
// then header.Parts events with its body, all in one append.
const (
	typeCall   = "call"
	typeAnswer = "answer"
	typeCancel = "cancel"
	typePart   = "part"
)

// header begins a message.
type header struct {
	// ID is random; an answer and a cancellation have the ID of the call.
	ID string `json:"id"`
	// From is the caller.
	From string `json:"from,omitempty"`
	// Service and WithinMS belong to a call: the service, and how long the caller waits.
	Service  string `json:"service,omitempty"`
	WithinMS int64  `json:"within_ms,omitempty"`
	// Code, Detail and Field belong to an answer that is an error; see package problem.
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
	Field  string `json:"field,omitempty"`
	// Parts is the number of events that contain the body.
	Parts int `json:"parts,omitempty"`
}

// message is a received message.
type message struct {
	typ string
	header
	body []byte
}

// encode returns the events of a message. They share the memory of body.
func encode(typ string, h header, body []byte) ([]reprise.Event, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("%w: a body of %d bytes, at most %d are taken", reprise.ErrInvalid, len(body), MaxBody)
	}
	h.Parts = (len(body) + partBytes - 1) / partBytes
	data, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
	}
	events := make([]reprise.Event, 1, 1+h.Parts)
	events[0] = reprise.Event{Type: typ, Data: data}
	for len(body) > 0 {
		n := min(len(body), partBytes)
		events = append(events, reprise.Event{Type: typePart, Data: body[:n]})
		body = body[n:]
	}
	return events, nil
}

// assembler reassembles messages from events. Parts of incomplete messages, whose beginning has left the window of the
// inbox, are skipped.
type assembler struct {
	message
	missing int
}

// add adds the next event. ok is true if it completes a message.
func (a *assembler) add(e *reprise.Event) (msg message, ok bool) {
	switch {
	case e.Type == typePart:
		if a.missing == 0 {
			return message{}, false
		}
		if len(a.body)+len(e.Data) > MaxBody {
			a.forget()
			return message{}, false
		}
		a.body = append(a.body, e.Data...)
		a.missing--
	default:
		a.message, a.missing = message{typ: e.Type}, 0
		if json.Unmarshal(e.Data, &a.message.header) != nil || a.Parts < 0 || a.Parts > MaxBody/partBytes {
			return message{}, false
		}
		a.missing = a.Parts
	}
	return a.message, a.missing == 0
}

// forget drops an incomplete message.
func (a *assembler) forget() { a.missing = 0 }
