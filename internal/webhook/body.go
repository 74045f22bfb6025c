package webhook

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"time"

	"reprise"
)

// The types of messages.
const (
	typeExecutionEnded = "execution.ended"
	typeStreamEvent    = "stream.event"
	typeGap            = "webhook.gap"
	typeTest           = "webhook.test"
)

// maxData bounds the event data that is included in a message.
const maxData = 256 << 10

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// body is the payload of a message (Standard Webhooks, "Payload structure").
func body(kind string, at time.Time, data any) json.RawMessage {
	text, err := json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      any       `json:"data"`
	}{kind, at.UTC().Truncate(time.Millisecond), data})
	if err != nil {
		panic(err) // our own types have a JSON form
	}
	return text
}

// eventBody returns the body for an event of a stream.
func eventBody(name, cursor string, e *reprise.Event) json.RawMessage {
	data := map[string]any{"stream": name, "cursor": cursor, "type": e.Type, "seq": e.Seq, "time": e.Time}
	if len(e.Data) > maxData {
		data["omitted"] = len(e.Data)
		return body(typeStreamEvent, e.Time, data)
	}
	var shown map[string]any
	if json.Unmarshal(e.AppendJSON(nil), &shown) == nil {
		maps.Copy(data, shown)
	}
	return body(typeStreamEvent, e.Time, data)
}

// executionBody returns the body for the end of an execution.
func executionBody(info *reprise.StreamInfo) json.RawMessage {
	data := map[string]any{}
	_ = json.Unmarshal(info.End.Data, &data) // the object of the end event
	labels := map[string]string{}
	for k, v := range info.Config.Labels {
		if name, own := strings.CutPrefix(k, "="); own {
			labels[name] = v
		}
	}
	data["id"] = strings.TrimPrefix(info.Key.Name, executionNamespace)
	data["session"] = info.Config.Labels[labelSession]
	data["outcome"], data["labels"], data["created"], data["ended"] =
		info.End.Outcome, labels, info.Created.UTC(), info.End.Time.UTC()
	return body(typeExecutionEnded, info.End.Time, data)
}

// gapBody returns the body for events of a stream that can no longer be sent, or for messages of the hook if name is
// "".
func gapBody(name string, missed uint64, resume string) json.RawMessage {
	data := map[string]any{"missed": missed}
	if name != "" {
		data["stream"], data["cursor"] = name, resume
	}
	return body(typeGap, time.Now(), data)
}
