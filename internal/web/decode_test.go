package web

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Integers may be written in any form wherever they stand; what is not an integer stays as it was sent.
func TestDecodeRewritesIntegersAlone(t *testing.T) {
	type item struct {
		N     int8            `json:"n"`
		Value json.RawMessage `json:"value"`
	}
	type body struct {
		N      *int           `json:"n"`
		Items  []item         `json:"items"`
		Limits map[string]int `json:"limits"`
		Rate   float64        `json:"rate"`
		Text   string         `json:"text"`
		Last   uint64         `json:"last"`
	}
	var got body
	text := `{"n": 1e3,"items":[{"n":1.0e1,"value":[1e3, 2.0]}, {"value":1e3 ,"n":2}],"limits":{"a":5e0,"b":7, "c":1.20e1},` +
		`"rate":1.5e0,"text":"1e3","last":1.8e19}`
	if err := Decode([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	n := 1000
	want := body{
		N: &n, Items: []item{{10, json.RawMessage(`[1e3, 2.0]`)}, {2, json.RawMessage(`1e3`)}},
		Limits: map[string]int{"a": 5, "b": 7, "c": 12}, Rate: 1.5, Text: "1e3", Last: 18e18,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, wrong := range []string{
		`{"items":[{"n":1e3}]}`, `{"items":[{"n":0.5}]}`, `{"limits":{"a":1e400}}`, `{"limits":{"a":1,"a":2}}`,
		`{"last":-1e0}`,
	} {
		if err := Decode([]byte(wrong), new(body)); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
