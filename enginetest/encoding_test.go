package enginetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/store/memstore"
)

var moment = time.Date(2026, 11, 20, 9, 30, 0, 5_000_000, time.UTC)

func TestAppendJSON(t *testing.T) {
	const head = `{"seq":7,"time":"2026-11-20T09:30:00.005Z"`
	for _, c := range []struct {
		format reprise.Format
		data   string
		want   string
	}{
		{reprise.FormatBytes, "", `,"text":""}`},
		{reprise.FormatBytes, "hello\n", `,"text":"hello\n"}`},
		{reprise.FormatBytes, "\x00\x1f\x7f\"\\/\r\t\b", `,"text":"\u0000\u001f` + "\x7f" + `\"\\/\r\t\u0008"}`},
		{reprise.FormatBytes, "<é☃😀\u2028>", `,"text":"<é☃😀\u2028>"}`},
		{reprise.FormatBytes, "\xff\xfe", `,"base64":"//4="}`},
		{reprise.FormatBytes, "cut \xe2\x98", `,"base64":"Y3V0IOKY"}`},
		{reprise.FormatJSON, `null`, `,"data":null}`},
		{reprise.FormatJSON, `{"a":[1, 2]}`, `,"data":{"a":[1, 2]}}`},
		{reprise.FormatMembers, `{}`, `}`},
		{reprise.FormatMembers, `{ }`, `}`},
		{reprise.FormatMembers, `{"exit_code":0,"signal":null}`, `,"exit_code":0,"signal":null}`},
	} {
		e := reprise.Event{Seq: 7, Time: moment, Format: c.format, Data: []byte(c.data)}
		got := string(e.AppendJSON([]byte("before")))
		if want := "before" + head + c.want; got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", c.data, got, want)
		}
		if !json.Valid([]byte(got)[len("before"):]) {
			t.Errorf("%q is no JSON", got)
		}
	}
}

// TestEscapesAtEveryPlace puts one and two escapes at each place of texts around the sizes of the words
// and blocks that are looked at together.
func TestEscapesAtEveryPlace(t *testing.T) {
	special := "\"\\\n\x00\x1f"
	for size := range 80 {
		for at := range size {
			text := []byte(strings.Repeat("plain ~\x7f", 10))[:size]
			text[at] = special[at%len(special)]
			checkText(t, text)
			text[size-1-at] = special[size%len(special)]
			checkText(t, text)
		}
	}
	checkText(t, bytes.Repeat([]byte(special), 50))
}

// checkText compares the text of an event with what encoding/json writes. The buffer has no room
// for it but what AppendJSON makes.
func checkText(t *testing.T, text []byte) {
	t.Helper()
	e := reprise.Event{Seq: 7, Time: moment, Data: text}
	want, err := json.Marshal(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if line := e.AppendJSON(nil); !bytes.HasSuffix(line, append(want, '}')) {
		t.Errorf("%q has become %s", text, line)
	}
}

// TestAppendRefusesFormats: what would make an event that cannot be shown is refused.
func TestAppendRefusesFormats(t *testing.T) {
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{})
	for format, texts := range map[reprise.Format][]string{
		reprise.FormatJSON:    {"", "\n", "{\"a\":\n1}", "1\r"},
		reprise.FormatMembers: {"", "{", "}", "[]", "null", `"{}"`, ` {}`, `{} `, "{\n}", `{"a":1`, `{"a":1} `},
		99:                    {"", "x"},
	} {
		for _, text := range texts {
			if _, err := s.Append(t.Context(), reprise.Event{Format: format, Data: []byte(text)}); err == nil {
				t.Errorf("format %d with %q was taken", format, text)
			} else {
				wantError(t, err, reprise.ErrInvalid)
			}
		}
	}
	if tail := info(t, s).Tail; tail != 0 {
		t.Errorf("%d events were kept", tail)
	}
}

// FuzzAppendJSON: the JSON of bytes is valid and decodes to what went in.
func FuzzAppendJSON(f *testing.F) {
	f.Add([]byte("hello\n"), uint64(7))
	f.Add([]byte("\xff\x00"), uint64(0))
	f.Add([]byte("seven..\"\\\x01 and \u2028 then some more text"), uint64(1<<63))
	f.Fuzz(func(t *testing.T, data []byte, seq uint64) {
		e := reprise.Event{Seq: seq, Time: moment, Data: data}
		var got struct {
			Seq    uint64
			Time   time.Time
			Text   *string
			Base64 []byte
		}
		line := e.AppendJSON(nil)
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if bytes.ContainsAny(line, "\r\n"+separators) || got.Seq != seq || !got.Time.Equal(moment) {
			t.Fatalf("%s", line)
		}
		if utf8.Valid(data) {
			if got.Text == nil || *got.Text != string(data) || got.Base64 != nil {
				t.Fatalf("%q is shown as %s", data, line)
			}
		} else if got.Text != nil || !bytes.Equal(got.Base64, data) {
			t.Fatalf("%q is shown as %s", data, line)
		}
	})
}

