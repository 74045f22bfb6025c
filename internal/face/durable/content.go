package durable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"unicode/utf8"

	"reprise"
	"reprise/internal/problem"
	"reprise/internal/web"
)

const (
	// maxBody bounds the body of a request, in bytes. With what the log adds to each event it has to fit one commit.
	maxBody = 7 << 20
	// maxPart bounds the data of an event, as the log does by default.
	maxPart = 1 << 20
	// maxMessages bounds the messages of a request.
	maxMessages = 1 << 16
)

func tooLarge(format string, args ...any) error {
	return problem.Invalid(http.StatusRequestEntityTooLarge, "", fmt.Sprintf(format, args...))
}

// chunks yields the parts of b that are an event each.
func chunks(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(len(b), maxPart)
			for least := n - utf8.UTFMax; n < len(b) && n > least && !utf8.RuneStart(b[n]); {
				n-- // a character is in one event, so that it is in one frame
			}
			if !yield(b[:n:n]) {
				return
			}
			b = b[n:]
		}
	}
}

// typeSeq is the type of the event that keeps the header Stream-Seq of the append behind it. It has no content.
const typeSeq = "stream-seq"

// messages returns what a body of a content type becomes: an event for each message of JSON, and otherwise as few as
// there may be. One array of JSON is taken for its elements.
func messages(contentType string, body []byte) (events []reprise.Event, err error) {
	if mediaType(contentType) != web.JSON {
		for part := range chunks(body) {
			events = append(events, reprise.Event{Data: part})
		}
		return events, nil
	}
	if err := web.CheckJSON(body); err != nil {
		return nil, err
	}
	body = bytes.TrimSpace(body)
	values := json.NewDecoder(bytes.NewReader(body))
	if body[0] == '[' {
		_, err = values.Token()
	}
	for err == nil && values.More() {
		var value json.RawMessage
		if err = values.Decode(&value); err == nil {
			var data bytes.Buffer
			err = json.Compact(&data, value)
			events = append(events, reprise.Event{Data: data.Bytes(), Format: reprise.FormatJSON})
		}
		switch {
		case len(value) > maxPart:
			return nil, tooLarge("a message has at most %d bytes", maxPart)
		case len(events) > maxMessages:
			return nil, tooLarge("a request has at most %d messages", maxMessages)
		}
	}
	if err != nil {
		return nil, web.BadRequest("", err.Error())
	}
	return events, nil
}

// content puts together what a reader is sent of the events of a stream.
type content struct {
	json  bool
	text  []byte // of JSON, with commas between the messages
	count int    // of the events that have content
}

// add adds an event.
func (c *content) add(e *reprise.Event) {
	if e.Type == typeSeq || e.Type == reprise.TypeEnd {
		return
	}
	if c.json && c.count > 0 {
		c.text = append(c.text, ',')
	}
	c.count++
	if c.json && e.Format != reprise.FormatJSON { // published otherwise
		c.text = e.AppendJSON(c.text)
		return
	}
	c.text = append(c.text, e.Data...)
}

// body returns the content as the protocol has it.
func (c *content) body() []byte {
	if !c.json {
		return c.text
	}
	return append(append([]byte{'['}, c.text...), ']')
}

// firstOf returns what a fork copies of an event behind its offset, where left messages or bytes are still to be
// copied, and how many of them that is.
func firstOf(e *reprise.Event, isJSON bool, left uint64) (part reprise.Event, used uint64) {
	part = reprise.Event{Time: e.Time, Type: e.Type, Data: e.Data, Format: e.Format}
	switch {
	case e.Type == typeSeq:
		return part, 0
	case isJSON:
		return part, 1
	}
	n := min(left, uint64(len(e.Data)))
	part.Data = e.Data[:n]
	return part, n
}
