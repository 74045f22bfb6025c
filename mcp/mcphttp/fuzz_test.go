package mcphttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"reprise"
)

// FuzzEventID: what is taken is the inverse of what is written, and nothing else is.
func FuzzEventID(f *testing.F) {
	for _, id := range []string{
		"", "~", "0~0.0000000000000000.0000000000000", "ABCDEFGHIJKLM~7.7ZK3M9Q2VTX4WB8A.0123456789ABC", "1~1",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		exchange, c, err := parseEventID(id)
		if err != nil {
			if !errors.Is(err, reprise.ErrCursorMalformed) {
				t.Fatalf("%q: %v", id, err)
			}
			return
		}
		if again := (form{exchange}).eventID(c); again != id {
			t.Fatalf("%q was read as %q", id, again)
		}
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "mcp:S/" + exchange}
		if err := key.Validate(); err != nil {
			t.Fatalf("%q names the stream %q: %v", id, key.Name, err)
		}
	})
}

// FuzzBody: what is taken is JSON on one line, and is taken again as the same.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `[]`, `null`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		"[\n{\"jsonrpc\":\"2.0\",\r\n\"method\":\"x\"}]",
		`{"jsonrpc":"2.0","id":"\u0000","result":{}}`, `{"jsonrpc":"2.0","id":-0,"error":{"code":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","ID":2}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		messages, _, err := parseBody(body)
		if err != nil {
			if !errors.Is(err, reprise.ErrInvalid) {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		for _, m := range messages {
			if !json.Valid(m.Raw) || bytes.ContainsAny(m.Raw, "\r\n") {
				t.Fatalf("%q was taken as %q", body, m.Raw)
			}
			if m.ID != "" && !json.Valid([]byte(m.ID)) {
				t.Fatalf("%q has the id %q", body, m.ID)
			}
			again, err := ParseMessage(m.withID(m.ID))
			if err != nil || again.ID != m.ID || again.Method != m.Method {
				t.Fatalf("%q became %q: %v", m.Raw, m.withID(m.ID), err)
			}
		}
	})
}

// FuzzMessageEvents: the events of a message, encoded one after the other, are one block with the message and an id.
func FuzzMessageEvents(f *testing.F) {
	f.Add(10, "x")
	f.Add(maxEvent, "x")
	f.Add(maxEvent+1, "x")
	f.Add(3*maxEvent+7, "x")
	for size := range 4 { // so that characters lie across the borders of events
		f.Add(3*maxEvent+size, "\u2028")
		f.Add(3*maxEvent+size, "\u0085")
	}
	f.Fuzz(func(t *testing.T, size int, of string) {
		if !utf8.ValidString(of) || strings.ContainsAny(of, "\r\n") || of == "" {
			return
		}
		size = min(max(size, 1), MaxMessage)
		message := append(bytes.Repeat([]byte("x"), size%len(of)), bytes.Repeat([]byte(of), size/len(of))...)
		var got []byte
		events := messageEvents(message)
		for i := range events {
			e := events[i]
			e.Seq = uint64(i + 1)
			if e.Type == "" {
				e.Type = typeMessage
			}
			got = form{"S"}.AppendEvent(got, &e, ".c")
		}
		if !bytes.HasPrefix(got, []byte("event: message\n")) || bytes.Count(got, []byte("\n\n")) != 1 ||
			bytes.Count(got, []byte("id: S~")) != 1 ||
			!bytes.Contains(got, reprise.AppendJSONLine([]byte("data: "), message)) {
			t.Fatalf("%d bytes became %.100q...", len(message), got)
		}
	})
}
