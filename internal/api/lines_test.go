package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"reprise"
)

// separators are the characters beyond ASCII at which readers break lines that split them as Python does.
const separators = "\u0085\u2028\u2029"

// TestNoAnswerHoldsLineSeparators: whatever users have put into events, labels and names, each line that we send is
// one line to every reader, and means the same.
func TestNoAnswerHoldsLineSeparators(t *testing.T) {
	w := start(t, setup{})
	const odd = "a" + separators + "b"
	quoted := `"` + odd + `"` // as it is, which JSON allows
	s := w.stream("s", odd)
	_, err := s.Append(t.Context(), reprise.Event{Format: reprise.FormatJSON, Data: []byte(quoted)})
	w.ok(err)
	_, err = s.End(t.Context(), "completed",
		reprise.Event{Format: reprise.FormatMembers, Data: []byte(`{"outcome":"completed"}`)})
	w.ok(err)
	w.do("POST", "/v1/executions", `{"id":"x","argv":["true",`+quoted+`],"labels":{"odd":`+quoted+`}}`).is(201)
	w.ended("x")
	whole := func(a *answer) *answer {
		t.Helper()
		if strings.ContainsAny(a.body, separators) {
			t.Errorf("%s: %q", a.what, a.body)
		}
		return a
	}
	for _, accept := range []string{asSSE, asLines, "Accept: application/json"} {
		for _, path := range []string{"/v1/streams/s/events", "/v1/executions/x/events"} {
			whole(w.do("GET", path, "", accept).is(200))
		}
	}
	if got := whole(w.do("GET", "/v1/executions/x", "").is(200)).text("labels", "odd"); got != odd {
		t.Errorf("the label became %q", got)
	}
	whole(w.do("GET", "/v1/executions", "").is(200))
	whole(w.do("GET", "/v1/streams/s/events?gap=a%C2%85b", "", asSSE).refused(400, "invalid"))

	texts := 0
	for line := range strings.Lines(w.do("GET", "/v1/streams/s/events", "", asLines).is(200).body) {
		var event struct{ Text, Data string }
		w.ok(json.Unmarshal([]byte(line), &event))
		if event.Text+event.Data == odd {
			texts++
		}
	}
	if texts != 2 {
		t.Errorf("%d of 2 events came as they were", texts)
	}
}