// FuzzAppendMembers: JSON that was valid stays what it was, as the data and as members.
func FuzzAppendMembers(f *testing.F) {
	f.Add([]byte(`{"a":1}`))
	f.Add([]byte(`{ }`))
	f.Add([]byte(`[1,"\n"]`))
	f.Add([]byte("{\"\u2028\":\"\u0085\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) || bytes.ContainsAny(data, "\r\n") {
			return
		}
		asData := reprise.Event{Format: reprise.FormatJSON, Data: data}
		var got struct{ Data json.RawMessage }
		want := reprise.AppendJSONLine(nil, bytes.Trim(data, " \t"))
		if err := json.Unmarshal(asData.AppendJSON(nil), &got); err != nil || !bytes.Equal(got.Data, want) {
			t.Fatalf("%s is shown as %s: %v", data, got.Data, err)
		}
		if data[0] != '{' || data[len(data)-1] != '}' || strings.Contains(string(data), "seq") {
			return
		}
		asMembers := reprise.Event{Format: reprise.FormatMembers, Data: data}
		var members, wants map[string]json.RawMessage
		if err := json.Unmarshal(asMembers.AppendJSON(nil), &members); err != nil {
			t.Fatalf("%s as members: %v", data, err)
		}
		check(t, json.Unmarshal(data, &wants))
		for name, value := range wants {
			if !bytes.Equal(members[name], reprise.AppendJSONLine(nil, value)) {
				t.Fatalf("member %q of %s is %s", name, data, members[name])
			}
		}
	})
}

// TestRecordsAreTheEventsOfALog: what a Log has appended is decoded from the bytes in its Store, and
// encoded to the same bytes again.
func TestRecordsAreTheEventsOfALog(t *testing.T) {
	ctx, store := t.Context(), memstore.New(nil)
	log, err := reprise.Open(ctx, store, nil)
	check(t, err)
	defer log.Close()
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
	stream, _, err := log.Create(ctx, key, reprise.StreamConfig{})
	check(t, err)
	moment := time.UnixMilli(1_700_000_000_123)
	want := []reprise.Event{
		{Seq: 1, Time: moment, Type: "stdout", Data: []byte("one\n")},
		{Seq: 2, Time: moment, Type: "note", Data: []byte(`{"n":2}`), Format: reprise.FormatMembers},
		{Seq: 3, Time: moment, Type: reprise.TypeMessage, Data: []byte{}},
	}
	_, err = stream.Append(ctx, want...)
	check(t, err)
	want = append(want, reprise.Event{Seq: 4, Time: moment, Type: reprise.TypeEnd, Data: []byte{}})
	_, err = stream.End(ctx, "completed", want[3])
	check(t, err)

	page, err := store.Read(ctx, key, 0, 1<<20)
	check(t, err)
	var got []reprise.Event
	for _, b := range page.Batches {
		var again []byte
		for e, err := range reprise.Records(b) {
			check(t, err)
			got = append(got, e)
			again, err = reprise.AppendRecord(again, &e)
			check(t, err)
		}
		if !bytes.Equal(again, b.Bytes) {
			t.Errorf("encoded again, the batch at %d has other bytes", b.First)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAppendRecordRefusesWhatALogRefuses(t *testing.T) {
	for _, e := range []reprise.Event{
		{Type: reprise.TypeGap},
		{Type: "with space"},
		{Format: 9},
		{Format: reprise.FormatJSON},
		{Format: reprise.FormatMembers, Data: []byte("[]")},
	} {
		b, err := reprise.AppendRecord([]byte("before"), &e)
		if !errors.Is(err, reprise.ErrInvalid) || string(b) != "before" {
			t.Errorf("%+v: %q, %v", e, b, err)
		}
	}
}

// TestRecordsOfADamagedBatch: an error is the last thing yielded, whatever is cut off or miscounted.
func TestRecordsOfADamagedBatch(t *testing.T) {
	var whole reprise.Batch
	for whole.First = 7; whole.Count < 3; whole.Count++ {
		var err error
		whole.Bytes, err = reprise.AppendRecord(whole.Bytes, &reprise.Event{Data: []byte("some data")})
		check(t, err)
	}
	damaged := func(b reprise.Batch, what string) {
		var last error
		for _, err := range reprise.Records(b) {
			if last != nil {
				t.Errorf("%s: something is yielded after the error", what)
			}
			last = err
		}
		if last == nil {
			t.Errorf("%s: no error", what)
		}
	}
	for cut := range whole.Bytes {
		b := whole
		b.Bytes = whole.Bytes[:cut]
		damaged(b, "cut")
	}
	damaged(reprise.Batch{First: 7, Count: 2, Bytes: whole.Bytes}, "one event too many")
	damaged(reprise.Batch{First: 7, Count: 4, Bytes: whole.Bytes}, "one event too few")
	lying := bytes.Clone(whole.Bytes)
	lying[1+6+1] = 255 // the length of the type
	damaged(reprise.Batch{First: 7, Count: 3, Bytes: lying}, "a type longer than its record")
}

// FuzzRecords: no bytes make the decoder panic, and what it takes whole is encoded to events that are the same.
func FuzzRecords(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 4 {
		var b []byte
		for range n {
			data := make([]byte, rnd.IntN(200))
			b, _ = reprise.AppendRecord(b, &reprise.Event{Time: time.UnixMilli(1), Data: data})
		}
		f.Add(b, n)
	}
	f.Fuzz(func(t *testing.T, b []byte, count int) {
		events := 0
		var again []byte
		for e, err := range reprise.Records(reprise.Batch{First: 1, Count: count, Bytes: b}) {
			if err != nil {
				return
			}
			if events++; e.Seq != uint64(events) {
				t.Fatalf("event %d has seq %d", events, e.Seq)
			}
			if again, err = reprise.AppendRecord(again, &e); err != nil {
				return // taken from the store, but no Log would have appended it
			}
		}
		var repeated []reprise.Event
		for e, err := range reprise.Records(reprise.Batch{First: 1, Count: events, Bytes: again}) {
			if err != nil {
				t.Fatal(err)
			}
			repeated = append(repeated, e)
		}
		if len(repeated) != max(count, 0) {
			t.Fatalf("%d events of %d came back", len(repeated), count)
		}
	})
}

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
