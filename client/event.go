package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/wire"
	"reprise/sse"
)

// Event is one event of a stream.
type Event struct {
	// Seq is 1, 2, 3, ... within an epoch of the stream; 0 for a gap.
	Seq uint64
	// Cursor is the position just after the event, from which a reader can resume.
	Cursor string
	Time   time.Time
	// Type is for example "stdout". "end" is the type of the last event of a stream, "gap" the type of a notice that
	// events are no longer kept.
	Type string
	// Data is the bytes of the event, for example output; or JSON, if IsJSON.
	// The receiver owns it.
	Data []byte
	// IsJSON: Data is the JSON value that was published. For events of Reprise itself,
	// such as "started", "end" and "gap", it is the object that the server has sent. The client makes the gap before
	// the first event itself, in the same form.
	IsJSON bool

	// Started, End and Gap are set for events of these types; Started only for
	// an execution.
	Started *Started
	End     *End
	Gap     *Gap
}

// typeStarted is the type of the first event of an execution.
const typeStarted = "started"

// Started is the data of the event that reports a running command.
type Started struct {
	ID       string   `json:"id"`
	Argv     []string `json:"argv"`
	Command  string   `json:"command"`
	Language string   `json:"language"`
	// Cwd is the directory on the server in which the command was started.
	Cwd       string     `json:"cwd"`
	PID       int        `json:"pid"`
	Isolation *Isolation `json:"isolation"`
}

// End describes how a stream has ended. A stream that is not an execution has only Outcome and Data.
type End = wire.Ending

// wireEvent is the JSON form of an event; cursor and type are there in pages alone.
type wireEvent struct {
	Seq    uint64          `json:"seq"`
	Time   time.Time       `json:"time"`
	Cursor string          `json:"cursor"`
	Type   string          `json:"type"`
	Text   *string         `json:"text"`
	Base64 []byte          `json:"base64"`
	Data   json.RawMessage `json:"data"`
}

// decodeFrame makes an Event of a frame that has data.
func decodeFrame(frame sse.Event) (Event, error) {
	if frame.ID != "" && frame.Type != reprise.TypeEnd && frame.Type != reprise.TypeGap {
		if seq, at, data, ok := decodeFast(frame.Data); ok {
			return Event{Seq: seq, Cursor: frame.ID, Time: at, Type: frame.Type, Data: data}, nil
		}
	}
	return decodeSlow(frame)
}

// decodeSlow reads any JSON.
func decodeSlow(frame sse.Event) (Event, error) {
	var w wireEvent
	if err := json.Unmarshal(frame.Data, &w); err != nil {
		return Event{}, fmt.Errorf("%w: event %q: %w", ErrProtocol, frame.ID, err)
	}
	w.Cursor, w.Type = frame.ID, frame.Type
	return w.event(frame.Data)
}

// event makes an Event of w, whose JSON text is object.
func (w *wireEvent) event(object []byte) (Event, error) {
	e := Event{Seq: w.Seq, Cursor: w.Cursor, Time: w.Time, Type: w.Type}
	var err error
	switch {
	case w.Cursor == "" || w.Seq == 0 && w.Type != reprise.TypeGap:
		err = fmt.Errorf("no cursor or no seq in %.100q", object)
	case w.Type == reprise.TypeGap:
		e.Gap, err = decodeMember[Gap](object)
	case w.Type == reprise.TypeEnd:
		e.End, err = decodeMember[End](object)
	case w.Text != nil:
		e.Data = []byte(*w.Text)
		return e, nil
	case w.Base64 != nil:
		e.Data = w.Base64
		return e, nil
	case w.Data != nil:
		e.Data, e.IsJSON = w.Data, true
		return e, nil
	case w.Type == typeStarted:
		e.Started, err = decodeMember[Started](object)
	}
	if err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	e.Data, e.IsJSON = bytes.Clone(object), true
	return e, nil
}

func decodeMember[T any](object []byte) (*T, error) {
	var v T
	err := json.Unmarshal(object, &v)
	return &v, err
}
