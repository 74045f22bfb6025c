package sse_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise/sse"
)

func TestEncoderWritesBlocks(t *testing.T) {
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{
			"event", sse.AppendEvent(nil, sse.Event{ID: "7", Type: "note", Data: []byte("hello")}),
			"event: note\ndata: hello\nid: 7\n\n",
		},
		{"message has no type", sse.AppendEvent(nil, sse.Event{Type: "message", Data: []byte("x")}), "data: x\n\n"},
		{"empty data", sse.AppendEvent(nil, sse.Event{Data: []byte{}}), "data: \n\n"},
		{"bare id", sse.AppendEvent(nil, sse.Event{ID: "7"}), "id: 7\n\n"},
		{
			"lines", sse.AppendEvent(nil, sse.Event{Data: []byte("a\nb\r\nc\rd\n")}),
			"data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n",
		},
		{"forged id", sse.AppendEvent(nil, sse.Event{ID: "7\ndata: forged", Data: []byte("x")}), "data: x\n\n"},
		{"forged type", sse.AppendEvent(nil, sse.Event{Type: "a\rdata: forged", Data: []byte("x")}), "data: x\n\n"},
		{"NUL in id", sse.AppendEvent(nil, sse.Event{ID: "7\x00", Data: []byte("x")}), "data: x\n\n"},
		{"comment", sse.AppendComment(nil, "still here"), ": still here\n"},
		{"comment of lines", sse.AppendComment(nil, "a\ndata: b"), ": a\n: data: b\n"},
		{"empty comment", sse.AppendComment(nil, ""), ": \n"},
		{"retry", sse.AppendRetry(nil, 1500*time.Microsecond), "retry: 1\n"},
		{"negative retry", sse.AppendRetry(nil, -time.Second), "retry: 0\n"},
		{"appends", sse.AppendRetry([]byte("x"), time.Second), "xretry: 1000\n"},
	} {
		if string(tt.got) != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

// Decoding is the inverse of encoding, as far as the format can say what was encoded.
func FuzzRoundTrip(f *testing.F) {
	f.Add("7", "note", []byte("hello"), false)
	f.Add(" 7", " x", []byte(" a\r\n\r\nb\n"), false)
	f.Add("", "", []byte{}, true)
	f.Add("\n", "\x00", []byte(":"), false)
	f.Fuzz(func(t *testing.T, id, kind string, data []byte, bare bool) {
		event := sse.Event{ID: id, Type: kind, Data: data}
		if bare {
			event.Data = nil
		} else if data == nil {
			event.Data = []byte{}
		}
		const before, after = "data: before\n\n", "data: after\n\n"
		text := sse.AppendEvent([]byte(before), event)
		text = append(text, after...)
		got, err := decode(bytes.NewReader(text), "")
		if err != io.EOF {
			t.Fatal(err)
		}

		want := event
		if strings.ContainsAny(id, "\r\n\x00") {
			want.ID = ""
		}
		if kind == "" || strings.ContainsAny(kind, "\r\n") {
			want.Type = "message"
		}
		if want.Data != nil {
			lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
			want.Data = []byte(lines)
		}
		want.LastEventID = want.ID
		wants := []sse.Event{message("before")}
		if want.ID != "" || want.Data != nil {
			if want.Data == nil {
				want.Type = got.Events[1].Type // the type of what is not dispatched means nothing
			}
			wants = append(wants, want)
		}
		last := message("after")
		last.LastEventID = want.ID
		if diff := cmp.Diff(append(wants, last), got.Events); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", text, diff)
		}
	})
}

func TestEncoderAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 1024)
	event := sse.Event{ID: "7", Type: "note", Data: []byte("hello\nworld")}
	if n := testing.AllocsPerRun(100, func() {
		buf = sse.AppendEvent(buf[:0], event)
		buf = sse.AppendComment(buf, "still here")
		buf = sse.AppendRetry(buf, time.Second)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var benchEvent = sse.Event{
	ID: "1234.7ZK3M9Q2VTX4WB8A.0123456789ABC", Type: "stdout",
	Data: bytes.Repeat([]byte("x"), 200),
}

func BenchmarkAppendEvent(b *testing.B) {
	buf := make([]byte, 0, 1024)
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = sse.AppendEvent(buf[:0], benchEvent)
		}
	})
	// The limit trusts everything: nothing but the copies.
	b.Run("limit", func(b *testing.B) {
		for b.Loop() {
			buf = append(append(buf[:0], "event: "...), benchEvent.Type...)
			buf = append(append(buf, "\ndata: "...), benchEvent.Data...)
			buf = append(append(buf, "\nid: "...), benchEvent.ID...)
			buf = append(buf, "\n\n"...)
		}
	})
}
