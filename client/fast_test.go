package client

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/sse"
)

// What the fast way reads, the slow way reads alike.
func FuzzDecodeFast(f *testing.F) {
	for _, inside := range []string{
		`"text":""`, `"text":"a\n\"\\\/\b\f\r\té\u00e9\u0000"`, `"text":"\ud83d\ude00"`, `"text":"\ud83d"`,
		`"text":"a","text":"b"`, `"base64":"/wD+"`, `"base64":"/w=="`, `"base64":"!"`, `"data":1`,
	} {
		f.Add([]byte(`{"seq":7,"time":"2026-11-20T09:30:00.123Z",` + inside + `}`))
	}
	for _, object := range []string{
		`{"seq":07,"time":"2026-11-20T09:30:00.123Z","text":""}`,
		`{"seq":7,"time":"2026-02-30T09:30:00.123Z","text":""}`,
		`{"seq":7,"time":"2026-11-20T24:30:60.123Z","text":""}`,
		`{"seq":0,"time":"0000-01-01T00:00:00.000Z","text":"` + "\xff" + `"}`,
	} {
		f.Add([]byte(object))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		seq, at, data, ok := decodeFast(object)
		if !ok {
			return
		}
		slow, err := decodeSlow(sse.Event{ID: "c", Type: "note", Data: object})
		if err != nil {
			t.Fatalf("%q: the slow way refuses it: %v", object, err)
		}
		fast := Event{Seq: seq, Cursor: "c", Time: at, Type: "note", Data: data}
		if diff := cmp.Diff(slow, fast); diff != "" {
			t.Fatalf("%q (-slow +fast):\n%s", object, diff)
		}
	})
}

// The fast way is the one that is taken for what our server writes.
func TestDecodeFastReadsWhatTheServerWrites(t *testing.T) {
	for _, data := range []string{
		"", "plain\n", "\"\\\r\t\x00\x1f é \u2028", "\xff\x00", strings.Repeat("long\n", 10_000),
		strings.Repeat("twelve bytes\" \\ \n", 100), "12345678", "1234567\n", "12345678\n", strings.Repeat("ü", 9) + "\"",
	} {
		e := reprise.Event{Seq: 123456, Data: []byte(data)}
		_, _, got, ok := decodeFast(e.AppendJSON(nil))
		if !ok || string(got) != data {
			t.Errorf("%.20q: %.20q, %t", data, got, ok)
		}
	}
}

func BenchmarkUnescape(b *testing.B) {
	for name, line := range map[string]string{"short": "a line\n", "line": strings.Repeat("x", 63) + "\n"} {
		b.Run(name, func(b *testing.B) {
			object := (&reprise.Event{Seq: 1, Data: []byte(strings.Repeat(line, 32<<10/len(line)))}).AppendJSON(nil)
			b.SetBytes(int64(len(object)))
			for b.Loop() {
				if _, _, _, ok := decodeFast(object); !ok {
					b.Fatal("it was not read")
				}
			}
		})
	}
}
