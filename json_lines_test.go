package reprise_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"reprise"
)

// separators are the characters beyond ASCII at which Python's str.splitlines breaks a line.
const separators = "\u0085\u2028\u2029"

// TestSeparatorsAreEscaped: JSON for readers holds no character that one of them takes for a line break, in each
// format, and means the same.
func TestSeparatorsAreEscaped(t *testing.T) {
	text := "a\u2028b\u2029\u0085\u0085“c” \u00a0é\u2027\u202a─\"\n" + separators
	quoted := "\"a\u2028b\u2029\u0085\u0085“c” \u00a0é\u2027\u202a─\\\"\\n" + separators + "\""
	for format, data := range map[reprise.Format]string{
		reprise.FormatBytes:   text,
		reprise.FormatJSON:    quoted,
		reprise.FormatMembers: `{"text":` + quoted + `}`,
	} {
		e := reprise.Event{Seq: 1, Time: moment, Format: format, Data: []byte(data)}
		line := e.AppendJSON(nil)
		if bytes.ContainsAny(line, separators+"\n") {
			t.Errorf("format %v: %q", format, line)
		}
		var got struct{ Text, Data string }
		check(t, json.Unmarshal(line, &got))
		if got.Text+got.Data != text {
			t.Errorf("format %v: %q, want %q", format, got.Text+got.Data, text)
		}
		if string(e.Data) != data {
			t.Errorf("format %v: the event itself has changed", format)
		}
	}
}

// TestAppendJSONLine: what is no separator stays as it is, cut off or not.
func TestAppendJSONLine(t *testing.T) {
	for text, want := range map[string]string{
		``:                                 ``,
		`{"a":1}`:                          `{"a":1}`,
		"\"\u2028\"":                       `"\u2028"`,
		"\"\u0085\u2029\u2028\"":           `"\u0085\u2029\u2028"`,
		"\"\u2026\u00e9\u2500\u2028\"":     "\"\u2026\u00e9\u2500\\u2028\"",
		"\"\u2026\u00e9\u2500\"":           "\"\u2026\u00e9\u2500\"",
		"\"\\u2028\"":                      `"\u2028"`,
		"\xe2\x80":                         "\xe2\x80",
		"\u2028\xe2":                       "\\u2028\xe2",
		"\u0085\xc2":                       "\\u0085\xc2",
		strings.Repeat("\u2028", 1000):     strings.Repeat(`\u2028`, 1000),
		strings.Repeat("x", 99) + "\u0085": strings.Repeat("x", 99) + `\u0085`,
	} {
		if got := string(reprise.AppendJSONLine([]byte("<"), []byte(text))); got != "<"+want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// BenchmarkAppendJSONBeyondASCII: text that has characters which begin like separators.
func BenchmarkAppendJSONBeyondASCII(b *testing.B) {
	plain := payload(1)[0].Data
	for name, char := range map[string]string{"box": "─", "quote": "“", "accent": "é", "separator": "\u2028"} {
		e := reprise.Event{
			Seq: 1234567, Time: moment,
			Data: slices.Concat([]byte(strings.Repeat(char, 20)), plain[:eventBytes-20*len(char)]),
		}
		b.Run(name, func(b *testing.B) {
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = e.AppendJSON(buf[:0])
			}
		})
	}
}
