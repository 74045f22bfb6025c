package sse_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise/sse"
)

// decode reads all of r.
func decode(r io.Reader, initial string) (result, error) {
	var got result
	d := sse.NewDecoder(r, &sse.DecoderOptions{
		LastEventID: initial,
		Comment:     func(text []byte) { got.Comments = append(got.Comments, string(text)) },
	})
	for {
		event, err := d.Next()
		if err != nil {
			got.LastID = d.LastEventID()
			got.Retry, got.HasRetry = d.Retry()
			return got, err
		}
		if event.LastEventID != d.LastEventID() {
			return got, errors.New("the event and the decoder differ in the last event id")
		}
		if event.Data != nil {
			event.Data = append([]byte{}, event.Data...)
		}
		got.Events = append(got.Events, event)
	}
}

func message(data string) sse.Event {
	return sse.Event{Type: "message", Data: []byte(data)}
}

var decodeTests = []struct {
	name, text string
	want       result
}{
	// The examples of section 9.2 of the standard, with what it says of each.
	{
		"standard: multi-line message", "data: YHOO\ndata: +2\ndata: 10\n\n",
		result{Events: []sse.Event{message("YHOO\n+2\n10")}},
	},
	{
		"standard: messages of two lines",
		"data: This is the first message.\n\ndata: This is the second message, it\ndata: has two lines.\n\ndata: This is the third message.\n\n",
		result{Events: []sse.Event{
			message("This is the first message."),
			message("This is the second message, it\nhas two lines."), message("This is the third message."),
		}},
	},
	{
		"standard: named events",
		"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\nevent: add\ndata: 113411\n\n",
		result{Events: []sse.Event{
			{Type: "add", Data: []byte("73857293")},
			{Type: "remove", Data: []byte("2153")},
			{Type: "add", Data: []byte("113411")},
		}},
	},
	{
		"standard: comment, id, id reset, leading space",
		": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
		result{
			Events: []sse.Event{
				{ID: "1", Type: "message", Data: []byte("first event"), LastEventID: "1"},
				message("second event"), message(" third event"),
			},
			Comments: []string{"test stream"},
		},
	},
	{
		"standard: empty data, single newline, incomplete", "data\n\ndata\ndata\n\ndata:",
		result{Events: []sse.Event{message(""), message("\n")}},
	},
	{
		"standard: space is ignored once", "data:test\n\ndata: test\n\n",
		result{Events: []sse.Event{message("test"), message("test")}},
	},
	// Line breaks.
	{"CR", "data: a\r\rdata: b\r\r", result{Events: []sse.Event{message("a"), message("b")}}},
	{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", result{Events: []sse.Event{message("a"), message("b")}}},
	{"mixed", "data: a\rdata: b\r\ndata: c\n\r\n", result{Events: []sse.Event{message("a\nb\nc")}}},
	{"LF CR is two breaks", "data: a\n\rdata: b\n\r", result{Events: []sse.Event{message("a"), message("b")}}},
	// Byte order mark.
	{"BOM", "\uFEFFdata: a\n\n", result{Events: []sse.Event{message("a")}}},
	{"two BOMs", "\uFEFF\uFEFFdata: a\n\ndata: b\n\n", result{Events: []sse.Event{message("b")}}},
	{"BOM later", "data: a\n\n\uFEFFdata: b\n\n", result{Events: []sse.Event{message("a")}}},
	{"BOM alone on a line", "\uFEFF\ndata: a\n\n", result{Events: []sse.Event{message("a")}}},
	{"BOM behind a blank line", "\n\uFEFFdata: a\n\n", result{}},
	{"part of a BOM", "\xEF\xBBdata: a\n\ndata: b\n\n", result{Events: []sse.Event{message("b")}}},
	// Ids.
	{"id persists", "id: 1\ndata: a\n\ndata: b\n\n", result{
		Events: []sse.Event{
			{ID: "1", Type: "message", Data: []byte("a"), LastEventID: "1"},
			{Type: "message", Data: []byte("b"), LastEventID: "1"},
		}, LastID: "1",
	}},
	{"NUL in id", "id: 1\n\nid: 2\x003\ndata: a\n\n", result{
		Events: []sse.Event{
			{ID: "1", Type: "message", LastEventID: "1"},
			{Type: "message", Data: []byte("a"), LastEventID: "1"},
		}, LastID: "1",
	}},
	{"bare id", "id: 7\n\n", result{Events: []sse.Event{{ID: "7", Type: "message", LastEventID: "7"}}, LastID: "7"}},
	{
		"id of an incomplete block", "id: 1\n\nid: 2\ndata: a\n",
		result{Events: []sse.Event{{ID: "1", Type: "message", LastEventID: "1"}}, LastID: "1"},
	},
	{
		"last id of a block wins", "id: 1\nid: 2\n\n",
		result{Events: []sse.Event{{ID: "2", Type: "message", LastEventID: "2"}}, LastID: "2"},
	},
	// Retry.
	{"retry", "retry: 1500\n\n", result{Retry: 1500 * time.Millisecond, HasRetry: true}},
	{"retry zero", "retry:0\n", result{HasRetry: true}},
	{"retry counts in an incomplete block", "retry: 5\ndata: x", result{Retry: 5 * time.Millisecond, HasRetry: true}},
	{
		"retry takes digits only", "retry: 1s\nretry: -1\nretry: +1\nretry:\nretry:  1\nretry: 1 \nretry: \u0661\n\n",
		result{},
	},
	{
		"endless retry", "retry: " + strings.Repeat("9", 40) + "\n",
		result{Retry: (1<<63 - 1) / time.Millisecond * time.Millisecond, HasRetry: true},
	},
	// Fields.
	{"unknown fields", "foo: bar\nDATA: a\n data: b\ndata : c\ndatax\n\n", result{}},
	{"type alone dispatches nothing", "event: x\n\ndata: a\n\n", result{Events: []sse.Event{message("a")}}},
	{
		"last type of a block wins, an empty one is message", "event: x\nevent\ndata: a\n\n",
		result{Events: []sse.Event{message("a")}},
	},
	{"colons in data", "data:a:b: c\n\n", result{Events: []sse.Event{message("a:b: c")}}},
	{"comments", ":\n: \n:a\n: b\n:  c\n", result{Comments: []string{"", "", "a", "b", " c"}}},
	{"no final blank line", "data: a\n\ndata: b\n", result{Events: []sse.Event{message("a")}}},
	{"invalid UTF-8 is kept", "data: \xff\xfe\n\n", result{Events: []sse.Event{message("\xff\xfe")}}},
	{"nothing", "", result{}},
}

func TestDecoderReadsEvents(t *testing.T) {
	for _, tt := range decodeTests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decode(strings.NewReader(tt.text), "")
			if err != io.EOF {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("decoder (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, interpret(tt.text, "")); diff != "" {
				t.Errorf("reference (-want +got):\n%s", diff)
			}
		})
	}
}

