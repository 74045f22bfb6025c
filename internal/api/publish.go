package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/problem"
	"reprise/internal/web"
)

// eventBody is an event in a request.
type eventBody struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// expectedSeq is the parameter with the seq that the first event of a publish must get.
const expectedSeq = "expected_seq"

func (s *Server) publish(x *web.Exchange) error {
	stream, err := s.stream(x, identity.ScopePublish)
	if err != nil {
		return err
	}
	if wantsAcknowledgements(x.R) {
		return s.publishOn(x, stream)
	}
	body, err := x.ReadBody(s.opts.MaxBody)
	if err != nil {
		return err
	}
	events, err := decodeEvents(web.MediaType(x.R), x.Query.Text("type"), body)
	if err != nil {
		return err
	}
	expected, err := x.Query.Number(expectedSeq, 0, 1, math.MaxInt64)
	if err != nil {
		return err
	}
	appended, err := s.appendOnce(x, stream, body, func(producer *reprise.ProducerID) (reprise.Appended, error) {
		trace, traced := traceAppend(x, stream, len(events))
		opts := reprise.AppendOptions{Producer: producer, ExpectedSeq: uint64(expected), Trace: trace}
		appended, err := stream.AppendWith(x.R.Context(), opts, events...)
		traced(err)
		return appended, err
	})
	if err != nil {
		return err
	}
	return s.answerAppended(x, stream, appended)
}

func (s *Server) answerAppended(x *web.Exchange, stream *reprise.Stream, a reprise.Appended) error {
	s.opts.Metrics.appended(a)
	var cursor reprise.Cursor
	if a.Last > 0 {
		cursor = stream.CursorIn(a.Epoch, a.Last)
	}
	return x.AnswerText(http.StatusOK, appendPublished(make([]byte, 0, publishedRoom), a, cursor))
}

// publishedRoom is enough for what appendPublished appends, with numbers and a cursor of any length.
const publishedRoom = 160

// appendPublished appends the line of JSON that says which events a publish has become. cursor is just after the last
// one. A duplicate whose seqs are no longer known has no cursor, and its first and last are 0.
func appendPublished(dst []byte, a reprise.Appended, cursor reprise.Cursor) []byte {
	dst = strconv.AppendUint(append(dst, `{"first":`...), a.First, 10)
	dst = strconv.AppendUint(append(dst, `,"last":`...), a.Last, 10)
	if !cursor.IsZero() {
		dst = append(cursor.Append(append(dst, `,"cursor":"`...)), '"')
	}
	if a.Duplicate {
		dst = append(dst, `,"duplicate":true`...)
	}
	return append(dst, '}', '\n')
}

// decodeEvents reads the events of a publish, in the form that the media type says.
func decodeEvents(mediaType, eventType string, body []byte) ([]reprise.Event, error) {
	if mediaType != web.JSON && mediaType != web.NDJSON {
		return []reprise.Event{{Type: eventType, Data: body}}, nil
	}
	if eventType != "" {
		return nil, errTypeOfJSON
	}
	if events, ok := scanEvents(mediaType, body); ok {
		return events, nil
	}
	return decodeEventsSlowly(mediaType, body)
}

var errTypeOfJSON = web.BadRequest("type", "an event in JSON has its type as a member")

