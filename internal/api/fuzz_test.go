package api

import (
	"bytes"
	"encoding/json"
	"testing"

	"reprise/internal/execution"
	"reprise/internal/problem"
)

// A range that is taken lies within the bytes there are.
func FuzzParseRange(f *testing.F) {
	for _, header := range []string{"bytes=0-3", "bytes=-5", "bytes=7-", "bytes=-", "bytes=9-1", "x=1-2", "bytes=18446744073709551615-"} {
		f.Add(header, int64(10))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		part, verdict := parseRange(header, size)
		if verdict == rangeGood && (part.start < 0 || part.length <= 0 || part.length > size-part.start) {
			t.Errorf("%q of %d: %+v", header, size, part)
		}
		if verdict != rangeGood && part != (span{}) {
			t.Errorf("%q of %d is not taken, but %+v", header, size, part)
		}
	})
}

// What decode takes, the strict decoder of the standard library takes too; what it
// refuses is refused as invalid.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"argv":["true"],"tty":{"cols":80}}`, `{"limits":{"cpu_time":"5s"}}`, `{"Argv":[]}`, `{"argv":null}`, `[]`, `{"stdin_base64":"AA=="}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var req execution.Request
		err := decode(text, &req)
		if err != nil {
			if p, ok := problem.As(err); !ok || p.Code != problem.CodeInvalid || p.Status != 400 && p.Status != 422 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		if err := strict.Decode(new(execution.Request)); err != nil {
			t.Errorf("%q is taken, but %v", text, err)
		}
	})
}

// Events that are taken are one line of JSON each, as the Log wants them.
func FuzzDecodeEvents(f *testing.F) {
	f.Add(jsonType, []byte(`{"events":[{"type":"a","data":{"b":[1,2]}}]}`))
	f.Add(jsonType, []byte(`{"data":"\u2028"}`))
	f.Add(ndjsonType, []byte("{\"data\":1}\n\n{\"type\":\"x\"}\n"))
	f.Fuzz(func(t *testing.T, mediaType string, body []byte) {
		events, err := decodeEvents(mediaType, "", body)
		if err != nil {
			return
		}
		if len(events) == 0 {
			t.Errorf("%q has no events", body)
		}
		for _, e := range events {
			if mediaType == jsonType || mediaType == ndjsonType {
				if !json.Valid(e.Data) || bytes.ContainsAny(e.Data, "\r\n") {
					t.Errorf("%q has become %q", body, e.Data)
				}
			}
		}
	})
}
