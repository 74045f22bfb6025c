package sse_test

import (
	"strconv"
	"strings"
	"time"

	"reprise/sse"
)

// result is all that a stream says.
type result struct {
	Events   []sse.Event
	Comments []string
	LastID   string
	Retry    time.Duration
	HasRetry bool
}

// interpret is the algorithm of section 9.2.6 of the HTML standard, "Interpreting an
// event stream", word for word on a whole text: slow, and hard to get wrong.
// initial is the last event id that the client came with.
func interpret(text, initial string) result {
	got := result{LastID: initial}
	text = strings.TrimPrefix(text, "\uFEFF")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	lines := strings.Split(text, "\n")
	lines = lines[:len(lines)-1] // what follows the last break is no line

	var data, eventType, lastIDBuffer string
	lastIDBuffer = initial
	var id string
	hasID := false
	for _, line := range lines {
		if line == "" {
			got.LastID = lastIDBuffer
			if data != "" || hasID {
				event := sse.Event{ID: id, Type: "message", LastEventID: lastIDBuffer}
				if eventType != "" {
					event.Type = eventType
				}
				if data != "" {
					event.Data = []byte(strings.TrimSuffix(data, "\n"))
				}
				got.Events = append(got.Events, event)
			}
			data, eventType, id, hasID = "", "", "", false
			continue
		}
		if comment, ok := strings.CutPrefix(line, ":"); ok {
			got.Comments = append(got.Comments, strings.TrimPrefix(comment, " "))
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			eventType = value
		case "data":
			data += value + "\n"
		case "id":
			if !strings.Contains(value, "\x00") {
				lastIDBuffer, id, hasID = value, value, true
			}
		case "retry":
			if value != "" && strings.Trim(value, "0123456789") == "" {
				got.Retry, got.HasRetry = milliseconds(value), true
			}
		}
	}
	return got
}

// milliseconds is the longest whole number of milliseconds for what no Duration can hold.
func milliseconds(digits string) time.Duration {
	const longest = (1<<63 - 1) / time.Millisecond
	ms, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || ms > int64(longest) {
		return longest * time.Millisecond
	}
	return time.Duration(ms) * time.Millisecond
}
