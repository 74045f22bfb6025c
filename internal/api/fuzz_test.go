package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/problem"
	"reprise/internal/web"
)

// A range that is taken lies within the bytes there are.
func FuzzParseRange(f *testing.F) {
	for _, header := range []string{
		"bytes=0-3", "bytes=-5", "bytes=7-", "bytes=-", "bytes=9-1", "x=1-2", "bytes=18446744073709551615-",
	} {
		f.Add(header, int64(10))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		part, verdict := web.ParseRange(header, size)
		if verdict == web.RangeGood && (part.Start < 0 || part.Length <= 0 || part.Length > size-part.Start) {
			t.Errorf("%q of %d: %+v", header, size, part)
		}
		if verdict != web.RangeGood && part != (web.Span{}) {
			t.Errorf("%q of %d is not taken, but %+v", header, size, part)
		}
	})
}

// What decode takes, the strict decoder of the standard library takes too; what it
// refuses is refused as invalid.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"argv":["true"],"tty":{"cols":80}}`, `{"limits":{"cpu_time":"5s"}}`, `{"Argv":[]}`, `{"argv":null}`, `[]`,
		`{"stdin_base64":"AA=="}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var req execution.Request
		err := web.Decode(text, &req)
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
	f.Add(web.JSON, []byte(`{"events":[{"type":"a","data":{"b":[1,2]}}]}`))
	f.Add(web.JSON, []byte(`{"data":"\u2028"}`))
	f.Add(web.NDJSON, []byte("{\"data\":1}\n\n{\"type\":\"x\"}\n"))
	f.Fuzz(func(t *testing.T, mediaType string, body []byte) {
		events, err := decodeEvents(mediaType, "", body)
		if err != nil {
			return
		}
		if len(events) == 0 {
			t.Errorf("%q has no events", body)
		}
		for _, e := range events {
			if mediaType == web.JSON || mediaType == web.NDJSON {
				if !json.Valid(e.Data) || bytes.ContainsAny(e.Data, "\r\n") {
					t.Errorf("%q has become %q", body, e.Data)
				}
			}
		}
	})
}

// publishBodies are bodies near the borders of what scanEvents takes.
var publishBodies = []string{
	`{"events":[{"type":"a","data":{"b":[1,2]}}]}`, `{"events":[{"type":"a"},{"data":1},{}]}`,
	`{"type":"a","data":1}`, `{}`, `{"data" : {"a": "b"} }`,
	" {\n\t\"events\" : [ { \"type\" : \"a\" , \"data\" : [ 1 , \"x y\" ] } , {} ] }\r\n",
	`{"events":[]}`, `{"events":null}`, `{"events":[null]}`, `{"events":{}}`,
	`{"events":[{}],"type":"a"}`, `{"events":[{}],"events":[{}]}`, `{"Events":[{}]}`,
	`{"type":"a","Type":"b"}`, `{"type":"a","type":"b"}`, `{"data":1,"data":2}`, `{"data":1,"more":2}`,
	`{"type":null,"data":null}`, `{"type":1}`, `{"type":"\u0061"}`, `{"ty\u0070e":"a"}`,
	`{"data":"\u2028"}`, "{\"data\":\"\u2028\"}", `{"data":1}x`, `{"data":01}`, `{"data":tru}`,
	"{\"data\":\"a\n\"}", "{\"data\":\"\xff\"}", `[]`, `null`, ``, ` `, `{"data"}`, `{"data":1,}`,
	"{\"data\":1}\n\n{\"type\":\"x\"}\n", "{\"data\":\n1}\n", "{\"data\":1}\r\n{\"data\":2}",
	"{\"data\":1} {\"data\":2}\n", "\n\n", "\u00a0\n{}\n",
	`{"data":[[[[{"a":[{}]}]]]]}`, `{"data":` + strings.Repeat("[", 512) + strings.Repeat("]", 512) + `}`,
	`{"data":` + strings.Repeat("[", 513) + strings.Repeat("]", 513) + `}`,
}

// TestScanEventsAgreesWithTheDecoder: what the scanner takes, the decoder of the standard library takes, and both
// make the same events of it.
func TestScanEventsAgreesWithTheDecoder(t *testing.T) {
	taken := 0
	for _, body := range publishBodies {
		for _, mediaType := range []string{web.JSON, web.NDJSON} {
			if compareDecoders(t, mediaType, []byte(body)) {
				taken++
			}
		}
	}
	if taken < 15 {
		t.Errorf("the scanner takes %d of these bodies", taken)
	}
}

func FuzzScanEvents(f *testing.F) {
	for _, body := range publishBodies {
		f.Add(true, []byte(body))
		f.Add(false, []byte(body))
	}
	f.Fuzz(func(t *testing.T, lines bool, body []byte) {
		mediaType := web.JSON
		if lines {
			mediaType = web.NDJSON
		}
		compareDecoders(t, mediaType, body)
	})
}

// compareDecoders reports whether the scanner takes body.
func compareDecoders(t *testing.T, mediaType string, body []byte) bool {
	t.Helper()
	before := bytes.Clone(body)
	scanned, ok := scanEvents(mediaType, body)
	if !ok {
		return false
	}
	decoded, err := decodeEventsSlowly(mediaType, body)
	if err != nil {
		t.Errorf("%s %q is taken, but %v", mediaType, body, err)
	}
	if diff := cmp.Diff(decoded, scanned); diff != "" {
		t.Errorf("%s %q, decoded and scanned: %s", mediaType, body, diff)
	}
	if !bytes.Equal(before, body) {
		t.Errorf("%q was changed", before)
	}
	return true
}

func BenchmarkDecodeEvents(b *testing.B) {
	event := `{"type":"note","data":{"text":"` + strings.Repeat("a log line, ", 14) + `","n":12}}`
	spaced := strings.ReplaceAll(strings.ReplaceAll(event, ":", ": "), `,"`, `, "`)
	list := func(event string) string {
		return `{"events":[` + strings.TrimSuffix(strings.Repeat(event+",", 100), ",") + `]}`
	}
	for _, c := range []struct{ name, mediaType, body string }{
		{"body=json", web.JSON, list(event)},
		{"body=spaced", web.JSON, list(spaced)},
		{"body=ndjson", web.NDJSON, strings.Repeat(event+"\n", 100)},
	} {
		for _, decoder := range []struct {
			name   string
			decode func(mediaType string, body []byte) ([]reprise.Event, error)
		}{
			{"scan", func(mediaType string, body []byte) ([]reprise.Event, error) {
				return decodeEvents(mediaType, "", body)
			}},
			{"decode", decodeEventsSlowly},
		} {
			b.Run(c.name+"/by="+decoder.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if events, err := decoder.decode(c.mediaType, []byte(c.body)); err != nil || len(events) != 100 {
						b.Fatal(len(events), err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100), "ns/event")
			})
		}
	}
}