// decodeEventsSlowly reads the events that scanEvents does not support, and determines the error in an invalid body.
func decodeEventsSlowly(mediaType string, body []byte) ([]reprise.Event, error) {
	if mediaType == web.NDJSON {
		return decodeLines(body)
	}
	bodies, err := decodeBatch(body)
	if err != nil {
		return nil, err
	}
	events := make([]reprise.Event, 0, len(bodies))
	for i := range bodies {
		e, err := bodies[i].event()
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// decodeBatch reads {"events":[...]}, or one event that stands alone.
func decodeBatch(body []byte) ([]eventBody, error) {
	if err := web.CheckJSON(body); err != nil {
		return nil, err
	}
	var shape struct {
		Events json.RawMessage `json:"events"`
	}
	_ = json.Unmarshal(body, &shape) // a value that is not an object is refused below
	if shape.Events == nil {
		one := make([]eventBody, 1)
		return one, web.Decode(body, &one[0])
	}
	var many struct {
		Events []eventBody `json:"events"`
	}
	if err := web.Decode(body, &many); err != nil {
		return nil, err
	}
	if len(many.Events) == 0 {
		return nil, web.Unprocessable("events", "at least one event is needed")
	}
	return many.Events, nil
}

// decodeLines reads one event a line; empty lines are passed over.
func decodeLines(body []byte) ([]reprise.Event, error) {
	events, err := decodeLinesFrom(nil, 1, body)
	if err == nil && len(events) == 0 {
		err = web.BadRequest("", "at least one event is needed")
	}
	if err != nil {
		return nil, err
	}
	return events, nil
}

// decodeLinesFrom appends the events of lines to events, those before a bad line too. The first line has the number n.
func decodeLinesFrom(events []reprise.Event, n int, lines []byte) ([]reprise.Event, error) {
	for line := range bytes.Lines(lines) {
		if len(bytes.TrimSpace(line)) > 0 {
			e, err := decodeLine(line)
			if err != nil {
				p := problem.From(err)
				p.Detail = fmt.Sprintf("line %d: %s", n, p.Detail)
				return events, p
			}
			events = append(events, e)
		}
		n++
	}
	return events, nil
}

func decodeLine(line []byte) (reprise.Event, error) {
	var one eventBody
	if err := web.Decode(line, &one); err != nil {
		return reprise.Event{}, err
	}
	return one.event()
}

// event validates a published event. Missing data is null.
func (b *eventBody) event() (reprise.Event, error) {
	var data bytes.Buffer
	if len(b.Data) == 0 {
		data.WriteString("null")
	} else if err := json.Compact(&data, b.Data); err != nil { // no line breaks
		return reprise.Event{}, web.BadRequest("data", err.Error())
	}
	return reprise.Event{Type: b.Type, Data: data.Bytes(), Format: reprise.FormatJSON}, nil
}

// producerOf reads the headers of an idempotent producer: all three or none.
func producerOf(h http.Header) (*reprise.ProducerID, error) {
	id, epoch, seq := h.Get("Producer-Id"), h.Get("Producer-Epoch"), h.Get("Producer-Seq")
	if id == "" && epoch == "" && seq == "" {
		return nil, nil
	}
	if id == "" || epoch == "" || seq == "" {
		return nil, web.BadRequest("Producer-Id", "Producer-Id, Producer-Epoch and Producer-Seq belong together")
	}
	p := &reprise.ProducerID{ID: id}
	for _, number := range []struct {
		name, text string
		value      *uint64
	}{{"Producer-Epoch", epoch, &p.Epoch}, {"Producer-Seq", seq, &p.Seq}} {
		n, err := strconv.ParseUint(number.text, 10, 64)
		if err != nil {
			return nil, web.BadRequest(number.name, "a number is taken")
		}
		*number.value = n
	}
	return p, nil
}

// The outcomes of streams that are not executions.
const (
	outcomeCompleted = "completed"
	outcomeFailed    = "failed"
	outcomeCancelled = "cancelled"
)

// endData is the data of the end event.
type endData struct {
	Outcome string          `json:"outcome"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (s *Server) endStream(x *web.Exchange) error {
	stream, err := s.stream(x, identity.ScopePublish)
	if err != nil {
		return err
	}
	text, err := x.ReadBody(s.opts.MaxBody)
	if err != nil {
		return err
	}
	var body endData
	if err := web.DecodeAs(web.MediaType(x.R), text, &body); err != nil {
		return err
	}
	switch body.Outcome {
	case outcomeCompleted, outcomeFailed, outcomeCancelled:
	default:
		return web.Unprocessable("outcome",
			fmt.Sprintf("%s, %s or %s is taken", outcomeCompleted, outcomeFailed, outcomeCancelled))
	}
	data, err := json.Marshal(body) // compacts Data
	if err != nil {
		return err
	}
	appended, err := s.appendOnce(x, stream, text, func(producer *reprise.ProducerID) (reprise.Appended, error) {
		trace, traced := traceAppend(x, stream, 1)
		opts := reprise.AppendOptions{Producer: producer, Trace: trace}
		appended, err := stream.EndWith(x.R.Context(), opts, body.Outcome,
			reprise.Event{Data: data, Format: reprise.FormatMembers})
		traced(err)
		return appended, err
	})
	if err != nil {
		return err
	}
	return s.answerAppended(x, stream, appended)
}
