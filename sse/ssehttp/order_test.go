package ssehttp_test

import (
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/sse/ssehttp"
)

// earlyID reads a response as some readers do: an id counts as soon as its line has come, and an event when its block
// is complete. It returns the newest id, and that of the newest event.
func earlyID(text string) (id, event string) {
	var data bool
	for line := range strings.Lines(text) {
		switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); {
		case !strings.HasSuffix(line, "\n"): // not complete
		case name == "id":
			id = value
		case name == "data":
			data = true
		case name == "":
			if data {
				event = id
			}
			data = false
		}
	}
	return id, event
}

// A reader that takes an id before the event is complete loses the event if the connection is cut in between. It must
// not be possible at more than one byte.
func TestIDIsTheLastFieldOfAFrame(t *testing.T) {
	log := newLog(t, nil)
	c := create(t, log, "s", reprise.Retention{}).Cursor(1)
	_, suffix, _ := strings.Cut(c.String(), ".")
	form := ssehttp.EventStream{}
	for name, frame := range map[string][]byte{
		"event": form.AppendEvent(nil, &reprise.Event{
			Seq: 1, Type: "note", Format: reprise.FormatJSON, Data: []byte("7"), Time: time.Now(),
		}, "."+suffix),
		"gap":  form.AppendGap(nil, ssehttp.Gap{Cursor: c.String(), Code: "cursor_expired"}),
		"move": form.AppendMove(nil, c, true),
	} {
		lost := 0
		for cut := range len(frame) {
			if id, event := earlyID(string(frame[:cut])); id != event {
				lost++
			}
		}
		if id, event := earlyID(string(frame)); id != c.String() || event != id || lost != 1 {
			t.Errorf("%s: lost at %d of %d bytes; id %q, event %q\n%s", name, lost, len(frame), id, event, frame)
		}
	}
}
