package reprise_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"reprise"
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
