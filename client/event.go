package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"reprise"
	"reprise/sse"
)

// Event is one event of a stream.
type Event struct {
	// Seq is 1, 2, 3, ... within an epoch of the stream; 0 for a gap.
	Seq uint64
	// Cursor is the position just after the event: what to resume from.
	Cursor string
	Time   time.Time
	// Type is for example "stdout". "end" is the last event of a stream, "gap" the
	// notice that events are no longer kept.
	Type string
	// Data is the bytes of the event, for example output; or JSON, if IsJSON.
	// It belongs to whom the event was given.
	Data []byte
	// IsJSON: Data is the JSON value that was published, or, for the events of Reprise itself
	// such as "started", "end" and "gap", the object that the server has sent. The gap before
	// the first event is the client's own, in the same form.
	IsJSON bool

	// Started, End and Gap are set for the events of these types; Started for
	// that of an execution.
	Started *Started
	End     *End
	Gap     *Gap
}

// typeStarted is the type of the first event of an execution.
const typeStarted = "started"

// Started tells that a command runs.
type Started struct {
	ID        string     `json:"id"`
	Argv      []string   `json:"argv"`
	Command   string     `json:"command"`
	Language  string     `json:"language"`
	PID       int        `json:"pid"`
	Isolation *Isolation `json:"isolation"`
}

// End is how a stream has ended. Only Outcome and Data are of streams that are no execution.
type End struct {
	// Outcome is Exited or another of an execution's, or "completed", "failed" or "cancelled".
	Outcome string `json:"outcome"`
	// ExitCode and Signal are nil where the process did not end that way. Signal is
	// a name without SIG.
	ExitCode   *int    `json:"exit_code"`
	Signal     *string `json:"signal"`
	DurationMS int64   `json:"duration_ms"`
	Usage      *Usage  `json:"usage"`
	Bytes      Bytes   `json:"bytes"`
	// Error is why a run did not start, was lost, or was ended by the server.
	Error string `json:"error"`
	// Limit is which one was exceeded.
	Limit           string `json:"limit"`
	OutputTruncated bool   `json:"output_truncated"`
	// ProcessesLeft: what owned the processes of the run was killed, and some of them may still run.
	ProcessesLeft bool `json:"processes_left"`
	// Data is what the stream was ended with.
	Data json.RawMessage `json:"data"`
}

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

// event makes an Event of w, of which object is the JSON text.
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