// However the bytes arrive, the same is read.
func TestDecoderSplitAnywhere(t *testing.T) {
	var all strings.Builder
	for _, tt := range decodeTests {
		all.WriteString(tt.text + "\n\n")
	}
	texts := []string{all.String()}
	for _, tt := range decodeTests {
		texts = append(texts, tt.text)
	}
	for _, text := range texts {
		want := interpret(text, "0")
		for n := range len(text) + 1 {
			r := io.MultiReader(strings.NewReader(text[:n]), strings.NewReader(text[n:]))
			got, err := decode(r, "0")
			if err != io.EOF {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("split at %d of %q:\n%s", n, text, cmp.Diff(want, got))
			}
		}
		for name, r := range map[string]io.Reader{
			"one byte at a time": iotest.OneByteReader(strings.NewReader(text)),
			"EOF with the data":  iotest.DataErrReader(strings.NewReader(text)),
		} {
			if got, _ := decode(r, "0"); !reflect.DeepEqual(want, got) {
				t.Errorf("%s of %q: %s", name, text, cmp.Diff(want, got))
			}
		}
	}
}

// An event is given out when its last byte is there, whatever follows.
func TestDecoderDoesNotWaitForMore(t *testing.T) {
	for _, text := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r"} {
		r, w := io.Pipe()
		d := sse.NewDecoder(r, nil)
		go io.WriteString(w, text) // and no more
		if event, err := d.Next(); err != nil || string(event.Data) != "a" {
			t.Errorf("%q: %+v, %v", text, event, err)
		}
		r.Close()
	}
}

func TestDecoderLongLines(t *testing.T) {
	const size = 5 << 20
	long := strings.Repeat("x", size)
	text := "id: 1\ndata: " + long + "\ndata: " + long + "\n\ndata: short\n\n"
	got, err := decode(iotest.HalfReader(strings.NewReader(text)), "")
	if err != io.EOF || len(got.Events) != 2 || string(got.Events[0].Data) != long+"\n"+long ||
		string(got.Events[1].Data) != "short" {
		t.Errorf("%d events, %v", len(got.Events), err)
	}
}

func TestDecoderBounds(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"data of the bound", "data: 12345678\n\n", true},
		{"data above it", "data: 123456789\n\n", false},
		{"lines of the bound", "data: 1234\ndata: 678\n\n", true},
		{"lines above it", "data: 1234\ndata: 6789\n\n", false},
		{"endless line", strings.Repeat("x", 1<<20), false},
		{"endless comment", ":" + strings.Repeat("x", 1<<20), false},
	} {
		d := sse.NewDecoder(strings.NewReader(tt.text), &sse.DecoderOptions{MaxBytes: 8})
		_, err := d.Next()
		if tt.ok != (err == nil) || err != nil && !errors.Is(err, sse.ErrTooLong) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if _, again := d.Next(); !tt.ok && !errors.Is(again, sse.ErrTooLong) {
			t.Errorf("%s: then %v", tt.name, again)
		}
	}
}

func TestDecoderGivesTheErrorOfItsReader(t *testing.T) {
	broken := errors.New("reset by peer")
	d := sse.NewDecoder(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), nil)
	if event, err := d.Next(); err != nil || string(event.Data) != "a" {
		t.Fatalf("%+v, %v", event, err)
	}
	for range 2 {
		if _, err := d.Next(); err != broken { // must be the very error
			t.Fatal(err)
		}
	}
	d = sse.NewDecoder(silent{}, nil)
	if _, err := d.Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %v", err)
	}
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

func FuzzDecoder(f *testing.F) {
	for _, tt := range decodeTests {
		f.Add([]byte(tt.text), uint16(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, split uint16) {
		n := min(int(split), len(text))
		got, err := decode(io.MultiReader(bytes.NewReader(text[:n]), bytes.NewReader(text[n:])), "0")
		if err != io.EOF {
			t.Fatal(err)
		}
		if diff := cmp.Diff(interpret(string(text), "0"), got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// One turn reads the 1,000 events of a connection.
func BenchmarkDecoder(b *testing.B) {
	var text []byte
	for range 1000 {
		text = sse.AppendEvent(text, benchEvent)
	}
	r := bytes.NewReader(nil)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Reset(text)
		d := sse.NewDecoder(r, nil)
		for range 1000 {
			if _, err := d.Next(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/1000, "ns/event")
}
