package api

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"reprise"
	"reprise/internal/problem"
)

// TestAnswersOfPublishesAreThoseOfEncodingJSON: the lines that are made by hand have the members, the order and the
// form of encoding/json.
func TestAnswersOfPublishesAreThoseOfEncodingJSON(t *testing.T) {
	type published struct {
		First     uint64 `json:"first"`
		Last      uint64 `json:"last"`
		Cursor    string `json:"cursor,omitempty"`
		Duplicate bool   `json:"duplicate,omitempty"`
	}
	refused := problem.New(problem.CodeInvalid, "a \u2028 <separator>")
	for _, a := range []reprise.Appended{
		{}, {First: 1, Last: 1}, {First: 4711, Last: 4810}, {First: math.MaxUint64, Last: math.MaxUint64},
	} {
		for _, epoch := range []reprise.Epoch{"", "7ZK3M9Q2VTX4WB8A"} {
			for _, a.Duplicate = range []bool{false, true} {
				cursor := reprise.Cursor{Seq: a.Last, Epoch: epoch, Tag: "0123456789ABC"}
				text := cursor.String()
				want := published{a.First, a.Last, text, a.Duplicate}
				wantLine(t, appendPublished(nil, a, cursor), want, publishedRoom)
				kept := acknowledgement{a.Last, a.First, a.Last, text, a.Duplicate, nil}
				wantLine(t, kept.line(t), &kept, acknowledgementRoom)
				kept.Error = &refused
				wantLine(t, kept.line(t), &kept, math.MaxInt)
			}
		}
	}
}

func (a *acknowledgement) line(t *testing.T) []byte {
	t.Helper()
	line, err := a.appendLine(nil)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// wantLine compares a line with the one that encoding/json makes of v, for readers of lines.
func wantLine(t *testing.T, line []byte, v any, room int) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%s\n", reprise.AppendJSONLine(nil, text)); string(line) != want {
		t.Errorf("%q, want %q", line, want)
	}
	if len(line) > room {
		t.Errorf("%q needs more room than %d bytes", line, room)
	}
}
